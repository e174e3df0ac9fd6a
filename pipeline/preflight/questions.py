"""Queries that preflight asks of a target, resumable and within the limits of the query interface.

The service answers 100 rows to a query without a LIMIT and cuts off after 50,000, allows only so many queries a minute,
and stops a query that reads for too long (docs/know/service.md#query-interface). So each query here has its own limit
below that, comes in pages of whole days, is asked again if the service asks to wait, and is divided if it takes
too long. Each answer is kept in the plan's directory until the preflight has ended, so an interrupted one resumes where
it was. The same answers lead to the same queries, so a query's own text finds its answer again.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pipeline.errors import Unfinished
from pipeline.files import private, write_atomically
from pipeline.management import ManagementClient
from pipeline.management.client import QueryAnswer
from pipeline.management.moments import between

PAGE = 20_000
"""Rows in one page."""
MOST_ROWS = 50_000
"""The service cuts off after this many rows (docs/know/service.md#query-interface)."""
A_MINUTE = 100
"""Queries in any 60 seconds; the service allows 120 (docs/know/service.md#query-interface)."""
KEPT = 3_600.0
"""Seconds for which a kept answer counts; after that the target may have changed."""
PATIENCE = 180.0
"""Seconds to wait in all, if the service asks to wait."""
_PAUSE = 5.0
_TOO_MUCH = (504, 513)
"""The statuses of a query that took too long, or needed too much memory (docs/know/service.md#query-interface)."""

T = TypeVar("T")


class _Kept(msgspec.Struct):
    query: str
    results: list[list[Any]]
    more: bool = False


class Questions:
    """Asks a project. `folder` keeps the answers, None keeps none; `of` names what they are about (a plan, a target).

    `pause` waits this many seconds; tests pass one that does not wait.
    """

    def __init__(
        self, client: ManagementClient, folder: Path | None, of: str, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._client = client
        self._folder = folder
        self._of = of
        self._pause = pause
        self._asked: deque[float] = deque()
        self._patience = PATIENCE
        self.queries = 0
        """How many queries were asked, not counting those with a kept answer."""

    def query(self, sql: str) -> QueryAnswer:
        """The answer to one SELECT, asked now or a short while ago. Raises Refused, Unfinished."""
        name = hashlib.sha256(f"{self._of}\n{sql}".encode()).hexdigest()[:32] + ".json"
        if (kept := self._read(name, sql)) is not None:
            return QueryAnswer([], [], kept.results, kept.more)
        answer = self._ask(sql)
        self._keep(name, _Kept(sql, answer.results, answer.more))
        return answer

    def divided(self, since: date, until: date, read: Callable[[date, date], list[T]]) -> Iterator[list[T]]:
        """What `read` gives for the days from `since` up to, but not including, `until`, in pieces if it takes too
        long.

        Raises Refused, and Unfinished for a single day that takes too long.
        """
        try:
            yield read(since, until)
        except Unfinished as error:
            middle = since + timedelta(days=(until - since).days // 2)
            if error.status not in _TOO_MUCH or middle <= since:
                raise
            yield from self.divided(since, middle, read)
            yield from self.divided(middle, until, read)

    def by_day(self, select: str, since: date, until: date, order: str, page: int = PAGE) -> list[list[Any]]:
        """All rows of a SELECT whose first column is the UTC day, for the days from `since` up to, but not including,
        `until`.

        `select` has `{days}` in place of the condition for the days, and ends with its GROUP BY; `order` are the
        columns after the day that make the order complete. A page ends with a whole day, so events that arrive
        between two pages move no rows. Raises Refused, Unfinished.
        """
        found: list[list[Any]] = []
        limit = page
        while since < until:
            answer = self.query(f"{select.format(days=between(since, until))} order by day, {order} limit {limit}")
            rows = answer.results
            if len(rows) < limit and not answer.more:
                return found + rows
            last = _day(rows[-1])
            complete = [row for row in rows if _day(row) != last]
            if complete:
                found += complete
                since, limit = last, page
            elif len(rows) < limit or limit >= MOST_ROWS:
                raise Unfinished(f"the day {last} has more than {len(rows):,} rows", hint="look at that day yourself")
            else:
                limit = min(limit * 2, MOST_ROWS)
        return found

    def by_name(self, select: str, since: date, until: date, page: int = PAGE) -> list[list[Any]]:
        """All rows of a SELECT whose first column is the event's name, for events of some days, page by page.

        `select` is as for `by_day`. Raises Refused, Unfinished.
        """
        found: list[list[Any]] = []
        while True:
            days = select.format(days=between(since, until))
            answer = self.query(f"{days} order by event limit {page} offset {len(found)}")
            found += answer.results
            if not answer.results or (len(answer.results) < page and not answer.more):
                return found

    def forget(self) -> None:
        """Remove the kept answers, since the preflight has ended."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, sql: str) -> QueryAnswer:
        pause = _PAUSE
        while True:
            self._wait_for_turn()
            self.queries += 1
            try:
                return self._client.query(sql)
            except Unfinished as error:
                busy = error.status == 429 or (error.status >= 500 and error.status not in _TOO_MUCH)
                wait = max(error.retry_after, pause)
                if not busy or wait > self._patience:
                    raise
                self._patience -= wait
                self._pause(wait)
                pause *= 2

    def _wait_for_turn(self) -> None:
        now = time.monotonic()
        while self._asked and self._asked[0] <= now - 60:
            self._asked.popleft()
        if len(self._asked) >= A_MINUTE:
            self._pause(self._asked.popleft() + 60 - now)
        self._asked.append(time.monotonic())

    def _read(self, name: str, sql: str) -> _Kept | None:
        if self._folder is None:
            return None
        path = self._folder / name
        with suppress(OSError, msgspec.MsgspecError):
            if abs(time.time() - path.stat().st_mtime) < KEPT:
                kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
                return kept if kept.query == sql else None
        return None

    @private()
    def _keep(self, name: str, kept: _Kept) -> None:
        if self._folder is None:
            return
        with suppress(OSError):  # an unwritable directory is no reason not to look
            self._folder.mkdir(exist_ok=True)
            write_atomically(self._folder / name, msgspec.json.encode(kept))


def _day(row: list[Any]) -> date:
    return date.fromisoformat(str(row[0])[:10])


def days_of(first: str, last: str) -> tuple[date, date]:
    """The days from `2023-01-31` to another one as a half-open range."""
    return date.fromisoformat(first), date.fromisoformat(last) + timedelta(days=1)
