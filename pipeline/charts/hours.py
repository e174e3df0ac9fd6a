"""Events by hour of day, on one clock and on another beside it: a wrong time zone has its night by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_TICKS = 3
"""Every third hour has its number below."""


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
    bars = [_bars(f"hours-{number}", clock, counts) for number, (clock, counts) in enumerate(shown, 1)]
    rows = [(f"{hour:02d}:00", [counts[hour] for _, counts in shown]) for hour in range(24)]
    return HourChart(bars, [str(hour) for hour in range(0, 24, _TICKS)], rows)


def _bars(id_: str, clock: str, counts: Sequence[int]) -> HourBars:
    return HourBars(id_, clock, _svg(counts, id_), [f"{hour:02d}:00: {count:,}" for hour, count in enumerate(counts)])


def _svg(counts: Sequence[int], id_: str) -> str:
    most, total = max(counts), sum(counts)
    shapes = "".join(
        f"M{hour} 100v-{max(0.8, 100 * count / most):.1f}h.85V100z" for hour, count in enumerate(counts) if count
    )
    highest, lowest = counts.index(most), counts.index(min(counts))
    description = (
        f"Most at {highest:02d}:00 ({most / total:.1%} of {total:,}), fewest at {lowest:02d}:00"
        f" ({counts[lowest] / total:.1%})."
    )
    return (
        f'<svg class="hours" viewBox="0 0 24 100" preserveAspectRatio="none" role="img" aria-labelledby="{id_}"'
        f' aria-describedby="{id_}-text"><title id="{id_}">Events by hour of day</title>'
        f'<desc id="{id_}-text">{description}</desc><path d="{shapes}"/></svg>'
    )
