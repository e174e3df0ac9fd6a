"""The ids that events have, each once: when its first event is, how many there are, whether it is a user's.

They are known by the 64-bit hash of the distinct_id. Each process folds those of its rows (`identity.aggregator`); here
what they hand over is folded once more. What is too much for memory is spread over files by the first bits of the
hash, so memory does not grow with the people of an export (docs/know/promises.md#constant-memory).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.aggregator import IdColumns

ID = np.dtype([("person", "<u8"), ("time", "<i8"), ("events", "<u8"), ("place", "<i8"), ("user", "<u4")])
"""One id: xxh3-64 of it, µs UTC of its first event, its events (copies count), the place of the first in the source
(`identity.aggregator.PLACE_SHIFT`), and 1 where one names it a user's."""
AT_ONCE = 150_000
_SPREAD_BITS = 6
_BOUNDS = np.arange(1 << _SPREAD_BITS, dtype=np.uint64) << np.uint64(64 - _SPREAD_BITS)


class EventIds:
    """The ids in a file at `path`, sorted by hash; `at_once` are given in one piece."""

    def __init__(self, path: Path, at_once: int = AT_ONCE) -> None:
        self._path = path
        self._at_once = at_once

    def chunks(self) -> Iterator[NDArray[np.void]]:
        """ID records in their order, some at a time."""
        with self._path.open("rb") as file:
            while len(chunk := np.fromfile(file, ID, self._at_once)):
                yield chunk


class EventIdAggregator:
    """Folds what processes hand over of ids, in any order and pieces, into a file at `path`.

    No more than `at_once` ids, and those of one piece, are held in memory.
    """

    def __init__(self, path: Path, at_once: int = AT_ONCE) -> None:
        self._path = path
        self._at_once = at_once
        self._scratch = path.with_name(path.name + ".parts")
        self._parts = [self._scratch / f"{number:02d}" for number in range(len(_BOUNDS))]
        self._held = np.zeros(0, ID)

    def add(self, ids: IdColumns) -> None:
        """Add some ids; one may come again."""
        self._held = _folded(np.concatenate((self._held, _records(ids))))
        if len(self._held) <= self._at_once:
            return
        self._scratch.mkdir(exist_ok=True)
        for path, some in zip(self._parts, _cut(self._held), strict=True):
            with path.open("ab") as file:
                some.tofile(file)
        self._held = self._held[:0].copy()

    def finish(self) -> EventIds:
        """All ids. Nothing is added any more."""
        with self._path.open("wb") as table:
            for ids in self._folded_parts():
                ids.tofile(table)
        return EventIds(self._path, self._at_once)

    def _folded_parts(self) -> Iterator[NDArray[np.void]]:
        """Each id once, sorted, in bounded arrays."""
        held, self._held = self._held, np.zeros(0, ID)
        if not self._scratch.exists():
            yield held
            return
        for path, ids in zip(self._parts, _cut(held), strict=True):
            with path.open("rb") as file:
                while len(some := np.fromfile(file, ID, self._at_once)):
                    ids = _folded(np.concatenate((ids, some)))
            yield ids
        shutil.rmtree(self._scratch)


def _records(ids: IdColumns) -> NDArray[np.void]:
    hashed = np.frombuffer(ids.hashed, np.uint64)
    records = np.empty(len(hashed), ID)
    records["person"] = hashed
    for name, column in (("time", ids.first), ("events", ids.events), ("place", ids.places), ("user", ids.users)):
        records[name] = np.frombuffer(column, np.int64)
    return records


def _cut(ids: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    cuts = [*np.searchsorted(ids["person"], _BOUNDS).tolist(), len(ids)]
    yield from (ids[start:stop] for start, stop in pairwise(cuts))


def _folded(ids: NDArray[np.void]) -> NDArray[np.void]:
    """Each id once, sorted: the earliest time and place, the events added up, a user's where any is."""
    if not len(ids):
        return ids
    person = np.ascontiguousarray(ids["person"])
    order = np.argsort(person)
    person = person[order]
    starts = np.flatnonzero(np.concatenate(([True], person[1:] != person[:-1])))
    folded = np.empty(len(starts), ID)
    folded["person"] = person[starts]
    for name, fold in (("time", np.minimum), ("place", np.minimum), ("events", np.add), ("user", np.maximum)):
        folded[name] = fold.reduceat(ids[name][order], starts)
    return folded
