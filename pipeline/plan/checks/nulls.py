"""Properties that are suddenly missing, null or blank."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from pipeline.clock_offsets import month_name
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, found_in_values
from pipeline.plan.statistics.drift import PropertyDrift
from pipeline.plan.statistics.values import NO_PLACE
from pipeline.text import pluralize, printable

_LEAST_EVENTS = 50
_DEVIATIONS = 6
_RARE = 0.5
"""If a greater share of the events had no value before, the property is only sent now and then, as campaign properties
are."""


class Jump(NamedTuple):
    """From this month (since January 1970) on, the share `after` of events has no value; the month before, `before`."""

    month: int
    before: float
    after: float


def jumps_of(one: PropertyDrift, points: float) -> list[Jump]:
    """The months in which the share of events without a value rises by more than `points` percentage points.

    If the property is missing, the first and last months do not count: it begins or ends within them. Properties that
    are rarely sent are left out, and so are months with so few events that the rise may be chance.
    """
    missing = one.events - one.counts.sum(axis=1)
    kept = one.sampled >= _LEAST_EVENTS
    for at in (0, -1):
        kept[at] &= missing[at] == 0 or len(kept) == 1
    events, empty, months = one.events[kept], one.empty[kept], one.months[kept]
    sampled = one.sampled[kept]
    found = []
    for before, after in pairwise(range(len(events))):
        if empty[: before + 1].sum() > _RARE * events[: before + 1].sum():
            continue
        was, now = empty[before] / events[before], empty[after] / events[after]
        share = (empty[before] + empty[after]) / (events[before] + events[after])
        deviation = sqrt(share * (1 - share) * (1 / sampled[before] + 1 / sampled[after]))
        if (now - was) * 100 > points and now - was > _DEVIATIONS * deviation:
            found.append(Jump(int(months[after]), float(was), float(now)))
    return found


@check("null_rate", "warning")
def null_rates(facts: PlanFacts) -> Finding | None:
    """A property lacks a value in many more events than in the month before."""
    found = [
        (one, max(jumps, key=lambda jump: (jump.after - jump.before, -jump.month)))
        for one in facts.drift.properties
        if (jumps := jumps_of(one, facts.thresholds.null_jump))
    ]
    found.sort(key=lambda pair: (pair[1].before - pair[1].after, pair[0].event, pair[0].name))
    return found_in_values(
        facts,
        f"{pluralize(len(found), 'property')} without a value in many more events than in the month before",
        [_described(facts, one, jump) for one, jump in found],
    )


def _described(facts: PlanFacts, one: PropertyDrift, jump: Jump) -> str:
    name = f"{printable(one.name, 60)} of {printable(one.event, 60)}"
    shares = f"{name} in {month_name(jump.month)}: {jump.after:.0%} of the events, {jump.before:.0%} before"
    place = int(one.empties[one.months == jump.month][0])
    return shares if place == NO_PLACE else f"{shares}; the first null or blank value is in {facts.row_at(place)}"
