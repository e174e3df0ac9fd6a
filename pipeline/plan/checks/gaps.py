"""Days without events on which events are usual: among all events, and of one name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.plan.checks.files import CERTAIN, days_of_source, lacking_files, lacking_hours_of
from pipeline.plan.statistics.history import Series
from pipeline.plan.statistics.hour_profile import skipped_hour
from pipeline.survey.file_dates import days_named, hours_named
from pipeline.text import pluralize, printable

_WEEK, _WEEK_OF_HOURS = 7, 168
_NEVER = 2**62
_RESTS = 0.5
"""A weekday counts as a rest day if a greater share of its days has no events; who rests also has holidays."""
_DAILY_NAME = 0.04
"""A name is not daily if a greater share of days, apart from the gap, has no events: batches come irregularly."""
_DAILY, _WITH_REST_DAYS = 1, 3
_MOST_NAMED = 5
_NEAR = 3
"""Events are at most this many hours from each end of a gap of hours."""
_OTHER_CLOCK = 14
"""A day of the source's clock begins and ends at most this many hours from that of UTC."""


class Gap(NamedTuple):
    """The days `first` to `last` (days since 1970, or hours) have no event; in the weeks around, `usual` or more are
    there."""

    first: int
    last: int
    usual: int

    @property
    def days(self) -> int:
        return self.last - self.first + 1


