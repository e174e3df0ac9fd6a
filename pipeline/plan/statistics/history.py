"""What the daily counts of a plan show over time: events a day, in all and for the most frequent names.

Checks look here for days, names and levels that a person has to see. The counts come by name, ascending, as they are
written to cells.jsonl, so no row is read again. The series of at most `MOST_NAMES` names are kept.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

MOST_NAMES = 1_000
_ELSEWHERE = 1_100
"""Events further than this many days from the rest come from broken clocks: they say nothing about the days between."""

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


class HistoryBuilder:
    """Takes the counts name by name."""

    def __init__(self, most_names: int = MOST_NAMES) -> None:
        self._most = most_names
        self._total: Counter[int] = Counter()
        self._name: str | None = None
        self._days: list[int] = []
        self._counts: list[int] = []
        self._largest: list[tuple[int, str, Series]] = []
        self._spans: dict[str, Span] = {}

    def add(self, event: str, day: int, count: int) -> None:
        """Add the events of a name on a day. All days of a name come together, ascending."""
        if event != self._name:
            self._end_name()
            self._name = event
        self._days.append(day)
        self._counts.append(count)
        self._total[day] += count

    def history(self) -> History:
        """The history of everything that was added."""
        self._end_name()
        days = sorted(self._total)
        names = {name: series for _, name, series in sorted(self._largest, key=lambda one: (-one[0], one[1]))}
        return History(series_of(days, [self._total[day] for day in days]), names, self._spans)

    def _end_name(self) -> None:
        if self._name is None or not self._days:
            return
        events = sum(self._counts)
        self._spans[self._name] = Span(self._days[0], self._days[-1], events)
        if len(self._largest) < self._most or events > self._largest[0][0]:
            series = series_of(self._days, self._counts)
            push = heapq.heappush if len(self._largest) < self._most else heapq.heapreplace
            push(self._largest, (events, self._name, series))
        self._days, self._counts = [], []


def series_of(days: Sequence[int], counts: Sequence[int]) -> Series:
    """The series of ascending days, without days that lie years away from most of the events."""
    if not days:
        return NO_SERIES
    at, numbers = np.asarray(days, np.int64), np.asarray(counts, np.int64)
    parts = np.split(np.arange(len(at)), np.flatnonzero(np.diff(at) > _ELSEWHERE) + 1)
    part = max(parts, key=lambda part: int(numbers[part].sum()))
    at, numbers = at[part], numbers[part]
    dense = np.zeros(int(at[-1] - at[0]) + 1, np.int64)
    dense[at - at[0]] = numbers
    return Series(int(at[0]), dense)
