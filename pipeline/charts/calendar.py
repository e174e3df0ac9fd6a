"""Days of years in rows: which days have how many files, and which have none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from itertools import groupby
from typing import NamedTuple

from pipeline.charts import at, picture
from pipeline.text import pluralize

MOST_YEARS = 60
_ROW = 10


class Run(NamedTuple):
    """Days in a row with the same count; `first` and `last` are ISO 8601, `each` is the count of each."""

    first: str
    last: str
    days: int
    each: int


class Calendar(NamedTuple):
    """The picture, its years from the top, the months with the classes of their places, and its table."""

    svg: str
    years: list[int]
    months: list[tuple[str, str]]
    runs: list[Run]


def calendar(counts: Mapping[int, int]) -> Calendar | None:
    """The picture of files by day (the proleptic ordinal); None if there are none, or for very many years.

    Days between the first and the last with count 0 are marked as missing.
    """
    if not counts:
        return None
    first, last = min(counts), max(counts)
    years = range(date.fromordinal(first).year, date.fromordinal(last).year + 1)
    if len(years) > MOST_YEARS:
        return None
    runs: list[Run] = []
    shapes: dict[str, list[str]] = {"missing": [], "one": [], "more": []}
    for count, some in groupby(range(first, last + 1), key=lambda day: counts.get(day, 0)):
        days = list(some)
        runs.append(Run(_day(days[0]), _day(days[-1]), len(days), count))
        kind = "missing" if not count else "one" if count == 1 else "more"
        shapes[kind].extend(_strips(days[0], days[-1], years[0]))
    missing = sum(run.days for run in runs if not run.each)
    height = _ROW * len(years)
    description = (
        f"{_day(first)} to {_day(last)}: {pluralize(last - first + 1 - missing, 'day')} with a file,"
        f" {missing:,} without."
    )
    paths = "".join(f'<path class="{kind}" d="{"".join(some)}"/>' for kind, some in shapes.items())
    lines = "".join(f"M0 {_ROW * row}h366" for row in range(len(years) + 1))
    svg = picture(
        "years", f"0 0 366 {height}", ("Days with a file", description),
        f'{paths}<path class="grid" d="{lines}"/>', f' height="{1.5 * len(years)}rem"',
    )  # fmt: skip
    months = [
        (at(100 * (date(2024, month, 1).timetuple().tm_yday - 1) / 366), f"{date(2024, month, 1):%b}")
        for month in range(1, 13)
    ]
    return Calendar(svg, list(years), months, runs)


def _strips(first: int, last: int, year: int) -> list[str]:
    """The shapes of a run of days, one for each year that it is in."""
    found = []
    while first <= last:
        day = date.fromordinal(first)
        end = min(last, date(day.year, 12, 31).toordinal())
        place = first - date(day.year, 1, 1).toordinal()
        row = _ROW * (day.year - year)
        found.append(f"M{place} {row + 1}h{end - first + 1}v{_ROW - 2}h-{end - first + 1}z")
        first = end + 1
    return found


def _day(ordinal: int) -> str:
    return date.fromordinal(ordinal).isoformat()
