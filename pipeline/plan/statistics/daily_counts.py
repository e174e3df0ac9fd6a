"""Daily counts: events by name, UTC day and outcome."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TypeAlias

from pipeline.plan.statistics.spilled_counts import MOST_KEYS, SpilledCounts
from pipeline.timestamps import DAY, format_utc

Cell: TypeAlias = tuple[str, int, str]
"""(event name, days since 1970, outcome): outcome is `mapped`, or the code of a skip or a reject."""


def day_name(day: int) -> str:
    """`2021-03-01` of days since 1970."""
    return format_utc(day * DAY)[:10]


class DailyCounts(SpilledCounts):
    """Counts of cells, which are on disk where years times names are many."""

    def __init__(self, directory: Path, most: int = MOST_KEYS) -> None:
        super().__init__(directory, "cells", Cell, most)

    def move(self, event: str, day: int, outcome: str, count: int) -> None:
        """Move a number of mapped events of a name and day to another outcome."""
        self.add({(event, day, "mapped"): -count, (event, day, outcome): count})


def sorted_counts(counts: Counter[str]) -> dict[str, int]:
    """Counts, the most frequent first, equal ones by name; counts of 0 are left out."""
    return dict(sorted(((code, n) for code, n in counts.items() if n), key=lambda pair: (-pair[1], pair[0])))
