"""The ids that events have, each once: when its first event is, how many there are, whether it is a user's.

Key records are folded by the 64-bit hash of the distinct_id; what is too much for memory is spread over files by the
first bits of the hash, so memory does not grow with the people of an export (law 8).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.make import USER

ID = np.dtype([("person", "<u8"), ("time", "<i8"), ("events", "<u8"), ("name", "<u4")])
"""One id: xxh3-64 of it, µs UTC of its first event, its events (copies count), and USER where one names it a user's."""
AT_ONCE = 400_000
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


def fold_ids(chunks: Iterable[NDArray[np.void]], path: Path, at_once: int = AT_ONCE) -> EventIds:
    """Fold key records (`pipeline.make.KEY`), in any order and pieces, into a file at `path`.

    No more than `at_once` ids, and those of one chunk, are held in memory.
    """
    scratch = path.with_name(path.name + ".parts")
    with path.open("wb") as table:
        for ids in _folded_parts(chunks, scratch, at_once):
            ids.tofile(table)
    return EventIds(path, at_once)


def _folded_parts(chunks: Iterable[NDArray[np.void]], scratch: Path, at_once: int) -> Iterator[NDArray[np.void]]:
    """Each id once, sorted, in bounded arrays."""
    names = [scratch / f"{number:02d}" for number in range(len(_BOUNDS))]
    held = np.zeros(0, ID)
    for chunk in chunks:
        held = _folded(np.concatenate((held, _folded(_as_ids(chunk)))))
        if len(held) > at_once:
            scratch.mkdir(exist_ok=True)
            for name, ids in zip(names, _cut(held), strict=True):
                with name.open("ab") as file:
                    ids.tofile(file)
            held = held[:0]
    if not scratch.exists():
        yield held
        return
    for name, ids in zip(names, _cut(held), strict=True):
        with name.open("rb") as file:
            while len(some := np.fromfile(file, ID, at_once)):
                ids = _folded(np.concatenate((ids, some)))
        yield ids
    shutil.rmtree(scratch)


def _cut(ids: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    cuts = [*np.searchsorted(ids["person"], _BOUNDS).tolist(), len(ids)]
    yield from (ids[start:stop] for start, stop in pairwise(cuts))


def _as_ids(keys: NDArray[np.void]) -> NDArray[np.void]:
    ids = np.empty(len(keys), ID)
    ids["person"], ids["time"], ids["name"] = keys["person"], keys["time"], keys["name"] & USER
    ids["events"] = 1
    return ids


def _folded(ids: NDArray[np.void]) -> NDArray[np.void]:
    """Each id once, sorted: the earliest time, the events added up, the marks together."""
    if not len(ids):
        return ids
    order = np.argsort(ids["person"], kind="stable")
    person = ids["person"][order]
    starts = np.flatnonzero(np.concatenate(([True], person[1:] != person[:-1])))
    folded = np.empty(len(starts), ID)
    folded["person"] = person[starts]
    folded["time"] = np.minimum.reduceat(ids["time"][order], starts)
    folded["events"] = np.add.reduceat(ids["events"][order], starts)
    folded["name"] = np.bitwise_or.reduceat(ids["name"][order], starts)
    return folded
