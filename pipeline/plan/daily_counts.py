"""Counts of event × UTC day × outcome, spilled to disk before they grow: years times event names is no constant."""

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

MOST = 100_000


def day_name(day: int) -> str:
    """`2021-03-01` of days since 1970."""
    return format_utc(day * DAY)[:10]


class DailyCounts:
    """Counts that only ever add up. `items` gives them sorted, once at the end."""

    def __init__(self, directory: Path, most: int = MOST) -> None:
        self._directory = directory
        self._most = most
        self._held: Counter[Cell] = Counter()
        self._runs: list[Path] = []

    def add(self, counts: Mapping[Cell, int]) -> None:
        held = self._held
        for cell, count in counts.items():
            held[cell] += count
        if len(held) > self._most:
            self._spill()

    def move(self, event: str, day: int, outcome: str, count: int) -> None:
        """So many events of a cell were mapped and are now left out."""
        self.add({(event, day, "mapped"): -count, (event, day, outcome): count})

    def items(self) -> Iterator[tuple[Cell, int]]:
        """Every cell with its count, ascending; cells that came to nothing are left out."""
        runs = [_read(path) for path in self._runs]
        merged = heapq.merge(*runs, sorted(self._held.items()))
        for cell, same in groupby(merged, key=lambda pair: pair[0]):
            count = sum(number for _, number in same)
            if count:
                yield cell, count

    def _spill(self) -> None:
        path = self._directory / f"cells-{len(self._runs):04d}.run"
        with path.open("wb") as file:
            for pair in sorted(self._held.items()):
                file.write(msgspec.json.encode(pair) + b"\n")
        self._runs.append(path)
        self._held.clear()


def _read(path: Path) -> Iterator[tuple[Cell, int]]:
    decode = msgspec.json.Decoder(tuple[Cell, int]).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def sorted_counts(counts: Counter[str]) -> dict[str, int]:
    """Counts, the most frequent first, equal ones by name; what came to nothing is left out."""
    return dict(sorted(((code, n) for code, n in counts.items() if n), key=lambda pair: (-pair[1], pair[0])))
