"""Days without events where events are usual: of everything, and of one name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, days_named, finding_of
from pipeline.plan.checks.files import days_of_source, lacking_files
from pipeline.plan.statistics.history import Series
from pipeline.text import pluralize, printable

_WEEKS = np.arange(4) * 7
_CERTAIN = 20
"""A gap lacks at least so many events, counted low: by chance, that happens once in 500 million times (e^-20)."""
_NEVER = 2**62
_RESTS = 0.5
"""A weekday is one of rest where a greater share of its days is without events; who rests has holidays, too."""
_DAILY_NAME = 0.04
"""A name is not daily where a greater share of days is without events, the gap apart: batches come when they come."""
_DAILY, _WITH_REST_DAYS = 1, 3
_MOST_NAMED = 5


class Gap(NamedTuple):
    """The days `first` to `last` (days since 1970) have no event; the weeks around have at least `usual` there."""

    first: int
    last: int
    usual: int

    @property
    def days(self) -> int:
        return self.last - self.first + 1


def gaps_of(series: Series, least: int | None, others: float = 1) -> list[Gap]:
    """The runs of empty days in which `least` days are usually not empty; None is what the rhythm of the week permits.

    What is usual on a day is the second lowest of the same weekdays around the run, four on each side. At most one of
    the four may be empty, so that weekends, sparse names and what was there before a launch have no gap. At both ends
    two weeks have to be known. A gap begins and ends on a day on which events are usual.
    There is none where a greater share of days than `others` is empty like it.
    """
    counts = series.counts
    empty = np.flatnonzero(counts == 0)
    if not len(empty) or len(counts) < 30:
        return []
    starts = np.flatnonzero(np.diff(empty, prepend=-2) > 1)
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(empty)))
    lengths = np.bincount(run)
    if least is None:
        rests = max(np.mean(counts[weekday::7] == 0) for weekday in range(7)) > _RESTS
        least = _WITH_REST_DAYS if rests else _DAILY
    into = empty - empty[starts][run]
    left = lengths[run] - 1 - into
    before = empty[:, None] - (into // 7 + 1)[:, None] * 7 - _WEEKS
    after = empty[:, None] + (left // 7 + 1)[:, None] * 7 + _WEEKS
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
    for one in np.flatnonzero((usual_days >= least) & (lacking >= _CERTAIN)):
        if usual_days.sum() - usual_days[one] <= others * len(counts):
            days = empty[(run == one) & (usual > 0)] + series.first
            gaps.append(Gap(int(days[0]), int(days[-1]), int(lacking[one])))
    return gaps


def gaps_of_name(series: Series, least: int | None) -> list[Gap]:
    """The gaps of one name, which has to be daily otherwise."""
    return gaps_of(series, least or _WITH_REST_DAYS, _DAILY_NAME)


@check("empty_days", "warning")
def empty_days(facts: PlanFacts) -> Finding | None:
    """Days inside the range have no event at all, although the same weekdays around them have.

    Gaps are looked for by the days of the source's clock, by which exports are made, and named by the UTC days that are
    empty, as everywhere, beside them. A gap of which `missing_files` says that its files are not there is left to that
    check; a day on either side may be the other clock's.
    """
    missing = lacking_files(facts)
    gaps = [
        gap
        for gap in gaps_of(days_of_source(facts), facts.thresholds.gap)
        if not any(first - 1 <= gap.first and gap.last <= last + 1 for first, last, _ in missing)
    ]
    worst = sorted(gaps, key=lambda gap: (-gap.usual, gap.first))
    return finding_of(
        f"{pluralize(len(gaps), 'gap')} inside the range without any event, where events are usual",
        [f"{_in_both_clocks(facts, gap)} (at least {gap.usual:,} events are usual)" for gap in worst],
        most=_MOST_NAMED,
    )


def _in_both_clocks(facts: PlanFacts, gap: Gap) -> str:
    """The UTC days that are empty, and the gap on the source's clock where that has other days."""
    total = facts.history.total
    around = range(max(gap.first - 1, total.first), min(gap.last + 1, total.last) + 1)
    days = [day for day in around if not total.between(day, day + 1)]
    if days == list(range(gap.first, gap.last + 1)):
        return days_named(gap.first, gap.last)
    local = f"{days_named(gap.first, gap.last)} on the source's clock"
    return f"{days_named(days[0], days[-1])}, which is {local}" if days else f"{local}, and no whole day in UTC"


@check("empty_days_of_a_name", "notice")
def empty_days_of_a_name(facts: PlanFacts) -> Finding | None:
    """A name that is otherwise daily has none for days on which others have events."""
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
        f"{pluralize(len({name for name, _ in found}), 'event name')} without events for days, where they are usual",
        [f"{printable(name, 60)} {days_named(gap.first, gap.last)}" for name, gap in found],
    )
