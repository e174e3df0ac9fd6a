"""A bar chart of events over time: by day as long as bars can be told apart, else by month, else by year (UTC)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

WIDTH, HEIGHT = 1000.0, 160.0
MOST_BARS = 1200
_EPOCH = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_UNITS = {"day": 10, "month": 7, "year": 4}
"""How much of `2023-01-31` names each."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar in a field of WIDTH by HEIGHT. `since` and `until` are its first and last day, as ISO 8601."""

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


def chart(by_day: Iterable[tuple[int, int]]) -> Chart | None:
    """The chart of (days since 1970, events), in order of the days; None of nothing."""
    days = [(day_text(day), count) for day, count in by_day]
    if not days:
        return None
    unit, counted = _in_bars(days)
    most = max(count for _, count in counted)
    step = WIDTH / len(counted)
    bars = []
    for place, (label, count) in enumerate(counted):
        height = max(HEIGHT * count / most, 2.0) if count else 0.0
        since, until = _span(label)
        bars.append(Bar(label, count, place * step, HEIGHT - height, step * 0.86, height, since, until))
    return Chart(unit, bars, most, sum(1 for _, count in counted if not count))


def day_text(day: int) -> str:
    """A day since 1970 as ISO 8601, the year 0 as well."""
    ordinal = day + _EPOCH
    if ordinal >= 1:
        return date.fromordinal(ordinal).isoformat()
    later = date.fromordinal(ordinal + _CYCLE_DAYS)
    return f"{later.year - _CYCLE_YEARS:04}{later.isoformat()[4:]}"


def _in_bars(days: list[tuple[str, int]]) -> tuple[str, list[tuple[str, int]]]:
    """The unit, and every one of them from the first to the last; years without events are left out."""
    for unit, length in _UNITS.items():
        counted: Counter[str] = Counter()
        for day, count in days:
            counted[day[:length]] += count
        labels = list(counted) if unit == "year" else _between(days[0][0], days[-1][0], unit)
        if labels is not None and len(labels) <= MOST_BARS:
            break
    assert labels is not None
    return unit, [(label, counted[label]) for label in labels[-MOST_BARS:]]


def _between(first: str, last: str, unit: str) -> list[str] | None:
    """The days or months from the first to the last; None where there are too many, or before the year 1."""
    if first < "0001":
        return None
    if unit == "day":
        start, end = date.fromisoformat(first).toordinal(), date.fromisoformat(last).toordinal()
        if end - start >= MOST_BARS:
            return None
        return [date.fromordinal(one).isoformat() for one in range(start, end + 1)]
    start, end = (int(day[:4]) * 12 + int(day[5:7]) - 1 for day in (first, last))
    if end - start >= MOST_BARS:
        return None
    return [f"{one // 12:04}-{one % 12 + 1:02}" for one in range(start, end + 1)]


def _span(label: str) -> tuple[str, str]:
    """The first and last day of a day, month or year; empty for the year 0, which no filter reaches."""
    if label < "0001":
        return "", ""
    if len(label) == 10:
        return label, label
    if len(label) == 4:
        return f"{label}-01-01", f"{label}-12-31"
    year, month = int(label[:4]), int(label[5:])
    if month == 12:
        return f"{label}-01", f"{label}-31"
    return f"{label}-01", date.fromordinal(date(year, month + 1, 1).toordinal() - 1).isoformat()
