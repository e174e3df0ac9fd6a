"""Reads the store for the page: one project at a time, in bounded time, with a cache for slow queries."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pipeline.local_service.store.database import Store

SECONDS = 20.0
"""A query of the page that takes longer is stopped."""
PAGE = 50
"""Rows of one page of a list."""
MOST_PAGES = 10_000
_CACHED_QUERIES = 64
_DUPLICATE = "SELECT receipt FROM accepted WHERE receipt NOT IN (SELECT receipt FROM collapsed) LIMIT 1"


class ProjectReader:
    """Reads one project of the store. `cached` is a `select` that remembers, see `cached_select`."""

    def __init__(self, store: Store, project: int, cached: Any) -> None:
        self.project = project
        self._store = store
        self._cached = cached

    def rows(self, sql: str) -> list[Any]:
        """The rows, as named tuples, of a SELECT over the tables and the views of the project.

        Persons and groups are as they were when they were processed last. Raises BadQuery, SlowQuery.
        """
        return self._store.select(sql, self.project, seconds=SECONDS, people=False)

    def cached_rows(self, sql: str, *, project: int | None = None) -> list[Any]:
        """The rows of a SELECT over events alone, cached until the next event is accepted."""
        rows: list[Any] = self._cached(sql, self.project if project is None else project, self._store.raw_count())
        return rows

    def number(self, sql: str) -> int:
        return int(self.rows(sql)[0][0])

    def page(self, columns: str, source: str, order: str, number: int) -> tuple[list[Any], int]:
        """The rows of one page of a list, by its number from 1, and how many rows all its pages have."""
        rows = self.rows(f"SELECT {columns} FROM {source} ORDER BY {order} LIMIT {PAGE} OFFSET {(number - 1) * PAGE}")
        return rows, self.number(f"SELECT count(*) FROM {source}")

    def events_table(self) -> str:
        """The table of the events after duplicates collapsed.

        Without duplicates that is every accepted event, which saves collapsing, the slowest part of a query.
        """
        return "collapsed" if self.cached_rows(_DUPLICATE) else "accepted"

    def event_names(self, most: int, condition: str = "") -> tuple[list[tuple[str, int]], int]:
        """The most frequent event names with their counts, and how many names follow."""
        rows = self.cached_rows(
            f"SELECT event, count(*) AS events, count(*) OVER () FROM {self.events_table()} "
            f"WHERE {condition or f'project = {self.project}'} GROUP BY event ORDER BY events DESC, event LIMIT {most}"
        )
        return [(name, count) for name, count, _ in rows], max(0, rows[0][2] - most) if rows else 0


def cached_select(store: Store) -> Any:
    """The rows of an SQL text for a project and a number of accepted events, with those of the last few texts kept."""
    return lru_cache(_CACHED_QUERIES)(
        lambda sql, project, accepted: store.select(sql, project, seconds=SECONDS, people=False)
    )


def literal(text: str) -> str:
    """A string as it is written in SQL."""
    return " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in text.split("\0"))
