"""How far a clock is from UTC, measured day by day from rows that also have their true receive time.

A tool that writes local clock readings as if they were UTC gives itself away: clock minus receive time is the
zone's offset, less some seconds of latency (docs/know/exports.md#mixpanel-time-zone). The most frequent difference is
the zone's offset; late mobile rows and wrong clocks only form the tails. A survey shows it by month, a plan compares a
zone with it by day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.timestamps import DAY

QUARTER = 900_000_000
"""Offsets are distinguished to a quarter of an hour, in µs."""
LATENCY = 30_000_000
"""Rows arrive some seconds after they happen, so this much is added before rounding, in µs."""
WEST, EAST = -12 * 3600, 14 * 3600
"""No zone is further than this from UTC, in seconds: a greater distance is a row that arrived late, not an offset."""
ENOUGH = 3
"""A month in which fewer rows agree proves and contradicts nothing."""
_EPOCH = date(1970, 1, 1).toordinal()


class MonthOffset(NamedTuple):
    """One month, counted from January 1970: `rows` of `of` rows are `offset` seconds east of UTC."""

    month: int
    offset: int
    rows: int
    of: int


def count_offsets(walls: NDArray[np.int64], received: NDArray[np.int64]) -> Counter[tuple[int, int]]:
    """Count (day since 1970, offset in seconds) over clock readings and their receive times, in µs UTC.

    Anything beyond the offsets of zones is counted as one distance, so that there are only a few.
    """
    quarters = (walls - received + LATENCY + QUARTER // 2) // QUARTER
    quarters = np.clip(quarters, WEST // 900 - 1, EAST // 900 + 1)
    low = quarters.min(initial=0)
    span = quarters.max(initial=0) - low + 1
    found, counts = np.unique(walls // DAY * span + (quarters - low), return_counts=True)
    return Counter(
        {
            (both // int(span), (both % int(span) + int(low)) * 900): n
            for both, n in zip(found.tolist(), counts.tolist(), strict=True)
        }
    )


def by_day(evidence: Mapping[tuple[int, int], int]) -> Iterator[tuple[int, Counter[int]]]:
    """Each day in order, with how many of its rows show each offset."""
    for day, offsets in groupby(sorted(evidence.items()), key=lambda item: item[0][0]):
        yield day, Counter({offset: count for (_, offset), count in offsets})


def is_possible(offset: int) -> bool:
    """Whether a zone may be this far from UTC, in seconds."""
    return WEST <= offset <= EAST


def most_frequent(evidence: Counter[tuple[int, int]]) -> list[MonthOffset]:
    """The offset that each month shows, in order; months with fewer than ENOUGH rows of one offset are left out."""
    by_month: dict[int, Counter[int]] = {}
    for (day, offset), count in evidence.items():
        by_month.setdefault(month_of(day), Counter())[offset] += count
    months = []
    for month, offsets in sorted(by_month.items()):
        # For equal counts take the greater offset, since latency only makes it smaller.
        count, offset = max(((count, one) for one, count in offsets.items() if is_possible(one)), default=(0, 0))
        if count >= ENOUGH:
            months.append(MonthOffset(month, offset, count, offsets.total()))
    return months


def month_of(day: int) -> int:
    """The month, counted from January 1970, of a day since 1970-01-01."""
    shown = date.fromordinal(_EPOCH + day)
    return (shown.year - 1970) * 12 + shown.month - 1


def month_name(month: int) -> str:
    """A month counted from January 1970, as `2021-03`."""
    return f"{1970 + month // 12:04d}-{month % 12 + 1:02d}"


def offset_name(offset: int) -> str:
    """An offset in seconds as `UTC-08:00`."""
    sign = "-" if offset < 0 else "+"
    return f"UTC{sign}{abs(offset) // 3600:02d}:{abs(offset) % 3600 // 60:02d}"
