"""ProjectReader the store for the page: one project, bounded time, and the dear answers cached."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from pipeline.local_service.store.database import Store

SECONDS = 20.0
"""A query of the page that takes longer is stopped."""
PAGE = 50
"""Rows of one page of a list."""
MOST_PAGES = 10_000
_REMEMBERED = 64
_GONE = "SELECT receipt FROM accepted WHERE receipt NOT IN (SELECT receipt FROM collapsed) LIMIT 1"

Value = TypeVar("Value")


class Cache:
    """The last few answers that took long to find. One thread at a time."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What was found for the key before, else what `make` finds now."""
        if key in self._held:
            self._held.move_to_end(key)
        else:
            self._held[key] = make()
            if len(self._held) > _REMEMBERED:
                self._held.popitem(last=False)
        found: Value = self._held[key]
        return found


class ProjectReader:
    """The store as one project of it is read. One thread at a time."""

    def __init__(self, store: Store, project: int, cached: Cache) -> None:
        self.project = project
        self._store = store
        self._cache = cached

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT over the tables, and the views of the project: persons and groups as they were last
        worked out. Raises BadQuery, SlowQuery."""
        return self._store.select(sql, self.project, seconds=SECONDS, people=False)

    def number(self, sql: str) -> int:
        """The one number of a SELECT. Raises BadQuery, SlowQuery."""
        return int(self.rows(sql)[0][0])

    def events_table(self) -> str:
        """What to select the events from that are left after copies collapsed. Where no copy is gone that is every
        accepted one, and collapsing, which takes longest of a query, is spared."""
        gone = self.cached("gone", lambda: bool(self.rows(_GONE)))
        return "collapsed" if gone else "accepted"

    def cached(self, name: Hashable, make: Callable[[], Value]) -> Value:
        """What `make` finds, found once for all that was accepted until now."""
        return self._cache.get((self.project, name, self._store.raw_count()), make)


def literal(text: str) -> str:
    """A text as it is written in SQL."""
    return " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in text.split("\0"))
