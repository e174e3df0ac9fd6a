"""Bars in a row of a table, by month, and by hour of day on several clocks: a wrong time zone has its night by day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeline.charts import picture, short

LEAST_PLACES = 12
"""A bar of a sparkline is never wider than if there were this many."""
_TICKS = 3
"""Every third hour has its number below."""


def bar(count: int, most: int) -> str:
    """A bar as long as its share of the largest count; the count itself is next to it in the table."""
    share = count / most if most else 0
    width = max(1.0, 100 * share) if count else 0
    words = f"{count:,}", f"{share:.0%} of the largest count, {most:,}."
    return picture("bar", "0 0 100 1", words, f'<rect width="{short(width)}" height="1"/>')


def sparkline(counts: Mapping[str, int], months: Sequence[str], what: str) -> str:
    """A bar for each month, the largest as high as the picture; `what` is counted, in the plural."""
    values = [counts.get(month, 0) for month in months]
    most, wide = max(values, default=0), ".8" if len(values) <= 36 else "1"
    shapes = "".join(
        f"M{place} 20v-{short(max(1.0, 20 * count / most))}h{wide}V20z" for place, count in enumerate(values) if count
    )
    words = f"{what.capitalize()} by month", f"Most in {months[values.index(most)]}: {most:,}." if most else "None."
    return picture("spark", f"0 0 {max(LEAST_PLACES, len(values))} 20", words, f'<path d="{shapes}"/>')


def months_between(months: Iterable[str]) -> list[str]:
    """Every month from the first of these to the last: `2021-03`."""
    named = set(months)
    if not named:
        return []
    first, last = (int(month[:4]) * 12 + int(month[5:]) - 1 for month in (min(named), max(named)))
    return [f"{month // 12:04d}-{month % 12 + 1:02d}" for month in range(first, last + 1)]


class HourBars(NamedTuple):
    """The picture of one clock, the name of that clock, and what each hour says. `id` is unique on the page."""

    id: str
    clock: str
    svg: str
    readings: list[str]


class HourChart(NamedTuple):
    """A picture for each clock, the hours below them, and the table behind them: an hour, and its count by clock."""

    clocks: list[HourBars]
    ticks: list[str]
    rows: list[tuple[str, list[int]]]


def hour_chart(clocks: Sequence[tuple[str, Sequence[int]]]) -> HourChart | None:
    """The pictures of 24 counts by the name of their clock; None without events. Equal counts are shown once."""
    if not any(clocks[0][1]):
        return None
    shown = [one for number, one in enumerate(clocks) if not number or list(one[1]) != list(clocks[0][1])]
    bars = [_hours(f"hours-{number}", clock, counts) for number, (clock, counts) in enumerate(shown, 1)]
    rows = [(f"{hour:02d}:00", [counts[hour] for _, counts in shown]) for hour in range(24)]
    return HourChart(bars, [str(hour) for hour in range(0, 24, _TICKS)], rows)


def _hours(id: str, clock: str, counts: Sequence[int]) -> HourBars:
    most, total = max(counts), sum(counts)
    shapes = "".join(
        f"M{hour} 100v-{max(0.8, 100 * count / most):.1f}h.85V100z" for hour, count in enumerate(counts) if count
    )
    highest, lowest = counts.index(most), counts.index(min(counts))
    description = (
        f"Most at {highest:02d}:00 ({most / total:.1%} of {total:,}), fewest at {lowest:02d}:00"
        f" ({counts[lowest] / total:.1%})."
    )
    svg = picture("hours", "0 0 24 100", ("Events by hour of day", description), f'<path d="{shapes}"/>')
    return HourBars(id, clock, svg, [f"{hour:02d}:00: {count:,}" for hour, count in enumerate(counts)])
