"""Hours of day that suggest another clock than the one by which the times are read.

If rows have receive times, these measure the clock itself (`pipeline.plan.zone`). Then hours of day add nothing: people
who seem to sleep by day simply live elsewhere.
"""

from __future__ import annotations

import numpy as np

from pipeline.clock_offsets import MonthOffset, month_name
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.plan.statistics.hour_profile import Night, evidence_of_changes, jumps_of, night_of, skipped_hour
from pipeline.plan.statistics.hours import QUARTERS_A_DAY, HourHistory, by_place
from pipeline.survey.zones import candidates
from pipeline.text import pluralize
from pipeline.timestamps import HOUR
from pipeline.zone_clock import QUARTER

_MIDDLE_OF_NIGHT, _MIDDLE_OF_CLOSING_TIME = 3.5, 1.5
_FIXED = ("UTC", "Etc/", "GMT", "Zulu", "Universal")


def _is_open(facts: PlanFacts) -> bool:
    """Whether no receive times have measured the clock."""
    return facts.zone is None or not facts.zone.months


def _zone_at(history: HourHistory, quarter: int, later: float) -> str:
    """A zone whose clock is this many hours ahead of the declared one at a quarter of an hour."""
    offset = (round(history.clock.offset_at(quarter * QUARTER) / HOUR + later) + 11) % 24 - 11
    if abs(offset) <= 1:
        return "UTC"
    month = np.datetime64(quarter // QUARTERS_A_DAY, "D").astype("datetime64[M]").astype(int)
    found = candidates([MonthOffset(int(month), offset * 3600, 1, 1)])
    return found[0] if found else f"Etc/GMT{-offset:+d}"


def _zones_with(facts: PlanFacts, zone: str, month: str) -> str:
    """The declared zones as options, with `zone` in force from `month` on."""
    zones = {since: name for name, since in facts.options.zones or (("UTC", ""),)}
    since = next((one for one in zones if one.startswith(month)), f"{month}-01")
    named = sorted((zones | {since: zone}).items())
    return " ".join(f"--timezone {name}@{day}" if day else f"--timezone {name}" for day, name in named)


@check("night_by_day", "warning")
def night_by_day(facts: PlanFacts) -> Finding | None:
    """In the zone that was named, people would sleep by day. A clock in UTC says nothing about where people live."""
    history, zones = facts.hours, facts.options.zones
    if not _is_open(facts) or len(zones) != 1 or zones[0][0].startswith(_FIXED) or not len(history.quarters):
        return None
    hours = by_place(history.walls // 4 % 24, history.events, 24)
    night = night_of(hours, facts.thresholds.hour_events)
    if night is None or not night.by_day:
        return None
    later = night.middle - (_MIDDLE_OF_CLOSING_TIME if night.hours > 12 else _MIDDLE_OF_NIGHT)
    zone = _zone_at(history, int(history.quarters[len(history.quarters) // 2]), later)
    return finding_of(
        f"read as {zones[0][0]}, the quiet hours of the day are {_clock(night)}; unless people live elsewhere, the"
        f" times come from another clock (--timezone {zone})",
        [
            f"{night.share:.1%} of {int(hours.sum()):,} events lie there, and"
            f" {hours[:5].sum() / hours.sum():.1%} between 00:00 and 05:00"
        ],
    )


def _clock(night: Night) -> str:
    return f"{night.start:02d}:00 to {night.end:02d}:00"


@check("clock_jump", "warning")
def clock_jump(facts: PlanFacts) -> Finding | None:
    """From some month on, the hours of day shift by more than a change to or from daylight saving time."""
    history = facts.hours
    jumps = jumps_of(history, facts.thresholds.hour_events) if _is_open(facts) else []
    if not jumps:
        return None
    first = jumps[0]
    zones = _zones_with(facts, _zone_at(history, first.last, first.hours), month_name(first.month))
    return finding_of(
        f"the hours of day shift {pluralize(len(jumps), 'time')} by more than a change to or from daylight saving time;"
        f" unless people of another region came, the clock of the source changed ({zones})",
        [
            f"From {month_name(jump.month)}-01 on, times look {abs(jump.hours)} hours"
            f" {'late' if jump.hours > 0 else 'early'}: {pluralize(jump.events, 'event')} would be stored at a wrong"
            " time"
            for jump in jumps
        ],
    )


@check("clock_change", "warning")
def clock_change(facts: PlanFacts) -> Finding | None:
    """In spring and autumn the source's clock changes although the zone's does not, or the reverse."""
    if not _is_open(facts):
        return None
    evidence = evidence_of_changes(facts.hours)
    if evidence.move > 2 * evidence.stay:
        return finding_of(
            f"the clock of the source does not change in spring and autumn as that of {_zone(facts)} does: the hours of"
            " day move then, as on a clock in UTC (--timezone UTC)",
            evidence.moved,
            evidence.move,
        )
    skipped = skipped_hour(facts.hours)
    if skipped is None:
        return None
    return finding_of(
        f"no event has a time between {skipped.hour:02d}:00 and {skipped.hour + 1:02d}:00 on some Sundays of spring,"
        f" when {pluralize(skipped.usual, 'event')} are usual; the clock of the source skips that hour, but that of"
        f" {_zone(facts)} does not (--timezone {skipped.zone}, or another zone that does)",
        skipped.days,
    )


def _zone(facts: PlanFacts) -> str:
    return " and ".join(zone for zone, _ in facts.options.zones) or "UTC"
