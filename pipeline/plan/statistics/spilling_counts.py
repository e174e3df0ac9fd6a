"""Counts that are added up while rows are read. If there are many, they go to a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pipeline.identity.database import Database
from pipeline.plan.sealed.directory import read_lines

MOST_KEYS = 100_000
"""At most this many counts are in memory."""


class SpillingCounts:
    """Counts by key, a tuple of strings and integers. `file` does not exist yet."""

    def __init__(self, file: Path, most: int | None = None) -> None:
        self._file = file
        self._most = MOST_KEYS if most is None else most
        self._counts: Counter[Any] = Counter()

    def add(self, counts: Mapping[Any, int]) -> None:
        """Add counts."""
        self._counts.update(counts)
        if len(self._counts) > self._most:
            with self._file.open("ab") as file:
                file.write(msgspec.json.Encoder().encode_lines([(*key, n) for key, n in self._counts.items()]))
            self._counts.clear()

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Every key with its count, after all were added; a key may come several times."""
        if self._file.exists():
            yield from map(tuple, read_lines(self._file, list[Any]))
        yield from ((*key, count) for key, count in self._counts.items())

    def in_order(self, columns: str) -> Iterator[tuple[Any, ...]]:
        """Every key with its count, once, ascending. `columns` declares those of the key in SQL."""
        if not self._file.exists():
            yield from sorted(self.rows())
            return
        with Database(self._file.parent) as database:
            database.run(f"CREATE TABLE counts ({columns}, rows BIGINT)")
            database.insert("counts", self.rows())
            yield from database.tuples("SELECT * EXCLUDE rows, sum(rows)::BIGINT FROM counts GROUP BY ALL ORDER BY ALL")
