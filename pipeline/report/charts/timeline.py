"""Events over time: a bar a day up to three years, then a bar a week, then a bar a month.

One day of 30 times the usual count would flatten all others, so the axis ends at four medians; a longer bar is cut
there and its count is written. Days without events in between are shaded and dated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from pipeline.text import pluralize

Unit = Literal["day", "week", "month"]

MEDIANS = 4
"""The axis ends at so many medians of a bar."""
MOST_BARS = 3 * 366
MOST_LABELS = 3
"""Labels for cut bars, and as many for gaps; the table has the others."""
MOST_GAPS = 20
"""From so many gaps on, only those that are longer than the usual one are shaded: weekends are none."""
LEAST_DAYS = 14
_TICKS = 9
_LAST_TICK = 94
"""A date after so many percent would run over the edge."""
_MOST_STOPS = 62
_LABEL_WIDTH = 0.8
"""Percent of the width that a character of a label takes at 900 px."""


class Tick(NamedTuple):
    """A date on the axis; `minor` ones are left out where it is narrow."""

    left: float
    text: str
    minor: bool


class Label(NamedTuple):
    """A note above the bars. It begins at `place` percent, or ends there (`before`); lane 0 is next to the bars."""

    place: float
    before: bool
    lane: int
    kind: str
    text: str


class Stop(NamedTuple):
    """Bars that the keyboard reaches together, with what they say."""

    left: float
    width: float
    text: str


class TableRow(NamedTuple):
    """A row of the table behind the picture."""

    name: str
    counts: list[int]
    total: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture with everything that is written around it, in percent of its width, and its counts.

    Of days, `rows` are months with 31 counts; of weeks and months, the bars that have events.
    """

    unit: Unit
    svg: str
    top: int
    ticks: list[Tick]
    labels: list[Label]
    lanes: int
    stops: list[Stop]
    notes: list[str]
    rows: list[TableRow]


class _Bar(NamedTuple):
    start: int
    end: int
    events: int


class _Gap(NamedTuple):
    first: int
    last: int

    @property
    def days(self) -> int:
        return self.last - self.first + 1

    @property
    def text(self) -> str:
        if self.days == 1:
            return f"no events on {_day(self.first)}"
        return f"no events from {_day(self.first)} to {_day(self.last)} ({self.days:,} days)"


def timeline(counts: Mapping[str, int]) -> Timeline | None:
    """The picture of counts by UTC day (`2021-03-01`); None where there are none."""
    days = {date.fromisoformat(day).toordinal(): count for day, count in sorted(counts.items()) if count > 0}
    if not days:
        return None
    unit = _unit_of(max(days) - min(days) + 1)
    bars = _bars(days, unit)
    origin, end = bars[0].start, max(bars[-1].end, bars[0].start + LEAST_DAYS)
    usual = median(bar.events for bar in bars)
    most = max(bar.events for bar in bars)
    top = min(most, max(1, round(MEDIANS * usual)))
    gaps, unshaded = _shaded(_gaps(days))
    cut = [bar for bar in bars if bar.events > top]

    def place(day: int) -> float:
        return round(100 * (day - origin) / (end - origin), 2)

    labels = _labels(cut, gaps, unit, usual, place)
    return Timeline(
        unit,
        _svg(bars, gaps, unit, (origin, end), top, _description(bars, gaps, unit, usual)),
        top,
        _ticks(origin, end, place),
        labels,
        1 + max((label.lane for label in labels), default=-1),
        _stops(bars, unit, place),
        _notes(cut, gaps, unshaded, unit),
        _rows(bars, unit),
    )


def _unit_of(days: int) -> Unit:
    if days <= MOST_BARS:
        return "day"
    return "week" if days <= 7 * MOST_BARS else "month"


def _bars(days: Mapping[int, int], unit: Unit) -> list[_Bar]:
    counts: dict[tuple[int, int], int] = {}
    for day, count in days.items():
        bounds = _bounds(day, unit)
        counts[bounds] = counts.get(bounds, 0) + count
    return [_Bar(start, end, count) for (start, end), count in counts.items()]


