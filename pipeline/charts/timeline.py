"""Events over time: a bar a day up to three years, then a bar a week, a month, a year or a century.

One day of 30 times the usual count would flatten all others, so the axis ends at four medians; a longer bar is cut
open near its top, and its count is written. Days without events in between are shaded and dated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

import msgspec

from pipeline.charts import at, picture, short
from pipeline.text import pluralize

Unit = Literal["day", "week", "month", "year", "century"]

MEDIANS = 4
"""The axis ends at this many medians of a bar."""
MOST_BARS = 3 * 366
MOST_LABELS = 3
"""Labels for cut bars, and as many for gaps; the table has the others."""
MOST_GAPS = 20
"""If there are at least this many gaps, only those longer than the usual one are shaded: weekends are not."""
LEAST_DAYS = 14
_BREAK = (6, 12)
"""A bar that is cut is open between these percent from the top."""
_TICKS = 9
_LENGTHS: Mapping[Unit, int] = {"week": 7, "month": 30, "year": 365}
_YEARS: Mapping[Unit, int] = {"year": 1, "century": 100}
_CYCLE = 146_097
"""The days of 400 years, after which the calendar repeats: so the years 0 and 10,000 have days, too."""
_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1_200, 2_400, 6_000, 12_000)
_LAST_TICK = 94
"""A date beyond this percentage would extend beyond the edge."""
_LABEL_WIDTH = 0.8
"""Percent of the width that a character of a label takes at 900 px."""


class Tick(NamedTuple):
    """A date on the axis; `at` is the class of its place, and `minor` ones are left out in a narrow window."""

    at: str
    text: str
    minor: bool


class Label(NamedTuple):
    """A note above the bars. It begins at a place, or ends there (`before`, then `at` counts from the right); lane 0 is
    next to the bars."""

    at: str
    before: bool
    lane: int
    kind: str
    text: str


class Reading(NamedTuple):
    """What one bar says, for the pointer and the keyboard; the same width for each, also for those without events.

    Readings of one `group` are one stop of the keyboard, which goes along them with the arrow keys. `since` and `until`
    are the first and the last day of the bar.
    """

    text: str
    group: str
    since: str
    until: str


class TableRow(NamedTuple):
    """A row of the table behind the picture, from one day to another."""

    name: str
    counts: list[int]
    total: int
    since: str
    until: str


class Timeline(msgspec.Struct, frozen=True):
    """The picture with everything that is written around it, in percent of its width, and its counts.

    Of days, `rows` are months with 31 counts; of weeks and months, the bars that have events. The readings are as
    wide as the class `filled` says: a few days do not fill the picture. `id` is the prefix of ids on the page.
    """

    id: str
    unit: str
    what: str
    svg: str
    top: int
    ticks: list[Tick]
    labels: list[Label]
    lanes: int
    readings: list[Reading]
    filled: str
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

    def text(self, what: str) -> str:
        if self.days == 1:
            return f"no {what} on {_day(self.first)}"
        return f"no {what} from {_day(self.first)} to {_day(self.last)} ({self.days:,} days)"


def timeline(counts: Mapping[str, int], *, gaps_shown: bool = True, what: str = "events") -> Timeline | None:
    """The picture of counts by UTC day (`2021-03-01`); None if there are none.

    `gaps_shown`: days without any are gaps, which a person has to see. `what` is counted, in the plural.
    """
    days = {_ordinal(*map(int, day.split("-"))): count for day, count in sorted(counts.items()) if count > 0}
    if not days:
        return None
    unit = _unit_of(max(days) - min(days) + 1)
    bars = _bars(days, unit)
    origin, end = bars[0].start, max(bars[-1].end, bars[0].start + LEAST_DAYS)
    usual = median(bar.events for bar in bars)
    most = max(bar.events for bar in bars)
    top = min(most, max(1, round(MEDIANS * usual)))
    found = [_Gap(one + 1, later - 1) for one, later in pairwise(days) if later - one > 1] if gaps_shown else []
    gaps, unshaded = _shaded(found)
    cut = [bar for bar in bars if bar.events > top]

    def place(day: int) -> float:
        return round(100 * (day - origin) / (end - origin), 2)

    labels = _labels(cut, gaps, unit, top, place, what)
    description = _description(bars, gaps, unit, usual, what)
    return Timeline(
        "timeline",
        unit,
        what,
        _svg(bars, gaps, (origin, end), top, (f"{_sentence(what)} per {unit}", description)),
        top,
        _ticks(origin, end, place),
        labels,
        1 + max((label.lane for label in labels), default=-1),
        _readings(bars, unit),
        at(place(bars[-1].end)),
        _notes(cut, gaps, unshaded, unit),
        _rows(bars, unit),
    )


def _unit_of(days: int) -> Unit:
    if days <= MOST_BARS:
        return "day"
    return next((unit for unit, length in _LENGTHS.items() if days <= length * MOST_BARS), "century")


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
    year, month, _ = _civil(day)
    if unit == "month":
        return _ordinal(year, month, 1), _ordinal(year + month // 12, month % 12 + 1, 1)
    years = _YEARS[unit]
    first = year - year % years
    return _ordinal(first, 1, 1), _ordinal(first + years, 1, 1)


def _ordinal(year: int, month: int, day: int) -> int:
    """The number of a day, of any year; day 1 is the first of the year 1."""
    cycles, rest = divmod(year, 400)
    return date(rest + 400, month, day).toordinal() + (cycles - 1) * _CYCLE


def _civil(ordinal: int) -> tuple[int, int, int]:
    """Year, month and day of a number of a day."""
    cycles, rest = divmod(ordinal - 1, _CYCLE)
    found = date.fromordinal(rest + 1 + _CYCLE)
    return found.year - 400 + cycles * 400, found.month, found.day


def _shaded(gaps: list[_Gap]) -> tuple[list[_Gap], int]:
    """The gaps to shade, and the number of the others."""
    if len(gaps) <= MOST_GAPS:
        return gaps, 0
    usual = median(gap.days for gap in gaps)
    longest = sorted((gap for gap in gaps if gap.days > 2 * usual), key=lambda gap: -gap.days)[:MOST_GAPS]
    return sorted(longest), len(gaps) - len(longest)


def _svg(bars: list[_Bar], gaps: list[_Gap], bounds: tuple[int, int], top: int, words: tuple[str, str]) -> str:
    """The picture; `words` are its title and its description."""
    origin, end = bounds
    shapes: dict[bool, list[str]] = {False: [], True: []}
    space = 0.15 if end - origin <= 150 * (bars[0].end - bars[0].start) else 0
    for bar in bars:
        wide = (bar.end - bar.start) * (1 - space)
        height = max(0.8, 100 * min(bar.events, top) / top)
        left, right = bar.start - origin, short(wide)
        if bar.events > top:  # the break near its top says that the bar goes on
            shapes[True].append(f"M{left} 100V{_BREAK[1]}h{right}V100zM{left} {_BREAK[0]}V0h{right}V{_BREAK[0]}z")
        else:
            shapes[False].append(f"M{left} 100v-{short(height)}h{right}V100z")
    shaded = "".join(f"M{gap.first - origin} 0h{gap.days}v100h-{gap.days}z" for gap in gaps)
    bodies = f'<path class="gap" d="{shaded}"/>{bars_of(end - origin, shapes)}'
    return picture("timeline", f"0 0 {end - origin} 100", words, bodies)


def bars_of(width: int, shapes: Mapping[bool, Sequence[str]]) -> str:
    """The grid, and the bars: those of another colour are under True."""
    return (
        f'<path class="grid" d="M0 0h{width}M0 50h{width}"/>'
        f'<path class="all" d="{"".join(shapes[False])}"/><path class="cut" d="{"".join(shapes[True])}"/>'
    )


def _description(bars: list[_Bar], gaps: list[_Gap], unit: Unit, usual: float, what: str) -> str:
    highest = max(bars, key=lambda bar: bar.events)
    if len(bars) == 1:
        return f"All {what} are of one {unit}, {_bar_name(highest, unit)}: {highest.events:,}."
    text = (
        f"From {_day(bars[0].start)} to {_day(bars[-1].end - 1)}. The {what} of the median {unit}: {usual:,.0f}; of the"
        f" highest, {_bar_name(highest, unit)}: {highest.events:,}."
    )
    return " ".join((text, *(f"{_sentence(gap.text(what))}." for gap in gaps[:MOST_LABELS])))


def _ticks(origin: int, end: int, place: Callable[[int], float]) -> list[Tick]:
    """Dates at regular distances: days, else months, else years."""
    span = end - origin
    if span <= 62:
        step = next(step for step in (1, 2, 7, 14) if span <= step * _TICKS or step == 14)
        days = list(range(origin, end, step))
        names = [_day(day)[5:] if number else _day(day) for number, day in enumerate(days)]
    else:
        months = span / 30.4
        step = next((step for step in _STEPS if months <= step * _TICKS), _STEPS[-1])
        year, month, day = _civil(origin)
        number = year * 12 + month - 1 + (day > 1)
        number += -number % step
        days, names = [], []
        while (begin := _ordinal(number // 12, number % 12 + 1, 1)) < end:
            days.append(begin)
            names.append(_day(begin)[: 7 if number % 12 else 4])
            number += step
    shown = [(place(day), name) for day, name in zip(days, names, strict=True) if place(day) <= _LAST_TICK]
    return [Tick(at(left), name, bool(number % 2)) for number, (left, name) in enumerate(shown)]


def _labels(
    cut: list[_Bar], gaps: list[_Gap], unit: Unit, top: int, place: Callable[[int], float], what: str
) -> list[Label]:
    """The labels above the bars, each in the lowest lane in which it covers no other."""
    wanted = [
        (
            place(bar.start),
            "cut",
            f"{_bar_name(bar, unit)}: {bar.events:,} (bar cut at {top:,})",
        )
        for bar in sorted(cut, key=lambda bar: -bar.events)[:MOST_LABELS]
    ] + [(place(gap.first), "gap", gap.text(what)) for gap in sorted(gaps, key=lambda gap: -gap.days)[:MOST_LABELS]]
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
        labels.append(Label(at(100 - where if before else where), before, lane, kind, text))
    return labels


def _readings(bars: list[_Bar], unit: Unit) -> list[Reading]:
    """A reading for every day, week or month from the first to the last."""
    events = {bar.start: bar.events for bar in bars}
    readings = []
    start = bars[0].start
    while start < bars[-1].end:
        end = _bounds(start, unit)[1]
        bar = _Bar(start, end, events.get(start, 0))
        text = f"{_bar_name(bar, unit)}: {bar.events:,}"
        readings.append(Reading(text, _group(start, unit), _day(start), _day(end - 1)))
        start = end
    return readings


def _group(start: int, unit: Unit) -> str:
    """The quarter of a day, the year of a week, the decade of a month: few stops, and few steps within each."""
    year, month, _ = _civil(start)
    if unit == "day":
        return f"{year}q{(month + 2) // 3}"
    return str({"week": year, "month": year // 10}.get(unit, year // 1_000))


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
        return [
            TableRow(_bar_name(bar, unit).rpartition(" ")[2], [], bar.events, _day(bar.start), _day(bar.end - 1))
            for bar in bars
        ]
    months: dict[str, list[int]] = {}
    for bar in bars:
        day = _day(bar.start)
        months.setdefault(day[:7], [0] * 31)[int(day[8:]) - 1] = bar.events
    return [TableRow(month, counts, sum(counts), "", "") for month, counts in months.items()]


def _bar_name(bar: _Bar, unit: Unit) -> str:
    day = _day(bar.start)
    if unit in ("week", "century"):
        return f"{unit} from {day if unit == 'week' else day[:4]}"
    return day[: {"month": 7, "year": 4}.get(unit)]


def _day(ordinal: int) -> str:
    year, month, day = _civil(ordinal)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
