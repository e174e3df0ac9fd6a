"""Say in words what clock against receive time shows, and which zones had these offsets: candidates, no proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pipeline.clock_offsets import MonthOffset, month_name, most_frequent, offset_name
from pipeline.survey.shape import MonthZone, ZoneSurvey
from pipeline.timestamps import zone, zone_names

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


def judge(evidence: Counter[tuple[int, int]], received: str) -> ZoneSurvey:
    """`received` is the path of the receive time, "" when the rows have none."""
    months = most_frequent(evidence)
    shown = [MonthZone(month_name(one.month), one.offset, one.rows, one.of) for one in months]
    names = candidates(months)
    return ZoneSurvey(received, shown, names, _sentence(months, names, received))


def _sentence(months: Sequence[MonthOffset], names: Sequence[str], received: str) -> str:
    if not received:
        return "No receive time stands beside the clock, so nothing in the data tells its zone."
    if not months:
        return f"Too few rows have both a time and {received} to tell the zone of the clock."
    offsets = sorted({one.offset for one in months})
    where = f"over {len(months)} {'month' if len(months) == 1 else 'months'}, measured against {received}"
    if offsets == [0]:
        return f"The clock stands at UTC {where}."
    stands = " and ".join(map(offset_name, offsets)) if len(offsets) < 4 else f"{len(offsets)} different offsets"
    if not names:
        return f"The clock stands at {stands} {where}; no zone has these offsets in these months."
    return f"The clock stands at {stands} {where}: name the project's zone with --timezone, such as {names[0]}."


def candidates(months: Sequence[MonthOffset]) -> list[str]:
    """Up to eight zones that had, in each month, the offset that it shows; none where the clock stands at UTC."""
    if not months or all(one.offset == 0 for one in months):
        return []
    # Zones whose name has no slash, and Etc/, are old spellings of others.
    others = sorted(name for name in zone_names() - set(COMMON) if "/" in name and not name.startswith("Etc/"))
    found: list[str] = []
    for name in (*COMMON, *others):
        if name in zone_names() and all(one.offset in _offsets(name, one.month) for one in months):
            found.append(name)
            if len(found) == MOST_NAMES:
                break
    return found


def _offsets(name: str, month: int) -> set[int]:
    """The offsets of a zone at the beginning, in the middle and at the end of a month, in seconds."""
    start = datetime(1970, 1, 1, tzinfo=UTC).replace(year=1970 + month // 12, month=month % 12 + 1)
    rules = zone(name)
    found = set()
    for day in (0, 14, 27):
        offset = (start + timedelta(days=day)).astimezone(rules).utcoffset()
        if offset is not None:
            found.add(round(offset.total_seconds()))
    return found
