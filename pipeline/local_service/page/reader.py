"""Reads the store for the page: one project at a time, in bounded time, with a cache for slow answers."""

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
    """The last few answers to slow queries. One thread at a time."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The answer that is cached for the key, else that of `make`."""
        if key in self._answers:
            self._answers.move_to_end(key)
        else:
            self._answers[key] = make()
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        found: Value = self._answers[key]
        return found


class ProjectReader:
    """Reads one project of the store. One thread at a time."""

    def __init__(self, store: Store, project: int, cached: Cache) -> None:
        self.project = project
        self._store = store
        self._cache = cached

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT over the tables and the views of the project. Raises BadQuery, SlowQuery.

        Persons and groups are as they were when they were processed last.
        """
        return self._store.select(sql, self.project, seconds=SECONDS, people=False)

    def number(self, sql: str) -> int:
        """The one number of a SELECT. Raises BadQuery, SlowQuery."""
        return int(self.rows(sql)[0][0])

    def events_table(self) -> str:
        """The table of the events that are left after duplicates collapsed.

        Where there is no duplicate that is every accepted event, which saves collapsing, the slowest part of a query.
        """
        gone = self.cached("gone", lambda: bool(self.rows(_GONE)))
        return "collapsed" if gone else "accepted"

    def cached(self, name: Hashable, make: Callable[[], Value]) -> Value:
        """The answer of `make`, cached until the next event is accepted."""
        return self._cache.get((self.project, name, self._store.raw_count()), make)


def literal(text: str) -> str:
    """A text as it is written in SQL."""
    return " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in text.split("\0"))
