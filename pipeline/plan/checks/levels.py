"""The number of events a day changes from one week to the next and stays changed: of all events, and of one name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.plan.checks.gaps import Gap, gaps_of, gaps_of_name
from pipeline.plan.statistics.daily_counts import day_name
from pipeline.plan.statistics.history import Counts, History, Series
from pipeline.text import pluralize, printable

_WINDOW, _WEEK = 28, 7
_LEAST_MEDIAN = 20
_LAUNCH = 10
"""If the level grows by more than this factor, it is a launch; if a name falls by as much, it is no longer used."""
_SUDDEN = 0.6
"""The share of a change (its logarithm) that the two weeks around it must show; steady growth shows a quarter."""


class Change(NamedTuple):
    """From this day (days since 1970) on, the median of 28 days is `after`; before it, `before`."""

    day: int
    before: float
    after: float

    @property
    def times(self) -> float:
        return max(self.before, self.after) / max(min(self.before, self.after), 1)


def changes_of(series: Series, times: float, gaps: list[Gap]) -> list[Change]:
    """The days from which the level is `times` as high or as low for four weeks, after four weeks at the other level.

    Days in `gaps` do not count. On each side, the sums of three of the four weeks, among them the outermost, must be on
    their side of the middle between both levels; so a holiday, a gap or one high day is not a change.
    """
    days = np.arange(series.first, series.last + 1)
    kept = np.ones(len(days), bool)
    for gap in gaps:
        kept[max(0, gap.first - series.first) : max(0, gap.last + 1 - series.first)] = False
    counts, days = series.counts[kept], days[kept]
    if len(counts) < 2 * _WINDOW or counts.max() < _LEAST_MEDIAN:
        return []
    found: list[Change] = []
    group: list[tuple[int, Change]] = []
    for at in _candidates(counts, times):
        one = _change(counts, days, at, times)
        if one is None:
            continue
        if group and at - group[-1][0] > _WINDOW:
            found.append(_sharpest(counts, group))
            group = []
        group.append((at, one))
    return [*found, _sharpest(counts, group)] if group else found


def _candidates(counts: Counts, times: float) -> list[int]:
    """The places around which the sums of weeks have two levels."""
    sums = np.concatenate([[0], np.cumsum(counts)])
    weeks = (sums[_WEEK:] - sums[:-_WEEK]).astype(float)  # of the seven days that begin with each day
    at = np.arange(_WINDOW, len(counts) - _WINDOW + 1)
    before = np.stack([weeks[at - back] for back in (28, 21, 14, 7)], axis=1)
    after = np.stack([weeks[at + ahead] for ahead in (21, 14, 7, 0)], axis=1)
    was, now = np.maximum(np.median(before, axis=1), 1), np.maximum(np.median(after, axis=1), 1)
    middle = np.sqrt(was * now)[:, None]
    rises = (now > was)[:, None]
    kept = [np.where(rises, side < middle, side > middle) for side in (before,)]
    kept.append(np.where(rises, after > middle, after < middle))
    holds = [(side.sum(axis=1) >= 3) & side[:, 0] for side in kept]
    changed = np.maximum(was, now) >= times * np.minimum(was, now)
    found: list[int] = at[changed & holds[0] & holds[1]].tolist()
    return found


def _change(counts: Counts, days: Counts, at: int, times: float) -> Change | None:
    sides = counts[at - _WINDOW : at], counts[at : at + _WINDOW]
    was, now = (float(np.median(side)) for side in sides)
    last, first = (float(np.median(side)) for side in (counts[at - _WEEK : at], counts[at : at + _WEEK]))
    low, high = sorted((max(was, 1), max(now, 1)))
    if max(was, now) < _LEAST_MEDIAN or high < times * low:
        return None
    busy = sorted(float(np.median(side[side > 0])) if side.any() else 1.0 for side in sides)
    if busy[1] < times * busy[0]:  # batches came on more days, but were not larger
        return None
    step = max(first, 1) / max(last, 1) if now > was else max(last, 1) / max(first, 1)
    return Change(int(days[at]), was, now) if step >= (high / low) ** _SUDDEN else None


def _sharpest(counts: Counts, group: list[tuple[int, Change]]) -> Change:
    """The place, among neighbours, that leaves the least distance from both levels."""

    def distance(place: tuple[int, Change]) -> float:
        at, one = place
        start, end = max(0, group[0][0] - _WEEK), group[-1][0] + _WEEK
        return float(np.abs(counts[start:at] - one.before).sum() + np.abs(counts[at:end] - one.after).sum())

    return min(group, key=distance)[1]


@check("level", "warning")
def levels(facts: PlanFacts) -> Finding | None:
    """The level of all events together changes, and not because of a launch."""
    found = [change for change in _of_total(facts) if not _is_launch(change, facts.history)]
    found.sort(key=lambda one: (-one.times, one.day))
    return finding_of(
        f"the number of events a day changes suddenly and stays changed, {pluralize(len(found), 'time')}",
        [_described(one) for one in found],
    )


@check("level_of_a_name", "notice")
def levels_of_names(facts: PlanFacts) -> Finding | None:
    """The level of one name changes while that of all events together does not."""
    times, without = facts.thresholds.level, gaps_of(facts.history.total, facts.thresholds.gap)
    known = [change.day for change in _of_total(facts)]
    found = [
        (name, one)
        for name, series in facts.history.names.items()
        for one in changes_of(series, times, [*without, *gaps_of_name(series, facts.thresholds.gap)])
        if min(one.before, one.after) >= _LEAST_MEDIAN
        and one.times <= _LAUNCH
        and not any(abs(one.day - day) <= _WEEK for day in known)
    ]
    found.sort(key=lambda pair: (-pair[1].times, pair))
    return finding_of(
        f"{pluralize(len({name for name, _ in found}), 'event name')} whose number a day changes suddenly"
        " and stays changed",
        [f"{printable(name, 60)} {_described(one)}" for name, one in found],
    )


def _of_total(facts: PlanFacts) -> list[Change]:
    total = facts.history.total
    return changes_of(total, facts.thresholds.level, gaps_of(total, facts.thresholds.gap))


def _is_launch(change: Change, history: History) -> bool:
    """Whether the level rises from next to nothing, or mostly because new names begin there."""
    if change.after < change.before:
        return False
    if change.before < _LEAST_MEDIAN or change.times > _LAUNCH:
        return True
    new = sum(
        series.between(change.day, change.day + _WINDOW)
        for series in history.names.values()
        if abs(series.first - change.day) <= _WEEK
    )
    return new * 2 >= (change.after - change.before) * _WINDOW


def _described(one: Change) -> str:
    return f"from {day_name(one.day)} on {one.after:,.0f} a day, before {one.before:,.0f}"
