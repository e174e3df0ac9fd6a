"""The check of the declared time zone: the offsets measured in the data, month by month.

A tool that exports local clock readings as if they were UTC shifts years of history by hours when believed
(docs/know/exports.md#mixpanel-time-zone; docs/know/peers.md#time-zones). `pipeline.clock_offsets` measures how far the
clock of the rows stands from UTC; the most frequent offset of a month must be one that the declared zone had in that
month.
"""

from __future__ import annotations

from calendar import monthrange
from collections import Counter
from datetime import datetime

import msgspec

from pipeline.clock_offsets import month_name, most_frequent
from pipeline.plan.sealed.facts import MonthEvidence
from pipeline.timestamps import DAY, ZoneClock, wall_of

WEST, EAST = -12 * 3600, 14 * 3600
"""No zone is further from UTC, in seconds: a greater distance is a row that arrived late, not an offset."""
SHARE = 10
"""A month in which fewer than one row in so many shows the offset proves and contradicts nothing: history that was
imported into the tool in bulk arrives at any distance from its own time."""


class ZoneVerdict(msgspec.Struct, frozen=True):
    """`proved`: there are months, and all agree with the zone. `contradictions`: the months that do not."""

    zone: str
    months: tuple[MonthEvidence, ...]

    @property
    def contradictions(self) -> tuple[MonthEvidence, ...]:
        return tuple(one for one in self.months if not one.agrees)

    @property
    def proved(self) -> bool:
        return bool(self.months) and not self.contradictions


def judge_zone(evidence: Counter[tuple[int, int]], zones: tuple[tuple[str, str], ...]) -> ZoneVerdict:
    """Compare measured offsets, counted by (month since 1970, seconds), with the declared zones; none means UTC."""
    clock = ZoneClock(zones)
    of: Counter[int] = Counter()
    possible: Counter[tuple[int, int]] = Counter()
    for (month, offset), count in evidence.items():
        of[month] += count
        if WEST <= offset <= EAST:
            possible[month, offset] = count
    months = []
    for month, offset, rows, _ in most_frequent(possible):
        if rows * SHARE >= of[month]:
            expected = _offsets_in(month, clock)
            months.append(MonthEvidence(month_name(month), offset, rows, of[month], expected, offset in expected))
    name = ", ".join(f"{zone}@{since}" if since else zone for zone, since in zones) or "UTC"
    return ZoneVerdict(name, tuple(months))


def _offsets_in(month: int, clock: ZoneClock) -> tuple[int, ...]:
    """Every offset the zone has in a month of its own calendar, in seconds."""
    year, number = 1970 + month // 12, month % 12 + 1
    start, days = wall_of(datetime(year, number, 1)), monthrange(year, number)[1]
    walls = [*(start + day * DAY for day in range(days)), start + days * DAY - 1]
    return tuple(sorted({round((wall - clock.to_utc(wall)[0]) / 1_000_000) for wall in walls}))
