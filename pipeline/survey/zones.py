"""Compare the clock with the receive time, and name the zones that had its offsets: candidates, not proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import MappingProxyType

from pipeline.clock_offsets import MonthOffset, by_day, month_name, month_of, most_frequent, offset_name
from pipeline.survey.shape import MonthZone, ZoneSurvey
from pipeline.zone_clock import zone, zone_names

MOST_NAMES = 8
MOST_ZONES = 3
"""A clock that showed more zones one after the other shows none."""
LEAST_MONTHS = 2
"""A zone that fits a single month between others is a coincidence."""
COMMON = (
    "America/New_York", "America/Chicago", "America/Denver", "America/Phoenix", "America/Los_Angeles",
    "America/Sao_Paulo", "America/Argentina/Buenos_Aires", "America/Toronto", "America/Mexico_City", "America/Bogota",
    "Europe/London", "Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Europe/Helsinki", "Europe/Istanbul",
    "Europe/Moscow", "Africa/Lagos", "Africa/Johannesburg", "Africa/Cairo", "Asia/Jerusalem", "Asia/Dubai",
    "Asia/Karachi", "Asia/Kolkata", "Asia/Jakarta", "Asia/Singapore", "Asia/Shanghai", "Asia/Tokyo", "Asia/Seoul",
    "Australia/Sydney", "Pacific/Auckland",
)  # fmt: skip
"""Named before others that fit equally well."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    names = candidates(months, evidence)
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
    if len(changes := names[0].split()) > 1:
        steps = ", then ".join(one.replace("@", " from ") for one in changes)
        return f"The clock is at {clock} {measured}: the zone changed. Zones that fit: {steps}."
    return f"The clock is at {clock} {measured}: name the project's zone with --timezone, such as {names[0]}."


def candidates(
    months: Sequence[MonthOffset], evidence: Mapping[tuple[int, int], int] = MappingProxyType({})
) -> list[str]:
    """Up to eight zones that had the offset of each month in that month; none if the clock is at UTC.

    If the zone changed, the only candidate has the values of --timezone in order: `Europe/Berlin
    America/New_York@2024-06-01`. The counts of (day, offset) in `evidence` show the day; without them it is the first
    of a month.
    """
    if all(month.offset == 0 for month in months):
        return []
    runs = _runs(months)
    if len(runs) == 1:
        return runs[0][1][:MOST_NAMES]
    if len(runs) > MOST_ZONES or any(len(found) < LEAST_MONTHS or not names for found, names in runs):
        return []
    words = [runs[0][1][0]]
    for (_, (before, *_)), (found, (after, *_)) in pairwise(runs):
        words.append(f"{after}@{_first_day(before, after, found[0].month, evidence)}")
    return [" ".join(words)]


def _runs(months: Sequence[MonthOffset]) -> list[tuple[list[MonthOffset], list[str]]]:
    """The months in runs as long as any zone fits, each with the zones that fit."""
    # Zone names without a slash, and Etc/, are old spellings of others.
    others = sorted(name for name in zone_names() - set(COMMON) if "/" in name and not name.startswith("Etc/"))
    known = ["UTC", *(name for name in COMMON if name in zone_names()), *others]
    runs: list[tuple[list[MonthOffset], list[str]]] = []
    for month in months:
        names = [name for name in (runs[-1][1] if runs else ()) if month.offset in _offsets(name, month.month)]
        if names:
            runs[-1] = ([*runs[-1][0], month], names)
        else:
            runs.append(([month], [name for name in known if month.offset in _offsets(name, month.month)]))
    return runs


def _first_day(before: str, after: str, month: int, evidence: Mapping[tuple[int, int], int]) -> str:
    """The day from which on the rows show the zone `after`, in a month or in the one before it."""
    shown, best, gain = f"{month_name(month)}-01", 0, 0
    near = [(day, offsets) for day, offsets in by_day(evidence) if month - 1 <= month_of(day) <= month]
    for day, offsets in reversed(near):
        moment = _EPOCH + timedelta(days=day)
        gain += offsets[_offset(after, moment)] - offsets[_offset(before, moment)]
        if gain > best:
            shown, best = moment.date().isoformat(), gain
    return shown


def _offsets(name: str, month: int) -> set[int]:
    """The offsets of a zone at the beginning, in the middle and at the end of a month, in seconds."""
    start = _EPOCH.replace(year=1970 + month // 12, month=month % 12 + 1)
    return {_offset(name, start + timedelta(days=day)) for day in (0, 14, 27)}


def _offset(name: str, moment: datetime) -> int:
    return round((moment.astimezone(zone(name)).utcoffset() or timedelta()).total_seconds())
