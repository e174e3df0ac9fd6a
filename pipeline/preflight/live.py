"""What a target already has: its events counted by name and UTC day, the import's own apart from everyone else's.

An event is *live* here if it does not carry this import's provenance. So events of an SDK are live, and so are those
of a script that imported history before; `pipeline.preflight.matches` tells these apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec

from pipeline.errors import Unfinished
from pipeline.management.moments import UTC_DAY
from pipeline.preflight.questions import PAGE, Questions
from pipeline.timestamps import format_utc, read_iso

Cell = tuple[str, str]
"""Event name and UTC day."""
MOST_CELLS = 500_000
"""At most this many cells of a target are kept in memory; if there are more, they are not compared."""
ANY_IMPORT = "JSONExtractString(properties, 'analytics_source') <> ''"
"""The condition for an event of any import, for use if no plan says which."""
_BEGINNING = date(1970, 1, 1)


class LiveName(NamedTuple):
    """The live events of one name: how many, and the first and the last, in µs UTC."""

    events: int
    first: int
    last: int


class LiveEvents(msgspec.Struct, frozen=True):
    """The live events of a project by name, over all time."""

    names: Mapping[str, LiveName] = msgspec.field(default_factory=dict)

    @property
    def first(self) -> int | None:
        """The time of the first one in µs UTC, or None."""
        return min((name.first for name in self.names.values()), default=None)

    @property
    def first_name(self) -> str:
        """The name of the first one, or ""."""
        return min(self.names, key=lambda name: (self.names[name].first, name), default="")

    @property
    def events(self) -> int:
        return sum(name.events for name in self.names.values())


class TargetCells(msgspec.Struct, frozen=True):
    """Events of a project by name and UTC day, within the days of a plan: live ones, and the import's own."""

    live: Mapping[Cell, int]
    own: Mapping[Cell, int]

    def __contains__(self, cell: Cell) -> bool:
        return cell in self.live or cell in self.own

    def count(self, cell: Cell) -> int:
        return self.live.get(cell, 0) + self.own.get(cell, 0)


def read_live(questions: Questions, own: str, now: datetime, page: int = PAGE) -> LiveEvents:
    """The live events of a project until a day after `now`. `own` is the condition for events that are not live, or "".

    Raises Refused, Unfinished.
    """
    select = "select event, count(*), min(timestamp), max(timestamp) from events where {days}" + _but(own)
    select += " group by event"

    def read(since: date, until: date) -> list[tuple[str, LiveName]]:
        rows = questions.by_name(select, since, until, page)
        return [(str(event), LiveName(int(count), micros(first), micros(last))) for event, count, first, last in rows]

    names: dict[str, LiveName] = {}
    for found in questions.divided(_BEGINNING, now.date() + timedelta(days=2), read):
        for event, name in found:
            before = names.get(event, name._replace(events=0))
            names[event] = LiveName(
                before.events + name.events, min(before.first, name.first), max(before.last, name.last)
            )
    return LiveEvents(names)


def read_cells(questions: Questions, own: str, since: date, until: date, page: int = PAGE) -> TargetCells:
    """The events of a project by name and UTC day, for the days from `since` up to, but not including, `until`.

    `own` is the condition for the import's own events, or "". Raises Refused, Unfinished.
    """
    live: Counter[Cell] = Counter()
    mine: Counter[Cell] = Counter()
    for counts, condition in ((live, _but(own)), (mine, own and f" and {own}")):
        if counts is mine and not own:
            continue
        select = f"select {UTC_DAY} as day, event, count(*) from events where {{days}}" + condition
        select += " group by day, event"
        for rows in questions.divided(since, until, partial(_by_day, questions, select, page)):
            counts.update({(str(event), str(day)[:10]): int(count) for day, event, count in rows})
            if len(live) + len(mine) > MOST_CELLS:
                raise Unfinished(f"the project has more than {MOST_CELLS:,} counts by name and day")
    return TargetCells(live, mine)


def _by_day(questions: Questions, select: str, page: int, since: date, until: date) -> list[list[Any]]:
    return questions.by_day(select, since, until, "event", page)


def _but(own: str) -> str:
    """The condition that excludes the import's own events, to be appended to another condition."""
    return own and f" and not ({own})"


def micros(moment: object) -> int:
    """A time in an answer in µs UTC; a time without an offset is in UTC. Raises ValueError."""
    return read_iso(str(moment), space=True).us


def moment_text(us: int) -> str:
    """µs UTC in messages: whole seconds."""
    return format_utc(us // 1_000_000 * 1_000_000)
