"""Events to send by hour of day: in UTC, and on the clock of the source.

People sleep, so most histories have a night. A wrong time zone moves it into the day, and it shows whether a clock is
put forward in spring (`pipeline.plan.checks.hours`). All of this comes from counts by quarter of an hour,
because every offset from UTC in use is a multiple of one. The counts take 16 bytes for each quarter that has events,
6 MB for ten years, since no event lies before 1970 or in the future.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.plan.sealed.facts import HoursSeal
from pipeline.plan.statistics.history import NO_SERIES, Series
from pipeline.timestamps import DAY
from pipeline.zone_clock import QUARTER, ZoneClock

Counts = NDArray[np.int64]
QUARTERS_A_DAY = DAY // QUARTER
NO_QUARTERS: Counts = np.zeros(0, np.int64)
_WEEKDAY_OF_1970 = 3
"""1 January 1970 was a Thursday; Monday is 0."""


class ClockChange(NamedTuple):
    """The source's clock is put forward at the quarter `at` (UTC), by this many quarters, or back if negative."""

    at: int
    by: int


class HourHistory:
    """Events by quarter of an hour since 1970 in UTC, and the source's clock, which `zones` describe."""

    def __init__(
        self, zones: Sequence[tuple[str, str]] = (), quarters: Counts = NO_QUARTERS, events: Counts = NO_QUARTERS
    ) -> None:
        self.clock = ZoneClock(zones)
        self.quarters = quarters
        """The numbers of the quarters that have events, ascending."""
        self.events = events
        """The number of events in each of `quarters`."""

    @cached_property
    def walls(self) -> Counts:
        """The numbers of `quarters` on the source's clock."""
        return self.quarters + self._offsets

    def days(self, total: Series) -> Series:
        """The events of each day of the source's clock, for the days of `total` (the same by UTC day) and a day more at
        each end."""
        return self._series(self.walls // QUARTERS_A_DAY, total.first - 1, total.last + 1) or total

    def by_hour(self, total: Series, *, source: bool = False) -> Series:
        """The events of each hour in UTC, or on the source's clock, for the days of `total`."""
        quarters = self.walls if source else self.quarters
        return self._series(quarters // 4, total.first * 24, total.last * 24 + 23) or NO_SERIES

    def _series(self, places: Counts, first: int, last: int) -> Series | None:
        """The events at each place from `first` to `last`; None without any."""
        some = (places >= first) & (places <= last)
        if not some.any():
            return None
        first, last = int(places[some].min()), int(places[some].max())
        return Series(first, by_place(places[some] - first, self.events[some], last - first + 1))

    @property
    def on_first_clock(self) -> Counts:
        """The numbers of `quarters` on the clock of the first zone, as if no other zone were declared."""
        return HourHistory(self.clock.zones[:1], self.quarters, self.events).walls

    @cached_property
    def _days(self) -> tuple[Counts, Counts, Counts, Counts]:
        """The days that have events, the day of each of `quarters`, and how far the source's clock is ahead of UTC at
        the beginning and at the end of these days, in quarters.

        Until the seventies, the zones of some countries were not ahead by whole quarters; their offsets are rounded.
        """
        days, number = np.unique(self.quarters // QUARTERS_A_DAY, return_inverse=True)
        first, last = (
            np.array([self._ahead((day + end) * QUARTERS_A_DAY) for day in days.tolist()], np.int64) for end in (0, 1)
        )
        return days, number, first, last

    @cached_property
    def _offsets(self) -> Counts:
        """How far the source's clock is ahead of UTC in each of `quarters`, in quarters.

        A day that begins and ends with the same offset has only that one.
        """
        _, number, first, last = self._days
        offsets = first[number]
        for place in np.flatnonzero((first != last)[number]).tolist():
            offsets[place] = self._ahead(int(self.quarters[place]))
        return offsets

    def _ahead(self, quarter: int) -> int:
        return round(self.clock.offset_at(quarter * QUARTER) / QUARTER)

    def changes(self) -> Iterator[ClockChange]:
        """When the source's clock is put forward or back by an hour or less, on days that have events. A date from
        which another zone was named does not count as a change."""
        declared = {since for _, since in self.clock.zones if since}
        days, _, first, last = self._days
        for place in np.flatnonzero((first != last) & (np.abs(last - first) <= 4)).tolist():
            day, after = int(days[place]), int(last[place])
            if declared.isdisjoint(str(np.datetime64(one, "D")) for one in (day - 1, day, day + 1)):
                quarters = range(day * QUARTERS_A_DAY + 1, (day + 1) * QUARTERS_A_DAY + 1)
                at = next(quarter for quarter in quarters if self._ahead(quarter) == after)
                yield ClockChange(at, after - int(first[place]))

    def seal(self, clock: str = "") -> HoursSeal:
        """The counts by hour of a day and of a week, for a report."""
        source = by_place(self.walls // 4 % 24, self.events, 24)
        days = (self.walls // QUARTERS_A_DAY + _WEEKDAY_OF_1970) % 7
        utc = by_place(self.quarters // 4 % 24, self.events, 24)
        return HoursSeal(utc.tolist(), source.tolist(), by_place(days, self.events, 7).tolist(), clock)


def by_place(places: Counts, events: Counts, size: int) -> Counts:
    """The sum of the events at each place from 0 on, exactly."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, places, events)
    return sums
