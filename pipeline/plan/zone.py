"""The check of the declared time zone: the offsets measured in the data, day by day.

A tool that exports local clock readings as if they were UTC shifts years of history by hours if it is believed
(docs/know/exports.md#mixpanel-time-zone; docs/know/peers.md#time-zones). `pipeline.clock_offsets` measures how far the
clock of the rows is from UTC. Some zones differ only for a few days around a change of clocks; these days distinguish
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from pipeline.clock_offsets import ENOUGH, MonthOffset, by_day, is_possible, month_name, month_of, most_frequent
from pipeline.plan.sealed.facts import MonthEvidence
from pipeline.survey.zones import candidates
from pipeline.timestamps import DAY
from pipeline.zone_clock import ZoneClock

SHARE = 10
"""A day or a month proves and contradicts nothing if less than one row in SHARE shows the offset: history that was
imported into the tool in bulk arrives at any distance from its own time. A day contradicts a zone if at most one row in
SHARE agrees with it."""
MANY = 8
"""Rows of consecutive days that are all off by the same amount: this many do not come late by chance."""


class ZoneVerdict(msgspec.Struct, frozen=True):
    """`proved`: there are months, and all agree with the zone. `contradictions`: the months that do not; then `fitting`
    are the zones that agree with all."""

    zone: str
    months: tuple[MonthEvidence, ...]
    fitting: tuple[str, ...] = ()

    @property
    def contradictions(self) -> tuple[MonthEvidence, ...]:
        return tuple(one for one in self.months if not one.agrees)

    @property
    def proved(self) -> bool:
        return bool(self.months) and not self.contradictions


def fitting_zones(
    months: Iterable[MonthEvidence], evidence: Mapping[tuple[int, int], int] = MappingProxyType({})
) -> list[str]:
    """The zones that had the offsets of all months, the commonest first; see `candidates`."""
    found = [
        MonthOffset((int(one.month[:4]) - 1970) * 12 + int(one.month[5:]) - 1, one.offset, one.rows, one.of)
        for one in months
    ]
    return ["UTC"] if {one.offset for one in found} == {0} else candidates(found, evidence)


class _Day(NamedTuple):
    """A day that contradicts the zone: in `rows` rows the clock was `offset` seconds east of UTC, not `expected`."""

    day: int
    offset: int
    rows: int
    expected: tuple[int, ...]

    @property
    def error(self) -> int:
        return self.offset - self.expected[0]


def judge_zone(evidence: Counter[tuple[int, int]], zones: tuple[tuple[str, str], ...]) -> ZoneVerdict:
    """Compare measured offsets, counted by (day since 1970, seconds), with the declared zones; none means UTC."""
    clock = ZoneClock(zones)
    of: Counter[int] = Counter()
    expected: dict[int, set[int]] = {}
    for day, offsets in by_day(evidence):
        of[month_of(day)] += offsets.total()
        expected.setdefault(month_of(day), set()).update(_offsets_on(day, clock))
    against: dict[int, list[_Day]] = {}
    for wrong in _contradicting(evidence, clock):
        against.setdefault(month_of(wrong.day), []).append(wrong)
    months = []
    for month, offset, rows, _ in most_frequent(evidence):
        allowed = tuple(sorted(expected[month]))
        if days := against.get(month):
            offset, allowed, rows = days[0].offset, days[0].expected, sum(one.rows for one in days)
            months.append(MonthEvidence(month_name(month), offset, rows, of[month], allowed, False))
        elif rows * SHARE >= of[month] and offset in allowed:
            months.append(MonthEvidence(month_name(month), offset, rows, of[month], allowed, True))
    name = ", ".join(f"{zone}@{since}" if since else zone for zone, since in zones) or "UTC"
    return ZoneVerdict(name, tuple(months), tuple(fitting_zones(months, evidence)) if against else ())


def _contradicting(evidence: Counter[tuple[int, int]], clock: ZoneClock) -> Iterator[_Day]:
    """The days that contradict the zone, in order: consecutive days that are off by the same amount, if they have MANY
    rows, or ENOUGH rows that are one in SHARE of all."""
    all_rows = sum(count for (_, offset), count in evidence.items() if is_possible(offset))
    run: list[_Day] = []
    for one in [*_days(evidence, clock), None]:
        if run and (one is None or one.error != run[0].error):
            rows = sum(day.rows for day in run)
            if rows >= MANY or (rows >= ENOUGH and rows * SHARE >= all_rows):
                yield from run
            run = []
        if one is not None and one.rows:
            run.append(one)


def _days(evidence: Counter[tuple[int, int]], clock: ZoneClock) -> Iterator[_Day]:
    """The days that contradict the zone, and the days that agree with it, with 0 rows; other days say nothing."""
    for day, offsets in by_day(evidence):
        expected = _offsets_on(day, clock)
        right = max(offsets[one] for one in expected)
        rows, offset = max(((count, one) for one, count in offsets.items() if is_possible(one)), default=(0, 0))
        if right >= rows:
            yield _Day(day, expected[0], 0, expected)
        elif right * SHARE <= rows and rows * SHARE >= offsets.total():
            yield _Day(day, offset, rows, expected)


def _offsets_on(day: int, clock: ZoneClock) -> tuple[int, ...]:
    """The offsets in seconds that the zone has on a day of its own calendar: two if the clocks change."""
    walls = day * DAY, day * DAY + DAY - 1
    return tuple(sorted({round((wall - clock.to_utc(wall)[0]) / 1_000_000) for wall in walls}))
