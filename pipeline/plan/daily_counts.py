"""Daily counts: events by name, UTC day and outcome. They go to disk before they grow large, as years times names
can."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import msgspec

from pipeline.timestamps import DAY, format_utc

Cell: TypeAlias = tuple[str, int, str]
"""(event name, days since 1970, outcome): outcome is `mapped`, or the code of a skip or a reject."""

MAX_CELLS = 100_000


def day_name(day: int) -> str:
    """`2021-03-01` of days since 1970."""
    return format_utc(day * DAY)[:10]


class DailyCounts:
    """Counts in memory and in sorted files. `items` returns their sums, once at the end."""

    def __init__(self, directory: Path, most: int = MAX_CELLS) -> None:
        self._directory = directory
        self._most = most
        self._counts: Counter[Cell] = Counter()
        self._runs: list[Path] = []

    def add(self, counts: Mapping[Cell, int]) -> None:
        current = self._counts
        for cell, count in counts.items():
            current[cell] += count
        if len(current) > self._most:
            self._spill()

    def move(self, event: str, day: int, outcome: str, count: int) -> None:
        """Move a number of mapped events of a name and day to another outcome."""
        self.add({(event, day, "mapped"): -count, (event, day, outcome): count})

    def items(self) -> Iterator[tuple[Cell, int]]:
        """Every cell with its count, ascending, without those of 0."""
        runs = [_read(path) for path in self._runs]
        merged = heapq.merge(*runs, sorted(self._counts.items()))
        for cell, same in groupby(merged, key=lambda pair: pair[0]):
            count = sum(number for _, number in same)
            if count:
                yield cell, count

    def _spill(self) -> None:
        path = self._directory / f"cells-{len(self._runs):04d}.run"
        with path.open("wb") as file:
            for pair in sorted(self._counts.items()):
                file.write(msgspec.json.encode(pair) + b"\n")
        self._runs.append(path)
        self._counts.clear()


def _read(path: Path) -> Iterator[tuple[Cell, int]]:
    decode = msgspec.json.Decoder(tuple[Cell, int]).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def sorted_counts(counts: Counter[str]) -> dict[str, int]:
    """Counts, the most frequent first, equal ones by name; counts of 0 are left out."""
    return dict(sorted(((code, n) for code, n in counts.items() if n), key=lambda pair: (-pair[1], pair[0])))
