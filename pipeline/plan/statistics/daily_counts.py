"""Daily counts: events by name, UTC day and outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.timestamps import DAY, format_utc
from pipeline.zone_clock import QUARTER

if TYPE_CHECKING:
    from pipeline.plan.fact_tables import FactTables
    from pipeline.plan.statistics.spilling_counts import SpillingCounts

Cell: TypeAlias = tuple[str, int, str]
"""(event name, days since 1970, outcome); the outcome is `mapped`, or the code of a skip or a reject."""
_DAYS = f"""
CREATE TABLE days AS
SELECT name, time // {DAY} AS day, count(*) AS events, min(time) AS first, max(time) AS last,
    count(*) FILTER (ordinal = 0) AS different, min(place) FILTER (ordinal = 0) AS place
FROM sent GROUP BY ALL
"""
_CELLS = f"""
SELECT name, day, outcome, sum(count)::BIGINT AS count FROM (
    SELECT name, day, 'mapped' AS outcome, events AS count FROM days
    UNION ALL SELECT name, time // {DAY}, code, count(*) FROM decided WHERE event AND code IS NOT NULL GROUP BY ALL
    UNION ALL SELECT name, day, outcome, count FROM other_cells
) GROUP BY name, day, outcome HAVING sum(count) > 0 ORDER BY ALL
"""

_QUARTERS = f"""
SELECT quarter, sum(events)::BIGINT AS events FROM (
    SELECT time // {QUARTER} AS quarter, count(*) AS events FROM facts WHERE event GROUP BY quarter
    UNION ALL SELECT time // {QUARTER}, -count(*) FROM decided WHERE event AND code IS NOT NULL GROUP BY ALL
) GROUP BY quarter HAVING sum(events) > 0 ORDER BY quarter
"""


def day_name(day: int) -> str:
    """Days since 1970 as `2021-03-01`."""
    return format_utc(day * DAY)[:10]


def sorted_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts, the greatest first and equal ones by name, without counts of 0."""
    return dict(sorted(((code, n) for code, n in counts.items() if n), key=lambda pair: (-pair[1], pair[0])))


class DailyCounts:
    """The daily counts of a plan, once its duplicates are decided. `events` is the number of events to send, from
    `first` to `last` (µs UTC, or None). `others` counts skips and rejects by Cell."""

    def __init__(self, tables: FactTables, others: SpillingCounts) -> None:
        self._tables = tables
        tables.run(_DAYS)
        tables.run("CREATE TABLE other_cells (name VARCHAR, day BIGINT, outcome VARCHAR, count BIGINT)")
        tables.insert("other_cells", others.rows())
        ((self.events, self.first, self.last),) = tables.rows(
            "SELECT coalesce(sum(events), 0)::BIGINT, min(first), max(last) FROM days"
        )

    def cells(self) -> Iterator[tuple[str, int, str, int]]:
        """Each event name, day and outcome with its count, ascending."""
        return self._tables.tuples(_CELLS)

    def quarters(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The quarters of an hour since 1970 that have events to send, ascending, and how many each has."""
        none = np.zeros((2, 0), np.int64)
        batches = [np.stack((one["quarter"], one["events"])) for one in self._tables.arrays(_QUARTERS)]
        quarters, events = np.concatenate([none, *batches], axis=1)
        return quarters, events