def _bounds(day: int, unit: Unit) -> tuple[int, int]:
    """The first day of the bar of a day, and the first one after it."""
    if unit == "day":
        return day, day + 1
    if unit == "week":
        monday = day - (day - 1) % 7  # day 1 was a Monday
        return monday, monday + 7
    first = date.fromordinal(day).replace(day=1)
    return first.toordinal(), _months_later(first, 1).toordinal()


def _months_later(first: date, months: int) -> date:
    year, month = divmod(first.year * 12 + first.month - 1 + months, 12)
    return date(year, month + 1, 1)


def _gaps(days: Mapping[int, int]) -> list[_Gap]:
    return [_Gap(earlier + 1, later - 1) for earlier, later in pairwise(days) if later - earlier > 1]


def _shaded(gaps: list[_Gap]) -> tuple[list[_Gap], int]:
    """The gaps to shade, and the number of the others."""
    if len(gaps) <= MOST_GAPS:
        return gaps, 0
    usual = median(gap.days for gap in gaps)
    longest = sorted((gap for gap in gaps if gap.days > 2 * usual), key=lambda gap: -gap.days)[:MOST_GAPS]
    return sorted(longest), len(gaps) - len(longest)


def _svg(bars: list[_Bar], gaps: list[_Gap], unit: Unit, bounds: tuple[int, int], top: int, description: str) -> str:
    origin, end = bounds
    shapes: dict[bool, list[str]] = {False: [], True: []}
    space = 0.15 if end - origin <= 150 * (bars[0].end - bars[0].start) else 0
    for bar in bars:
        wide = (bar.end - bar.start) * (1 - space)
        height = max(0.8, 100 * min(bar.events, top) / top)
        shapes[bar.events > top].append(f"M{bar.start - origin} 100v-{_short(height)}h{_short(wide)}V100z")
    shaded = "".join(
        f'<rect x="{gap.first - origin}" width="{gap.days}" height="100"><title>{_sentence(gap.text)}</title></rect>'
        for gap in gaps
    )
    hover = "".join(
        f'<rect x="{bar.start - origin}" width="{bar.end - bar.start}" height="100">'
        f"<title>{_said(bar, unit)}</title></rect>"
        for bar in bars
    )
    return (
        f'<svg class="timeline" viewBox="0 0 {end - origin} 100" preserveAspectRatio="none" role="img"'
        ' aria-labelledby="timeline-title" aria-describedby="timeline-description">'
        f'<title id="timeline-title">Events per {unit}</title><desc id="timeline-description">{description}</desc>'
        f'<g class="gap">{shaded}</g><path class="grid" d="M0 0h{end - origin}M0 50h{end - origin}"/>'
        f'<path class="all" d="{"".join(shapes[False])}"/><path class="cut" d="{"".join(shapes[True])}"/>'
        f'<g class="hover">{hover}</g></svg>'
    )


def _description(bars: list[_Bar], gaps: list[_Gap], unit: Unit, usual: float) -> str:
    highest = max(bars, key=lambda bar: bar.events)
    said = (
        f"From {_day(bars[0].start)} to {_day(bars[-1].end - 1)}. The median {unit} has {usual:,.0f} events; the"
        f" highest, {_bar_name(highest, unit)}, has {highest.events:,}."
    )
    return " ".join((said, *(f"{_sentence(gap.text)}." for gap in gaps[:MOST_LABELS])))


def _ticks(origin: int, end: int, place: Callable[[int], float]) -> list[Tick]:
    """Dates at regular distances: days, else months, else years."""
    span = end - origin
    if span <= 62:
        step = next(step for step in (1, 2, 7, 14) if span <= step * _TICKS or step == 14)
        days = list(range(origin, end, step))
        names = [_day(day)[5:] if number else _day(day) for number, day in enumerate(days)]
    else:
        months = span / 30.4
        step = next((step for step in (1, 2, 3, 6, 12, 24, 60) if months <= step * _TICKS), 120)
        first = date.fromordinal(origin)
        begin = first.replace(day=1) if first.day == 1 else _months_later(first.replace(day=1), 1)
        if step > 1:
            begin = _months_later(begin, -(begin.year * 12 + begin.month - 1) % step)
        days, names = [], []
        while begin.toordinal() < end:
            days.append(begin.toordinal())
            names.append(str(begin.year) if begin.month == 1 else f"{begin:%Y-%m}")
            begin = _months_later(begin, step)
    shown = [(place(day), name) for day, name in zip(days, names, strict=True) if place(day) <= _LAST_TICK]
    return [Tick(left, name, bool(number % 2)) for number, (left, name) in enumerate(shown)]


