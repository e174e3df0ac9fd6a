"""The sample of a plan's events (`pipeline.transform.sample`): kept on disk while rows are read, then read by cell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.identity.kinds import PLACE_SHIFT
from pipeline.timestamps import DAY
from pipeline.transform.sample import MOST_OF_CELL, Sampled, Shares

_CHOSEN = np.dtype(
    [("cell", "<u4"), ("size", "<u4"), ("hash", "<u8"), ("place", "<u8"), ("time", "<i8"), ("at", "<u8")]
)  # fmt: skip
AT_ONCE = 16 * 1024 * 1024
"""This many bytes of events are in memory."""


class Some(NamedTuple):
    """Some sampled events of one name and month: their JSON texts, their places (the block's number, shifted left by
    PLACE_SHIFT, plus the row) and their days, in the order of the places."""

    texts: list[bytes]
    places: list[int]
    days: list[int]


class Month(NamedTuple):
    """One event name in one month (since January 1970): how many events it has, how many are in the sample, and the
    sampled ones."""

    month: int
    events: int
    sampled: int
    some: Iterator[Some]


class Size(NamedTuple):
    """`events` of `of` are in the sample: all events of a name and month if it has at most `of_cell`, else that
    many."""

    events: int = 0
    of: int = 0
    of_cell: int = MOST_OF_CELL


class EventSample:
    """Takes what the worker processes chose, block by block, and drops what does not belong in the sample."""

    def __init__(self, directory: Path, most: int) -> None:
        self._path = directory / "sample"
        self._file = self._path.open("w+b")
        self._shares = Shares(most)
        self._chosen: list[np.ndarray[tuple[int], np.dtype[np.void]]] = []
        self._at = 0

    def close(self) -> None:
        """Free memory and disk."""
        self._file.close()
        self._chosen.clear()
        with suppress(FileNotFoundError):
            self._path.unlink()

    def add(self, block: int, found: Sampled) -> None:
        """Add what a worker process chose from a block."""
        numbers = self._shares.add(found.cells, found.counts)
        kept = np.flatnonzero(found.hashes <= self._shares.bounds(numbers)[found.cell_of])
        chosen = np.zeros(len(kept), _CHOSEN)
        chosen["cell"] = numbers[found.cell_of[kept]]
        chosen["hash"] = found.hashes[kept]
        chosen["size"] = found.sizes[kept]
        chosen["place"] = (block << PLACE_SHIFT) + found.rows[kept]
        chosen["time"] = found.times[kept]
        chosen["at"] = self._at + (np.cumsum(found.sizes) - found.sizes)[kept]
        self._chosen.append(chosen)
        self._file.write(found.texts)
        self._at += len(found.texts)

    def names(self) -> Iterator[tuple[str, Iterator[Month]]]:
        """The event names in order, each with its months in order, even those without sampled events."""
        cells = self._shares.cells()
        chosen = self._choose()
        self._file.flush()
        starts = np.searchsorted(chosen["cell"], np.arange(len(cells) + 1))

        def month(number: int) -> Month:
            of_cell = chosen[starts[number] : starts[number + 1]]
            return Month(cells[number][1], self._shares.total(number), len(of_cell), self._read(of_cell))

        order = sorted(range(len(cells)), key=cells.__getitem__)
        for name, numbers in groupby(order, key=lambda number: cells[number][0]):
            yield name, map(month, numbers)

    def size(self) -> Size:
        """The size of the sample."""
        numbers = range(len(self._shares.cells()))
        return Size(len(self._choose()), sum(map(self._shares.total, numbers)), self._shares.of_cell)

    def _choose(self) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """The contents of the sample, by cell and place."""
        chosen = np.concatenate(self._chosen) if self._chosen else np.zeros(0, _CHOSEN)
        bounds = self._shares.bounds(np.arange(len(self._shares.cells())))
        chosen = chosen[chosen["hash"] <= bounds[chosen["cell"]]] if len(chosen) else chosen
        chosen = chosen[np.lexsort((chosen["at"], chosen["place"], chosen["cell"]))]
        self._chosen = [chosen]
        return chosen

    def _read(self, chosen: np.ndarray[tuple[int], np.dtype[np.void]]) -> Iterator[Some]:
        days = (chosen["time"] // DAY).tolist()
        places = chosen["place"].tolist()
        start = size = 0
        texts: list[bytes] = []
        file = self._file.fileno()
        for end, (at, length) in enumerate(zip(chosen["at"].tolist(), chosen["size"].tolist(), strict=True), 1):
            texts.append(os.pread(file, length, at))
            size += length
            if size >= AT_ONCE or end == len(chosen):
                yield Some(texts, places[start:end], days[start:end])
                start, size, texts = end, 0, []
