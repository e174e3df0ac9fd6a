"""Compare the clock with the receive time, and name the zones that had its offsets: candidates, not proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from pipeline.clock_offsets import MonthOffset, month_name, most_frequent, offset_name
from pipeline.survey.shape import MonthZone, ZoneSurvey
from pipeline.zone_clock import zone, zone_names

MOST_NAMES = 8
COMMON = (
    "America/New_York", "America/Chicago", "America/Denver", "America/Phoenix", "America/Los_Angeles",
    "America/Sao_Paulo", "America/Argentina/Buenos_Aires", "America/Toronto", "America/Mexico_City", "America/Bogota",
    "Europe/London", "Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Europe/Helsinki", "Europe/Istanbul",
    "Europe/Moscow", "Africa/Lagos", "Africa/Johannesburg", "Africa/Cairo", "Asia/Jerusalem", "Asia/Dubai",
    "Asia/Karachi", "Asia/Kolkata", "Asia/Jakarta", "Asia/Singapore", "Asia/Shanghai", "Asia/Tokyo", "Asia/Seoul",
    "Australia/Sydney", "Pacific/Auckland",
)  # fmt: skip
"""Named before others that fit equally well."""


OWN_OFFSETS = "Every time has its own UTC offset, or counts from 1970 in UTC: no time zone is needed."


NAME_IT = "Name the zone when you plan: --timezone UTC, or the zone of the clock, such as --timezone Europe/Berlin."
READ_AS_UTC = "The mapping of this tool reads them as UTC."


def survey_zone(
    evidence: Counter[tuple[int, int]], received: str, *, instants: bool = False, read_as_utc: bool = False
) -> ZoneSurvey:
    """The result for counts of (month, offset). `received` is the path of the receive time, or "".

    `instants`: every time has its own offset, or is a number that counts from 1970 in UTC. `read_as_utc`: a shipped
    mapping reads the others as UTC.
    """
    months = most_frequent(evidence)
    shown = [MonthZone(month_name(month.month), month.offset, month.rows, month.of) for month in months]
    names = candidates(months)
    if instants and not months:
        return ZoneSurvey(received, [], [], OWN_OFFSETS)
    return ZoneSurvey(
        received, shown, names, _sentence(months, names, received, READ_AS_UTC if read_as_utc else NAME_IT)
    )


def _sentence(months: Sequence[MonthOffset], names: Sequence[str], received: str, unproved: str) -> str:
    if not received:
        return f"The times do not say their time zone, and there is no receive time to show it. {unproved}"
    if not months:
        return f"The times do not say their time zone, and too few rows also have {received} to show it. {unproved}"
    offsets = sorted({month.offset for month in months})
    measured = f"over {len(months)} {'month' if len(months) == 1 else 'months'}, measured against {received}"
    if offsets == [0]:
        return f"The clock is at UTC {measured}."
    clock = " and ".join(map(offset_name, offsets)) if len(offsets) < 4 else f"{len(offsets)} different offsets"
    if not names:
        return f"The clock is at {clock} {measured}; no zone has these offsets in these months."
    return f"The clock is at {clock} {measured}: name the project's zone with --timezone, such as {names[0]}."


def candidates(months: Sequence[MonthOffset]) -> list[str]:
    """Up to eight zones that had the offset of each month in that month; none if the clock is at UTC."""
    if not months or all(month.offset == 0 for month in months):
        return []
    # Zone names without a slash, and Etc/, are old spellings of others.
    others = sorted(name for name in zone_names() - set(COMMON) if "/" in name and not name.startswith("Etc/"))
    fitting = (
        name
        for name in (*COMMON, *others)
        if name in zone_names() and all(month.offset in _offsets(name, month.month) for month in months)
    )
    return list(islice(fitting, MOST_NAMES))


def _offsets(name: str, month: int) -> set[int]:
    """The offsets of a zone at the beginning, in the middle and at the end of a month, in seconds."""
    start = datetime(1970, 1, 1, tzinfo=UTC).replace(year=1970 + month // 12, month=month % 12 + 1)
    rules = zone(name)
    offsets = ((start + timedelta(days=day)).astimezone(rules).utcoffset() for day in (0, 14, 27))
    return {round(offset.total_seconds()) for offset in offsets if offset is not None}