def gaps_of(series: Series, least: int | None, others: float = 1, week: int = _WEEK) -> list[Gap]:
    """Runs of at least `least` empty days on which events are usual; None takes the length from the weekly rhythm.

    The usual number for a day is the second lowest of the same weekday around the run, four before and four after. At
    most one of each four may be empty, so that weekends, sparse names and the time before a launch are not gaps. Two
    weeks must be known at both ends. A gap begins and ends on a day on which events are usual.
    There are no gaps if more than the share `others` of days is empty outside the run. In a series of hours, a `week`
    has 168.
    """
    counts = series.counts
    empty = np.flatnonzero(counts == 0)
    if not len(empty) or len(counts) < 4 * week + 2:
        return []
    starts = np.flatnonzero(np.diff(empty, prepend=-2) > 1)
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(empty)))
    lengths = np.bincount(run)
    if least is None:
        rests = max(np.mean(counts[weekday::week] == 0) for weekday in range(week)) > _RESTS
        least = _WITH_REST_DAYS if rests else _DAILY
    into = empty - empty[starts][run]
    left = lengths[run] - 1 - into
    weeks_on = np.arange(4) * week
    before = empty[:, None] - (into // week + 1)[:, None] * week - weeks_on
    after = empty[:, None] + (left // week + 1)[:, None] * week + weeks_on
    around = np.concatenate([before, after], axis=1)
    known = (around >= 0) & (around < len(counts))
    values = np.where(known, counts[np.clip(around, 0, len(counts) - 1)], 0)
    empty_ones = known & (values == 0)
    usual = np.sort(np.where(values > 0, values, _NEVER), axis=1)[:, 1]
    sides = [slice(0, 4), slice(4, 8)]
    weeks = [known[:, side].sum(axis=1) for side in sides]
    regular = [
        (number >= 2) & (empty_ones[:, side].sum(axis=1) * 4 <= number)
        for number, side in zip(weeks, sides, strict=True)
    ]
    usual = np.where(regular[0] & regular[1] & (usual < _NEVER), usual, 0)
    usual_days = np.bincount(run, usual > 0)
    lacking = np.bincount(run, usual)
    gaps = []
    for one in np.flatnonzero((usual_days >= least) & (lacking >= CERTAIN)):
        if usual_days.sum() - usual_days[one] <= others * len(counts):
            days = empty[(run == one) & (usual > 0)] + series.first
            gaps.append(Gap(int(days[0]), int(days[-1]), int(lacking[one])))
    return gaps


def gaps_of_name(series: Series, least: int | None) -> list[Gap]:
    """The gaps of one name, which must otherwise be daily."""
    return gaps_of(series, least or _WITH_REST_DAYS, _DAILY_NAME)


@check("empty_days", "warning")
def empty_days(facts: PlanFacts) -> Finding | None:
    """Days inside the range have no event at all, although the same weekdays around them have some.

    Gaps are found by days of the source's clock, because exports are made by that clock. They are named by the empty
    UTC days, as everywhere, and by the source's days too. If `missing_files` reports the files of a gap as missing, the
    gap is left to that check; a day on either side may be due to the other clock.
    """
    missing = lacking_files(facts)
    gaps = [
        gap
        for gap in gaps_of(days_of_source(facts), facts.thresholds.gap)
        if not any(first - 1 <= gap.first and gap.last <= last + 1 for first, last, _ in missing)
    ]
    worst = sorted(gaps, key=lambda gap: (-gap.usual, gap.first))
    return finding_of(
        f"{pluralize(len(gaps), 'gap')} without any event inside the range, on days when events are usual",
        [f"{_in_both_clocks(facts, gap)} (at least {gap.usual:,} events are usual)" for gap in worst],
        most=_MOST_NAMED,
    )


def _in_both_clocks(facts: PlanFacts, gap: Gap) -> str:
    """The empty UTC days, and the gap on the source's clock if that covers other days."""
    total = facts.history.total
    around = range(max(gap.first - 1, total.first), min(gap.last + 1, total.last) + 1)
    days = [day for day in around if not total.between(day, day + 1)]
    if days == list(range(gap.first, gap.last + 1)):
        return days_named(gap.first, gap.last)
    local = f"{days_named(gap.first, gap.last)} on the source's clock"
    return f"{days_named(days[0], days[-1])}, which is {local}" if days else f"{local}, but no whole day in UTC"


@check("empty_days_of_a_name", "notice")
def empty_days_of_a_name(facts: PlanFacts) -> Finding | None:
    """A name that is otherwise daily has no events on some days on which other names have events."""
    least = facts.thresholds.gap or _WITH_REST_DAYS
    without = [(gap.first, gap.last) for gap in gaps_of(facts.history.total, facts.thresholds.gap)]
    found = [
        (name, gap)
        for name, series in facts.history.names.items()
        for gap in gaps_of_name(series, least)
        if gap.days - sum(max(0, min(gap.last, end) - max(gap.first, start) + 1) for start, end in without) >= least
    ]
    if len(facts.history.names) < 2:
        return None
    found.sort(key=lambda one: (-one[1].usual, one))
    return finding_of(
        f"{pluralize(len({name for name, _ in found}), 'event name')} without events on days when they are usual",
        [f"{printable(name, 60)} {days_named(gap.first, gap.last)}" for name, gap in found],
    )


@check("empty_hours", "warning")
def empty_hours(facts: PlanFacts) -> Finding | None:
    """Hours have no event, although the same hours of the weeks around them have many.

    Events are near both ends of a gap, so a holiday or an early evening is not one. Hours are in UTC, where the clock
    skips none. Whole days, and hours whose files are missing, are left to their own checks.
    """
    series = facts.hours.by_hour(facts.history.total)
    gaps = gaps_of(series, 1, _DAILY_NAME, _WEEK_OF_HOURS)
    if not gaps:
        return None
    days = [*lacking_files(facts), *gaps_of(days_of_source(facts), facts.thresholds.gap)]
    known = [(first * 24 - _OTHER_CLOCK, last * 24 + 23 + _OTHER_CLOCK) for first, last, _ in days]
    known += [(first, last) for first, last, _ in lacking_hours_of(facts)]
    jump = skipped_hour(facts.hours)
    skipped = {f"{day} {jump.hour:02d}:00" for day in jump.days} if jump is not None else set()

    def is_found(gap: Gap) -> bool:
        first, end = gap.first - series.first, gap.last + 1 - series.first
        near = series.counts[max(first - _NEAR, 0) : first].any() and series.counts[end : end + _NEAR].any()
        others = any(begin <= gap.last and gap.first <= last for begin, last in known)
        return bool(near) and not others and hours_named(gap.first, gap.first) not in skipped

    found = sorted(filter(is_found, gaps), key=lambda gap: (-gap.usual, gap.first))
    return finding_of(
        f"{pluralize(len(found), 'gap')} of hours without any event, in UTC, at hours when events are usual",
        [f"{hours_named(gap.first, gap.last)} (at least {gap.usual:,} events are usual)" for gap in found],
        most=_MOST_NAMED,
    )
