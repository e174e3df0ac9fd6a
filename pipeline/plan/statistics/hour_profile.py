"""What the hours of day show about the clock that wrote them: its night, its changes in spring and autumn, its jumps.

A profile is the share of a history's events in each quarter of an hour of the day. Only a clear one says anything:
people of one region sleep at the same time, while the whole world, a server's jobs and small numbers have no night.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.plan.statistics.daily_counts import day_name
from pipeline.plan.statistics.hours import QUARTERS_A_DAY, Counts, HourHistory, by_place
from pipeline.text import pluralize
from pipeline.timestamps import DAY
from pipeline.zone_clock import ZoneClock

Shares = NDArray[np.float64]
LEAST_EVENTS = 1_000
"""A range of days with fewer events has no profile."""
_NIGHT_HOURS, _NIGHT_SHARE = 5, 0.08
"""The five quietest hours in a row have at most this share of the events; any five hours of an even day have 0.21."""
_QUIET = 1 / 3
"""An hour is quiet if it has less than this part of the average hour."""
_LONGEST_NIGHT, _LONG_NIGHT = 18, 12
_DAYS_AROUND = 21
"""This many days before a change of the clock are compared with as many after it."""
_CLEAR, _BETTER = 10, 2.5
"""One shift fits clearly better than another if the difference of both distances is _CLEAR times what chance makes,
and one distance is _BETTER times the other."""


class Night(NamedTuple):
    """The longest quiet part of a day: its first hour, its number of hours, and its share of all events."""

    start: int
    hours: int
    share: float

    @property
    def end(self) -> int:
        return (self.start + self.hours) % 24

    @property
    def middle(self) -> float:
        return (self.start + self.hours / 2) % 24

    @property
    def by_day(self) -> bool:
        """Whether it lies at a time when people do not sleep. Offices close for half a day or more, so the middle of a
        long night counts less."""
        return 10 <= self.middle <= 19 if self.hours > _LONG_NIGHT else 8 <= self.middle <= 22.5


def night_of(hours: Counts, least: int = LEAST_EVENTS) -> Night | None:
    """The night of 24 counts, or None if there is no clear one."""
    total = int(hours.sum())
    if total < least:
        return None
    twice = np.concatenate((hours, hours))
    windows = np.convolve(twice, np.ones(_NIGHT_HOURS, np.int64), "valid")[:24]
    if windows.min() > _NIGHT_SHARE * total:
        return None
    quiet = hours * 24 < _QUIET * total
    runs = _runs(quiet)
    start, length = max(runs, key=lambda run: run[1])
    if length > _LONGEST_NIGHT or any(one[1] * 2 > length for one in runs if one[0] != start):
        return None
    return Night(start, length, float(twice[start : start + length].sum() / total))


def _runs(quiet: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The (start, length) of runs of quiet hours around the clock; some hour is not quiet."""
    starts = [hour for hour in range(24) if quiet[hour] and not quiet[hour - 1]]
    return [(start, next(n for n in range(24) if not quiet[(start + n) % 24])) for start in starts]


class Evidence(NamedTuple):
    """What the changes of a clock show: after how many of them the hours of the events stay, and after how many they
    move.

    `moved` are the days of the changes after which they move. Changes that show nothing are in neither count.
    """

    stay: int
    move: int
    moved: list[str]


def evidence_of_changes(history: HourHistory) -> Evidence:
    """Compare the hours of day before and after each change of the source's clock.

    People change their clocks, too. If the source uses their clock, its hours of day stay as they were. If the source's
    clock never changes, as UTC, and was only read as one that does, the hours move: people come an hour earlier in
    spring, and an hour later in autumn.
    """
    stay, moved = 0, []
    walls, events = history.walls, history.events
    for change in history.changes():
        days = walls // QUARTERS_A_DAY
        day = change.at // QUARTERS_A_DAY
        before, after = (
            by_place(walls[some] % QUARTERS_A_DAY, events[some], QUARTERS_A_DAY)
            for some in (
                (days >= day - _DAYS_AROUND) & (days < day),
                (days > day) & (days <= day + _DAYS_AROUND),
            )
        )
        lag = fitting_lag(before, after, (0, -change.by, change.by))
        if lag == 0:
            stay += 1
        elif lag == -change.by:
            moved.append(day_name(day))
    return Evidence(stay, len(moved), moved)


def fitting_lag(before: Counts, after: Counts, lags: tuple[int, ...]) -> int | None:
    """By how many places (one of `lags`) the second profile comes later than the first; None if none fits clearly
    best."""
    if min(before.sum(), after.sum()) < LEAST_EVENTS:
        return None
    first, second = before / before.sum(), after / after.sum()
    chance = 1 / before.sum() + 1 / after.sum()
    distances = sorted((float(((first - np.roll(second, -lag)) ** 2).sum()), lag) for lag in lags)
    (best, lag), (other, _) = distances[:2]
    return lag if other - best > _CLEAR * chance and other > _BETTER * best else None


def clock_in_words(history: HourHistory, zone: str) -> str:
    """What the changes of the clock show, in words; "" if they show nothing."""
    evidence = evidence_of_changes(history)
    decided = evidence.stay + evidence.move
    if not decided:
        return ""
    if evidence.stay > evidence.move:
        return (
            f"At {evidence.stay:,} of {pluralize(decided, 'change')} to and from daylight saving time the hours of day"
            f" stay as they were: the clock of the source changes as that of {zone} does."
        )
    return (
        f"At {evidence.move:,} of {pluralize(decided, 'change')} to and from daylight saving time the hours of day"
        f" move: the clock of the source does not change as that of {zone} does."
    )


