"""What the daily counts of a plan show over time: events a day, in all and for the most frequent names.

Checks look here for days, names and levels that a person has to see. The series of at most `MOST_NAMES` names are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pipeline.identity.database import Database

MOST_NAMES = 1_000
_ELSEWHERE = 1_100
"""Events further than this many days from the rest come from broken clocks: they say nothing about the days between."""
_TOTAL = "SELECT day, sum(events)::BIGINT FROM days GROUP BY day ORDER BY day"
_SPANS = "SELECT name, min(day), max(day), sum(events)::BIGINT FROM days GROUP BY name"
_SERIES = """
SELECT name, day, events FROM days JOIN (
    SELECT name, row_number() OVER (ORDER BY sum(events) DESC, name) AS nth
    FROM days GROUP BY name ORDER BY nth LIMIT {most}
) USING (name) ORDER BY nth, day
"""

Counts = NDArray[np.int64]


class Series(NamedTuple):
    """Events a day, for every day from `first` (days since 1970) on. Without events the series is empty."""

    first: int
    counts: Counts

    @property
    def last(self) -> int:
        return self.first + len(self.counts) - 1

    def between(self, first: int, end: int) -> int:
        """The events from the day `first` up to, but not including, the day `end`."""
        return int(self.counts[max(first - self.first, 0) : max(end - self.first, 0)].sum())


NO_SERIES = Series(0, np.zeros(0, np.int64))


class Span(NamedTuple):
    """The first and the last day of an event name, and how many events it has."""

    first: int
    last: int
    events: int


class History(msgspec.Struct, frozen=True):
    """Events by day, of all names and of the most frequent ones, and the span of each name."""

    total: Series = NO_SERIES
    names: Mapping[str, Series] = msgspec.field(default_factory=dict)
    spans: Mapping[str, Span] = msgspec.field(default_factory=dict)


def read_history(database: Database, most_names: int = MOST_NAMES) -> History:
    """The history in the table `days` (`daily_counts`), the most frequent names first."""
    by_name = groupby(database.rows(_SERIES.format(most=most_names)), itemgetter(0))
    return History(
        series_of(database.rows(_TOTAL)),
        {name: series_of(one[1:] for one in some) for name, some in by_name},
        {name: Span(*span) for name, *span in database.rows(_SPANS)},
    )


def series_of(counts: Iterable[tuple[int, int]]) -> Series:
    """The series of ascending days with their events, without days that lie years away from most of the events."""
    at, numbers = np.array([*counts], np.int64).reshape(-1, 2).T
    if not len(at):
        return NO_SERIES
    parts = np.split(np.arange(len(at)), np.flatnonzero(np.diff(at) > _ELSEWHERE) + 1)
    part = max(parts, key=lambda part: int(numbers[part].sum()))
    at, numbers = at[part], numbers[part]
    dense = np.zeros(int(at[-1] - at[0]) + 1, np.int64)
    dense[at - at[0]] = numbers
    return Series(int(at[0]), dense)
