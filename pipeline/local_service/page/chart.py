"""The chart of events over time: by day as long as bars can be distinguished, else by month, else by year (UTC)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT = 1000.0, 160.0
MOST_BARS = 1200
_KINDS = {"day": "M8[D]", "month": "M8[M]", "year": "M8[Y]"}
_FIRST_IN_FILTERS = "0001"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar in a field of WIDTH by HEIGHT. `since` and `until` are its first and last day, as ISO 8601; empty in the
    year 0, which no filter reaches."""

    label: str
    count: int
    x: float
    y: float
    width: float
    height: float
    since: str
    until: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The bars in order; `most` is the count of the highest, `gaps` how many days, months or years have no event."""

    unit: str
    bars: list[Bar]
    most: int
    gaps: int


def chart(by_day: Sequence[tuple[str, int]]) -> Chart | None:
    """The chart of (day as ISO 8601, events), in order of the days; None without days.

    Years without events are omitted, days and months are not.
    """
    if not by_day:
        return None
    days = np.array([day for day, _ in by_day], "M8[D]")
    for unit in ("day", "month"):
        units = days.astype(_KINDS[unit])
        if (units[-1] - units[0]).astype(int) < MOST_BARS and by_day[0][0] >= _FIRST_IN_FILTERS:
            shown = np.arange(units[0], units[-1] + 1)
            break
    else:
        unit, units = "year", days.astype(_KINDS["year"])
        shown = np.unique(units)[-MOST_BARS:]
    counts: Counter[np.datetime64] = Counter()
    for start, (_, count) in zip(units, by_day, strict=True):
        counts[start] += count
    most = max(counts[start] for start in shown)
    step = WIDTH / len(shown)
    bars = []
    for number, start in enumerate(shown):
        count = counts[start]
        height = max(HEIGHT * count / most, 2.0) if count else 0.0
        since, until = str(start.astype("M8[D]")), str((start + 1).astype("M8[D]") - 1)
        if since < _FIRST_IN_FILTERS:
            since = until = ""
        bars.append(Bar(str(start), count, number * step, HEIGHT - height, step * 0.86, height, since, until))
    return Chart(unit, bars, most, sum(not bar.count for bar in bars))
