"""Writes lookup tables that are too large for memory (`pipeline.mapper.program.lookup_table` reads them)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.mapper.program.lookup_table import HEAD, LENGTHS
from pipeline.plan.sealed.directory import Directory

_SLOTS = np.dtype([("hash", "<u8"), ("entry", "<u8")])
_AT_ONCE = 50_000


class LookupWriter:
    """The entries of all tables of a plan: at most this number. Use as a context manager."""

    def __init__(self, directory: Directory, most: int) -> None:
        self._bits = max(1, (most * 3 // 2).bit_length())
        self._entries = directory.lookup_entries.open("wb", buffering=1 << 20)
        self._slots = directory.lookup_slots.open("wb", buffering=1 << 20)
        self._slots.write(HEAD.pack(0, 0))
        self._end = 0
        self._some: list[tuple[int, int]] = []

    def add(self, hashed: int, key: bytes, value: bytes) -> None:
        """Add the entry of a `stored_key` with its xxh3-64, in the order of these hashes."""
        self._some.append((hashed, self._entries.tell()))
        self._entries.write(LENGTHS.pack(len(key), len(value)) + key + value)
        if len(self._some) == _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._some:
            hashes, places = np.array(self._some, np.uint64).T
            slots = _slots_of(hashes, places, self._bits, self._end)
            self._slots.write(slots.view(np.uint8).data)
            self._end += len(slots)
            self._some.clear()

    def __enter__(self) -> LookupWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._slots.seek(0)
        self._slots.write(HEAD.pack(self._bits, self._end))
        self._slots.close()
        self._entries.close()


def _slots_of(hashes: NDArray[np.uint64], places: NDArray[np.uint64], bits: int, end: int) -> NDArray[np.void]:
    """The slots from number `end` on, up to the last slot that these keys take."""
    order = np.arange(len(hashes), dtype=np.int64)
    home = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    taken = np.maximum(np.maximum.accumulate(home - order), end) + order - end
    slots = np.zeros(int(taken[-1]) + 1, _SLOTS)
    slots["hash"][taken] = hashes
    slots["entry"][taken] = places + np.uint64(1)
    return slots
