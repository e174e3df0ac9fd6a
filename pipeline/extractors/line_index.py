"""Where the lines of some bytes begin and end, and which of them contain a byte position.

Computed on demand: most pieces of an export need none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The bytes in runs of whole lines, each up to the first newline after `size` bytes."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + size - 1) + 1 or len(data)
        yield data[start:end]
        start = end


class LineIndex:
    """The lines of some bytes, counted from 0, blank lines included; a *row* is a line that is not blank."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def starts(self) -> Positions:
        """Where each line begins."""
        ends = np.flatnonzero(np.frombuffer(self._data, np.uint8) == 0x0A) + 1
        if len(ends) and ends[-1] == len(self._data):
            ends = ends[:-1]
        return np.concatenate((np.zeros(1, np.int64), ends))

    def start(self, number: int) -> int:
        """Where a line begins; for the number after the last, the end of the bytes."""
        return int(self.starts[number]) if number < len(self.starts) else len(self._data)

    def line(self, number: int) -> bytes:
        """One line, without its newline."""
        start = int(self.starts[number])
        end = self._data.find(b"\n", start)
        return self._data[start:] if end < 0 else self._data[start:end]

    def containing(self, positions: Iterable[int]) -> list[int]:
        """The lines that contain these positions, each once, ascending."""
        sought = list(positions)
        return np.unique(np.searchsorted(self.starts, sought, "right") - 1).tolist() if sought else []

    def count(self, positions: Positions) -> list[int]:
        """How many of these ascending positions each line contains."""
        counts: list[int] = np.diff(np.searchsorted(positions, self.starts), append=len(positions)).tolist()
        return counts

    def row(self, number: int) -> int:
        """How many rows come before a line."""
        return number - len(self._blank[self._blank < number])

    def row_starts(self) -> list[int]:
        """Where each row begins."""
        starts: list[int] = np.delete(self.starts, self._blank).tolist()
        return starts

    @cached_property
    def _blank(self) -> Positions:
        """The lines of white space alone."""
        first = np.frombuffer(self._data, np.uint8)[self.starts]
        candidates = np.flatnonzero(first <= 0x20).tolist()
        return np.array([number for number in candidates if not self.line(number).strip()], np.int64)