def _labels(cut: list[_Bar], gaps: list[_Gap], unit: Unit, usual: float, place: Callable[[int], float]) -> list[Label]:
    """What is written above the bars, each in the lowest lane where it covers no other."""
    wanted = [
        (
            place(bar.start),
            "cut",
            f"{_bar_name(bar, unit)}: {bar.events:,} ({bar.events / usual:,.0f} × the median {unit})",
        )
        for bar in sorted(cut, key=lambda bar: -bar.events)[:MOST_LABELS]
    ] + [(place(gap.first), "gap", gap.text) for gap in sorted(gaps, key=lambda gap: -gap.days)[:MOST_LABELS]]
    lanes: list[list[tuple[float, float]]] = []
    labels = []
    for where, kind, text in sorted(wanted):
        before, width = where > 50, _LABEL_WIDTH * len(text)
        left, right = (where - width, where) if before else (where, where + width)
        free = (
            number for number, taken in enumerate(lanes) if all(right < start or left > end for start, end in taken)
        )
        lane = next(free, len(lanes))
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append((left, right))
        labels.append(Label(100 - where if before else where, before, lane, kind, text))
    return labels


def _stops(bars: list[_Bar], unit: Unit, place: Callable[[int], float]) -> list[Stop]:
    """Few bars one by one; of many, days by month, and weeks and months by year."""
    if len(bars) <= _MOST_STOPS:
        return [
            Stop(
                place(bar.start), round(place(bar.end) - place(bar.start), 2), f"{_bar_name(bar, unit)}: {bar.events:,}"
            )
            for bar in bars
        ]
    together: dict[str, list[_Bar]] = {}
    for bar in bars:
        together.setdefault(_day(bar.start)[: 7 if unit == "day" else 4], []).append(bar)
    stops = []
    for name, some in together.items():
        highest = max(some, key=lambda bar: bar.events)
        text = f"{name}: {sum(bar.events for bar in some):,}; most {_said(highest, unit)}"
        left = place(some[0].start)
        stops.append(Stop(left, round(place(some[-1].end) - left, 2), text))
    return stops


def _notes(cut: list[_Bar], gaps: list[_Gap], unshaded: int, unit: Unit) -> list[str]:
    notes = []
    if (more := len(cut) - MOST_LABELS) > 0:
        notes.append(f"{pluralize(more, f'more {unit}')} above the axis")
    if (more := len(gaps) - MOST_LABELS) > 0:
        notes.append(f"{pluralize(more, 'more gap')} shaded")
    if unshaded:
        notes.append(f"{pluralize(unshaded, 'short gap')} not shaded")
    return notes


def _rows(bars: list[_Bar], unit: Unit) -> list[TableRow]:
    if unit != "day":
        return [TableRow(_bar_name(bar, unit), [], bar.events) for bar in bars]
    months: dict[str, list[int]] = {}
    for bar in bars:
        day = _day(bar.start)
        months.setdefault(day[:7], [0] * 31)[int(day[8:]) - 1] = bar.events
    return [TableRow(month, counts, sum(counts)) for month, counts in months.items()]


def _bar_name(bar: _Bar, unit: Unit) -> str:
    day = _day(bar.start)
    return {"day": day, "week": f"week of {day}", "month": day[:7]}[unit]


def _said(bar: _Bar, unit: Unit) -> str:
    return f"{_bar_name(bar, unit)}: {bar.events:,}"


def _day(ordinal: int) -> str:
    return date.fromordinal(ordinal).isoformat()


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _short(number: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{number:.1f}".removesuffix(".0")
