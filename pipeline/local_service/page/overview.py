"""The overview of what landed: counts, a chart of events over time, and the hog functions that would have fired.

The chart is by day as long as bars can be distinguished, else by month, else by year (UTC). Nothing of the inputs of
hog functions is shown: they may contain secrets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from pipeline.local_service.management.firing import Firing, firing, would_fire
from pipeline.local_service.page.events import EventFilter
from pipeline.local_service.page.reader import ProjectReader

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


MOST_NAMES = 200
"""Event names that are listed; the further ones are counted."""


@dataclass(frozen=True, slots=True)
class Overview:
    """`first` and `last` are times of events; `live` those that came without the historical flag; `names` are the
    most frequent events, `more_names` how many names follow."""

    events: int
    copies: int
    live: int
    first: str | None
    last: str | None
    chart: Chart | None
    names: list[tuple[str, int]]
    more_names: int


@dataclass(frozen=True, slots=True)
class DerivedCounts:
    """The persons, groups and warnings that the events led to."""

    persons: int
    identified: int
    groups: int
    warnings: int


def overview(reader: ProjectReader, wanted: EventFilter) -> Overview:
    """The counts of the events that match the filter."""
    return reader.cached(("overview", wanted), lambda: _overview(reader, wanted))


def _overview(reader: ProjectReader, wanted: EventFilter) -> Overview:
    condition = wanted.condition(reader.project)
    days = reader.rows(
        "SELECT CAST(\"timestamp\" AS DATE) - DATE '1970-01-01' AS day, count(*), "
        'count(*) FILTER (NOT historical_migration), min("timestamp"), max("timestamp") '
        f"FROM {reader.events_table()} WHERE {condition} GROUP BY day ORDER BY day"
    )
    names, more = event_names(reader, condition, MOST_NAMES)
    return Overview(
        events=sum(row[1] for row in days),
        copies=reader.number(f"SELECT count(*) FROM accepted WHERE {condition}"),
        live=sum(row[2] for row in days),
        first=days[0][3] if days else None,
        last=days[-1][4] if days else None,
        chart=chart((row[0], row[1]) for row in days),
        names=names,
        more_names=more,
    )


def event_names(reader: ProjectReader, condition: str, most: int) -> tuple[list[tuple[str, int]], int]:
    """The most frequent event names with their counts, and how many names follow."""
    found = reader.rows(
        f"SELECT event, count(*) AS n, count(*) OVER () FROM {reader.events_table()} "
        f"WHERE {condition} GROUP BY event ORDER BY n DESC, event LIMIT {most}"
    )
    return [(name, count) for name, count, _ in found], max(0, found[0][2] - most) if found else 0


def derived_counts(reader: ProjectReader) -> DerivedCounts:
    """How many persons, groups and warnings there are."""
    ((persons, identified),) = reader.rows("SELECT count(*), count(*) FILTER (is_identified) FROM persons")
    groups = reader.number("SELECT count(*) FROM groups")
    return DerivedCounts(persons, identified, groups, reader.number("SELECT count(*) FROM warnings"))


MOST_JUDGED_NAMES = 2_000
"""Event names that are judged, the most frequent first."""
MOST_FUNCTIONS = 500
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A function: how many events it would fire for, and may fire for; the most frequent of them by name."""

    id: str
    name: str
    type: str
    enabled: bool
    fires: int
    may_fire: int
    examples: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Fired:
    """The functions, and how many of them and of the event names were not looked at."""

    rows: list[FunctionRow]
    more_functions: int
    more_names: int

    @property
    def firing(self) -> int:
        """How many functions would or may fire."""
        return sum(1 for row in self.rows if row.fires or row.may_fire)


def fired(reader: ProjectReader, functions: Sequence[Mapping[str, Any]]) -> Fired:
    """Every function that is there, those that fire most first."""
    condition = EventFilter().condition(reader.project)
    there = [function for function in functions if not function.get("deleted")]
    names: list[tuple[str, int]] = []
    more = 0
    if there:
        names, more = reader.cached("names", lambda: event_names(reader, condition, MOST_JUDGED_NAMES))
    rows = [_judged(function, names) for function in there[:MOST_FUNCTIONS]]
    rows.sort(key=lambda row: (-row.fires, -row.may_fire))
    return Fired(rows, max(0, len(there) - MOST_FUNCTIONS), more)


def firing_for(functions: Sequence[Mapping[str, Any]], event: str) -> list[tuple[str, Firing]]:
    """The names of the functions that would or may fire for an event of this name."""
    return [(_name(function), verdict) for function, verdict in firing(functions, event)[:MOST_FUNCTIONS]]


def _judged(function: Mapping[str, Any], names: list[tuple[str, int]]) -> FunctionRow:
    counts = {"yes": 0, "may": 0, "no": 0}
    examples: list[tuple[str, int]] = []
    for name, count in names:
        verdict = would_fire(function, name)
        counts[verdict] += count
        if verdict != "no" and len(examples) < _EXAMPLES:
            examples.append((name, count))
    return FunctionRow(
        id=str(function.get("id")),
        name=_name(function),
        type=str(function.get("type") or "(no type)"),
        enabled=bool(function.get("enabled")),
        fires=counts["yes"],
        may_fire=counts["may"],
        examples=examples,
    )


def _name(function: Mapping[str, Any]) -> str:
    return str(function.get("name") or "(no name)")
