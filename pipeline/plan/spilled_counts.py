"""Counts of many keys, which go to disk before they grow large: in memory, and in sorted files that are merged once."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

MOST_KEYS = 100_000


class SpilledCounts:
    """Counts by key, a tuple of texts and whole numbers of the type `key`. `items` returns their sums, once at the end.

    `name` is that of its files in `directory`.
    """

    def __init__(self, directory: Path, name: str, key: Any, most: int = MOST_KEYS) -> None:
        self._directory = directory
        self._name = name
        self._most = most
        self._decode = msgspec.json.Decoder(tuple[key, int]).decode
        self._counts: Counter[Any] = Counter()
        self._runs: list[Path] = []

    def add(self, counts: Mapping[Any, int]) -> None:
        current = self._counts
        for key, count in counts.items():
            current[key] += count
        if len(current) > self._most:
            self._spill()

    def items(self) -> Iterator[tuple[Any, int]]:
        """Every key with its count, ascending, without those of 0."""
        runs = [self._read(path) for path in self._runs]
        merged = heapq.merge(*runs, sorted(self._counts.items()))
        for key, same in groupby(merged, key=lambda pair: pair[0]):
            count = sum(number for _, number in same)
            if count:
                yield key, count

    def _spill(self) -> None:
        path = self._directory / f"{self._name}-{len(self._runs):04d}.run"
        with path.open("wb") as file:
            for pair in sorted(self._counts.items()):
                file.write(msgspec.json.encode(pair) + b"\n")
        self._runs.append(path)
        self._counts.clear()

    def _read(self, path: Path) -> Iterator[tuple[Any, int]]:
        with path.open("rb") as file:
            for line in file:
                yield self._decode(line)
