"""What landed in all: counts, events by day and by name."""

from __future__ import annotations

from dataclasses import dataclass

from .chart import Chart, chart
from .event_filter import EventFilter
from .reading import Reading

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
class Made:
    """What the events made."""

    persons: int
    identified: int
    groups: int
    warnings: int


def overview(reading: Reading, wanted: EventFilter) -> Overview:
    """The counts of the events that are asked for."""
    return reading.remembered(("overview", wanted), lambda: _overview(reading, wanted))


def _overview(reading: Reading, wanted: EventFilter) -> Overview:
    condition = wanted.condition(reading.project)
    days = reading.rows(
        "SELECT CAST(\"timestamp\" AS DATE) - DATE '1970-01-01' AS day, count(*), "
        'count(*) FILTER (NOT historical_migration), min("timestamp"), max("timestamp") '
        f"FROM {reading.counting()} WHERE {condition} GROUP BY day ORDER BY day"
    )
    names, more = event_names(reading, condition, MOST_NAMES)
    return Overview(
        events=sum(row[1] for row in days),
        copies=reading.number(f"SELECT count(*) FROM accepted WHERE {condition}"),
        live=sum(row[2] for row in days),
        first=days[0][3] if days else None,
        last=days[-1][4] if days else None,
        chart=chart((row[0], row[1]) for row in days),
        names=names,
        more_names=more,
    )


def event_names(reading: Reading, condition: str, most: int) -> tuple[list[tuple[str, int]], int]:
    """The most frequent event names with their counts, and how many names follow."""
    found = reading.rows(
        f"SELECT event, count(*) AS n, count(*) OVER () FROM {reading.counting()} "
        f"WHERE {condition} GROUP BY event ORDER BY n DESC, event LIMIT {most}"
    )
    return [(name, count) for name, count, _ in found], max(0, found[0][2] - most) if found else 0


def made(reading: Reading) -> Made:
    """How many persons, groups and warnings there are."""
    ((persons, identified),) = reading.rows("SELECT count(*), count(*) FILTER (is_identified) FROM persons")
    groups = reading.number("SELECT count(*) FROM groups")
    return Made(persons, identified, groups, reading.number("SELECT count(*) FROM warnings"))
