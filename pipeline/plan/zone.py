"""Is the declared zone the one the data were written in? Measured, month by month, never assumed.

A tool that exports local clock readings as if they were UTC shifts years of history by hours when believed
(export-formats 2.3; peers 5.10). Where rows also carry a true UTC receive time, the difference between clock and
receipt gives the zone's offset, less some seconds of latency: its most frequent value in a month must be an offset
that the declared zone had in that month. Late mobile rows and wrong clocks are only tails.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.instants import ZoneClock, wall_of

ENOUGH = 3
"""A month with fewer rows proves and contradicts nothing."""


@dataclass(frozen=True, slots=True)
class MonthEvidence:
    """What one month says: `offset` is the most frequent one, in seconds east of UTC; `rows` of `of` show it."""

    month: str
    offset: int
    rows: int
    of: int
    expected: tuple[int, ...]

    @property
    def agrees(self) -> bool:
        return self.offset in self.expected


@dataclass(frozen=True, slots=True)
class ZoneVerdict:
    """`proved`: months agree and none contradicts. `contradictions`: months that speak against the zone."""

    zone: str
    months: tuple[MonthEvidence, ...]

    @property
    def contradictions(self) -> tuple[MonthEvidence, ...]:
        return tuple(one for one in self.months if not one.agrees)

    @property
    def proved(self) -> bool:
        return bool(self.months) and not self.contradictions


def judge(evidence: Counter[tuple[int, int]], zones: tuple[tuple[str, str], ...]) -> ZoneVerdict:
    """Hold the measured offsets against a zone; no zone is UTC."""
    clock = ZoneClock(zones)
    by_month: dict[int, Counter[int]] = {}
    for (month, offset), count in evidence.items():
        by_month.setdefault(month, Counter())[offset] += count
    months = []
    for month, offsets in sorted(by_month.items()):
        total = offsets.total()
        # Equal counts: the greater offset, since latency only ever makes it smaller.
        count, offset = max((count, offset) for offset, count in offsets.items())
        if count < ENOUGH:
            continue
        months.append(MonthEvidence(_name(month), offset, count, total, _offsets_in(month, clock)))
    name = ", ".join(f"{zone}@{since}" if since else zone for zone, since in zones) or "UTC"
    return ZoneVerdict(name, tuple(months))


def shown(offset: int) -> str:
    """An offset in seconds as `UTC-08:00`."""
    sign = "-" if offset < 0 else "+"
    return f"UTC{sign}{abs(offset) // 3600:02d}:{abs(offset) % 3600 // 60:02d}"


def _name(month: int) -> str:
    return f"{1970 + month // 12}-{month % 12 + 1:02d}"


def _offsets_in(month: int, clock: ZoneClock) -> tuple[int, ...]:
    """Every offset the zone has in a month of its own calendar, in seconds."""
    day = 86_400_000_000
    start = wall_of(datetime(1970 + month // 12, month % 12 + 1, 1, tzinfo=None))
    found = set()
    for step in range(32):
        wall = start + step * day
        if datetime.fromtimestamp(wall / 1e6, UTC).month != month % 12 + 1 and step:
            break
        found.add(round((wall - clock.to_utc(wall)[0]) / 1_000_000))
        found.add(round((wall + day - 1 - clock.to_utc(wall + day - 1)[0]) / 1_000_000))
    return tuple(sorted(found))
