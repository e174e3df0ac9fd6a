"""Days with far more events than the days around them: of all events, and of one name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.plan.statistics.daily_counts import day_name
from pipeline.plan.statistics.history import Series
from pipeline.text import pluralize, printable

_WINDOW, _KNOWN = 28, 14
_LEAST_MEDIAN, _LEAST_COUNT = 5, 100
_WEEKS = np.array([-28, -21, -14, -7, 7, 14, 21, 28])
_OTHERS, _SHARE = 2, 0.01
"""If more days than this number and this share rise half as far above their neighbours, such days are a rhythm, such
as a monthly invoice."""


class Spike(NamedTuple):
    """A day (days since 1970) with its `events`, and the `median` of the days around it."""

    day: int
    events: int
    median: int


def spikes_of(series: Series, times: float) -> list[Spike]:
    """The days with more than `times` the usual number.

    The usual number is the greatest of three medians: of the 28 days before, of the 28 days after (so that neither a
    launch nor an end is a spike), and of the same weekdays around. At least fourteen days must be known on each side.
    """
    counts = series.counts
    if len(counts) <= 2 * _KNOWN or counts.max() < _LEAST_COUNT:
        return []
    high = np.flatnonzero(counts >= _LEAST_COUNT)
    high = high[(high >= _KNOWN) & (high < len(counts) - _KNOWN)]
    around = high[:, None] + _WEEKS
    known = (around >= 0) & (around < len(counts))
    same = np.sort(np.where(known, counts[np.clip(around, 0, len(counts) - 1)], 2**62), axis=1)
    weekday = same[np.arange(len(high)), known.sum(axis=1) // 2]
    ratios: list[tuple[float, Spike]] = []
    for at, median in zip(high.tolist(), weekday.tolist(), strict=True):
        count = int(counts[at])
        if count * 2 <= times * max(median, _LEAST_MEDIAN):
            continue
        sides = counts[max(0, at - _WINDOW) : at], counts[at + 1 : at + 1 + _WINDOW]
        usual = max(median, *(int(np.median(side)) for side in sides))
        if usual >= _LEAST_MEDIAN and count * 2 > times * usual:
            ratios.append((count / usual, Spike(series.first + at, count, usual)))
    most = max(_OTHERS, int(_SHARE * len(counts)))
    levels = np.array([ratio for ratio, _ in ratios])
    return [one for ratio, one in ratios if ratio > times and np.count_nonzero(levels * 2 >= ratio) <= most]


@check("spike", "warning")
def spikes(facts: PlanFacts) -> Finding | None:
    """A day has several times as many events as the days around it."""
    times = facts.thresholds.spike
    found = spikes_of(facts.history.total, times)
    found.sort(key=lambda one: (-one.events / one.median, one.day))
    examples = []
    for one in found[:3]:
        name, count = max(
            ((name, series.between(one.day, one.day + 1)) for name, series in facts.history.names.items()),
            key=lambda pair: pair[1],
        )
        examples.append(f"{_described(one)}, {count:,} of them {printable(name, 60)}")
    return finding_of(
        f"{pluralize(len(found), 'day')} with more than {times:g} times the usual events", examples, len(found)
    )


@check("spike_of_a_name", "notice")
def spikes_of_names(facts: PlanFacts) -> Finding | None:
    """One name has several times as many events as on the days around, on a day that is not unusual for all events."""
    times = facts.thresholds.spike
    known = {one.day for one in spikes_of(facts.history.total, times)}
    found = [
        (name, one)
        for name, series in facts.history.names.items()
        for one in spikes_of(series, times)
        if one.day not in known
    ]
    found.sort(key=lambda pair: (-pair[1].events / pair[1].median, pair))
    return finding_of(
        f"{pluralize(len({name for name, _ in found}), 'event name')} with more than {times:g} times"
        " the usual events on a day",
        [f"{printable(name, 60)} {_described(one)}" for name, one in found],
    )


def _described(one: Spike) -> str:
    return f"{day_name(one.day)} ({one.events:,} events, {one.events / one.median:.0f} times the usual {one.median:,})"