class Jump(NamedTuple):
    """From a month on, events come this many hours later by the source's clock than in the months before.

    `month` counts from January 1970; `events` counts from that month until the next jump; `last` is the last quarter of
    an hour (`HourHistory.quarters`) that has one of these events.
    """

    month: int
    hours: int
    events: int
    last: int


def jumps_of(history: HourHistory, least: int = LEAST_EVENTS) -> list[Jump]:
    """The months in which the night moves by two hours or more and stays there.

    If zones are declared from a date on, the night must move on the clock of the first zone as well: if it moves only
    on the source's clock, the declared zones explain it.
    """
    months = _months(history.walls)
    found = dict(_moves(months, history.walls, history.events, least))
    if len(history.clock.zones) > 1:
        walls = history.on_first_clock
        left = dict(_moves(_months(walls), walls, history.events, least))
        found = {month: left[month] for month in found if month in left}
    starts = sorted(found)
    jumps = []
    for month, until in pairwise([*starts, np.iinfo(np.int64).max]):
        some = (months >= month) & (months < until)
        last = int(history.quarters[some][-1])
        jumps.append(Jump(month, found[month], int(history.events[some].sum()), last))
    return jumps


def _months(walls: Counts) -> Counts:
    days = (walls // QUARTERS_A_DAY).astype("datetime64[D]")
    return days.astype("datetime64[M]").astype(np.int64)


def _moves(months: Counts, walls: Counts, events: Counts, least: int) -> Iterator[tuple[int, int]]:
    """(month, hours later) of each month in which the night moves.

    A month is compared with up to three months before it; the month of the change itself, which lies partly before and
    partly after, fits neither. A shift of one hour is a change to or from daylight saving time.
    """
    numbers, number = np.unique(months, return_inverse=True)
    profiles = np.zeros((len(numbers), 24), np.int64)
    np.add.at(profiles, (number, walls // 4 % 24), events)
    known = [place for place in range(len(numbers)) if night_of(profiles[place], max(least, LEAST_EVENTS))]
    before: list[Counts] = []
    for position, place in enumerate(known):
        lag = _hours_later(before, profiles[place]) if before else 0
        following = known[position + 1 : position + 2]
        if abs(lag) >= 2 and all(abs(_hours_later(before, profiles[one]) - lag) <= 1 for one in following):
            yield int(numbers[place]), lag
            before = []
        if not before or abs(lag) < 2:
            before = [*before[-2:], profiles[place]]


def _hours_later(before: list[Counts], profile: Counts) -> int:
    """By how many hours a profile comes later than those before it; 0 if no shift fits clearly better."""
    first = np.sum(before, axis=0)
    reference = first / first.sum()
    shares = profile / profile.sum()
    distances = [float(((reference - np.roll(shares, -lag)) ** 2).sum()) for lag in range(-11, 13)]
    best = int(np.argmin(distances))
    chance = 1 / first.sum() + 1 / profile.sum()
    clear = distances[11] - distances[best] > _CLEAR * chance and distances[11] > 2 * _BETTER * distances[best]
    return best - 11 if clear else 0


class SkippedHour(NamedTuple):
    """An hour (from 0) of the source's clock that has no event on some Sundays of spring, although `usual` are usual
    then.

    `zone` is one whose clock skips that hour.
    """

    hour: int
    days: list[str]
    usual: int
    zone: str


_SKIPPING = (("America/New_York", 2), ("Europe/London", 1), ("Europe/Berlin", 2), ("Europe/Helsinki", 3))
"""Zones whose clocks skip an hour in spring, with that hour; one zone for each combination of day and hour."""
_CERTAIN = 25


def skipped_hour(history: HourHistory) -> SkippedHour | None:
    """The hour that the source's clock skips in spring although the zone by which it is read does not.

    The usual number is the median of the same hour on the four Sundays before and the four after. If the medians of all
    years add up to 25 events, the hour is empty by chance once in 70 thousand million times.
    """
    if not len(history.quarters):
        return None
    hours, place = np.unique(history.walls // 4, return_inverse=True)
    counts = dict(zip(hours.tolist(), by_place(place, history.events, len(hours)).tolist(), strict=True))
    first, last = (date(1970, 1, 1) + timedelta(days=int(hours[end]) // 24) for end in (0, -1))
    own = {change.at // QUARTERS_A_DAY for change in history.changes()}
    for zone, hour in _SKIPPING:
        days, usual, found = [], 0, 0
        for year in range(first.year, last.year + 1):
            day = _spring_change(zone, year)
            if day is None:
                continue
            around = [counts.get((day + 7 * week) * 24 + hour, 0) for week in (-4, -3, -2, -1, 1, 2, 3, 4)]
            beside = [counts.get(day * 24 + hour + one, 0) for one in (-1, 1)]
            if not {day - 1, day} & own and min(*around, *beside):
                days.append(day_name(day))
                usual += int(np.median(around))
                found += counts.get(day * 24 + hour, 0)
        if usual >= _CERTAIN and not found:
            return SkippedHour(hour, days, usual, zone)
    return None


def _spring_change(zone: str, year: int) -> int | None:
    """The day (since 1970) on which a zone puts its clock forward in the first half of a year."""
    clock, start = ZoneClock([(zone, "")]), (date(year, 1, 1) - date(1970, 1, 1)).days
    ahead = [clock.offset_at(day * DAY) for day in range(start, start + 182)]
    return next((start + n for n in range(181) if ahead[n + 1] > ahead[n]), None)
