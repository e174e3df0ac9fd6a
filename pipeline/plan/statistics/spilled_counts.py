"""Tables of many keys, which go to disk before they grow large: in memory, and in sorted files that are merged once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import groupby
from operator import add, itemgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

MOST_KEYS = 100_000
V = TypeVar("V")
_key, _value = itemgetter(0), itemgetter(1)


class SpilledTable(Generic[V]):
    """Values of the type `value` by key, a tuple of texts and whole numbers of the type `key`; `merge` makes one of the
    two values of a key, in any order. `items` returns them, once at the end. `name` is that of its files in
    `directory`, and `most` how many keys are in memory.
    """

    def __init__(
        self, directory: Path, name: str, key: Any, value: Any, merge: Callable[[V, V], V], most: int = MOST_KEYS
    ) -> None:
        self._directory = directory
        self._name = name
        self._most = most
        self._merge = merge
        self._decode = msgspec.json.Decoder(tuple[key, value]).decode
        self._values: dict[Any, V] = {}
        self._runs: list[Path] = []

    def put(self, key: Any, value: V) -> None:
        """Add a value, to that of its key if it has one."""
        values = self._values
        values[key] = self._merge(values[key], value) if key in values else value
        if len(values) > self._most:
            self._spill()

    def items(self) -> Iterator[tuple[Any, V]]:
        """Every key with its value, ascending."""
        runs = [self._read(path) for path in self._runs]
        whole = heapq.merge(*runs, sorted(self._values.items(), key=_key), key=_key)
        for key, same in groupby(whole, key=_key):
            yield key, reduce(self._merge, map(_value, same))

    def _spill(self) -> None:
        path = self._directory / f"{self._name}-{len(self._runs):04d}.run"
        with path.open("wb") as file:
            for pair in sorted(self._values.items(), key=_key):
                file.write(msgspec.json.encode(pair) + b"\n")
        self._runs.append(path)
        self._values.clear()

    def _read(self, path: Path) -> Iterator[tuple[Any, V]]:
        with path.open("rb") as file:
            for line in file:
                yield self._decode(line)


class SpilledCounts(SpilledTable[int]):
    """Counts by key. `items` returns their sums without those of 0."""

    def __init__(self, directory: Path, name: str, key: Any, most: int = MOST_KEYS) -> None:
        super().__init__(directory, name, key, int, add, most)

    def add(self, counts: Mapping[Any, int]) -> None:
        current = self._values
        for key, count in counts.items():
            current[key] = current.get(key, 0) + count
        if len(current) > self._most:
            self._spill()

    def items(self) -> Iterator[tuple[Any, int]]:
        return ((key, count) for key, count in super().items() if count)
