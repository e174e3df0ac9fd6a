"""What was read: rows by file and whether they balance, duplicates, reasons of rejects, hours of day and the zone; and
what will be sent: events by phase, by name and by month."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import asdict
from rich.console import Console
from rich.text import Text

from pipeline.charts.bars import bar, hour_chart
from pipeline.charts.calendar import calendar
from pipeline.clock_offsets import offset_name
from pipeline.extractors import describe
from pipeline.plan.sealed.facts import HoursSeal
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import DUPLICATES, OTHERS, Report
from pipeline.report.registry import Values, on_first_screen, on_page, on_terminal
from pipeline.report.terminal.tables import bounded
from pipeline.survey.file_dates import files_of_days
from pipeline.text import printable

MOST_ON_PAGE = 100
"""Files listed one by one; the others are in plan.json."""
MOST_WITH_DUPLICATES = 20
MOST_REASONS = 10
MOST_NAMES = 5
NAME_CHARACTERS = 200
MOST_IN_MONTHS, LEAST_IN_MONTHS, MOST_LINES = 40, 10, 120
"""Names with their own line in the tables of months, and lines in all: ten years of a hundred are half a page."""
MONTHS_NAME_CHARACTERS = 80


@on_page(90, "rows")
def rows(report: Report) -> Values:
    parts = report.plan.parts
    return {
        "parts": [(part, describe(part.part(index))) for index, part in enumerate(parts[:MOST_ON_PAGE])],
        "parts_left_out": max(0, len(parts) - MOST_ON_PAGE),
        "has_tables": any(part.table for part in parts),
        "calendar": calendar(files_of_days([part.path for part in parts])),
    }


@on_page(50, "duplicates")
def duplicates(report: Report) -> Values:
    """Duplicates that are left out, by code and by file, those with most first; nothing without duplicates."""
    codes = [row for row in report.skips if row.code in DUPLICATES]
    if not codes:
        return None
    empty = {part.path for part in report.plan.parts if not part.mapped}
    return {
        "codes": codes,
        "whole": [one for one in report.copies if one.path in empty][:MOST_WITH_DUPLICATES],
        "files": report.copies[:MOST_WITH_DUPLICATES],
        "more": len(report.copies[MOST_WITH_DUPLICATES:]),
        "names": [row.code for row in codes],
        "count": sum(row.count for row in codes),
    }


@on_first_screen(10, "reasons")
def reasons(report: Report) -> Values:
    """Why rows were rejected: the most frequent codes, each with a bar; nothing if no row was, which the totals
    say."""
    if not report.rejects:
        return None
    most = max(row.count for row in report.rejects)
    bars = [(row, bar(row.count, most)) for row in report.rejects[:MOST_REASONS]]
    return {"bars": bars, "more": len(report.rejects[MOST_REASONS:])}


@on_first_screen(50, "hours")
def hours(report: Report) -> Values:
    """Hours of day on the clock of the source and in UTC, which show a wrong zone at once, and the evidence of clock
    changes."""
    plan = report.plan
    if not isinstance(plan.hours, HoursSeal):
        return None
    chart = hour_chart([(plan.zone, plan.hours.source), ("UTC", plan.hours.utc)])
    return None if chart is None else {"chart": chart, "note": plan.hours.clock}


@on_page(95, "zone")
def zone(report: Report) -> Values:
    """The measured and the expected offset of each month in which the zone of the data was measured."""
    months = report.plan.zone_evidence
    expected = (" or ".join(map(offset_name, month.expected)) for month in months)
    shown = zip(months, expected, strict=True)
    return {"months": [asdict(one) | {"offset": offset_name(one.offset), "expected": words} for one, words in shown]}


class YearTable(NamedTuple):
    """Events to send in one UTC year: (name, twelve counts, their sum) in the order of the plan, then the sums."""

    year: str
    events: list[tuple[str, list[int], int]]
    sums: list[int]
    total: int


@on_terminal(80)
def show_names(console: Console, plan: Plan, directory: str) -> None:
    top = bounded(plan.names, MOST_NAMES)
    names = [f"{printable(name, 60)} {count:,}" for name, count in top.shown]
    if names:
        more = f" {top.more} names" if top.more else ""
        console.print(Text(f"Events: {', '.join(names)}{more}", style="dim"))


@on_page(70, "months")
def months(report: Report) -> Values:
    return {"years": years(report), "count": sum(cell.count for cell in report.months)}


def years(report: Report) -> list[YearTable]:
    by_year: dict[str, dict[str, list[int]]] = {}
    count = len({cell.month[:-3] for cell in report.months})
    most = min(MOST_IN_MONTHS, max(LEAST_IN_MONTHS, MOST_LINES // max(1, count)))
    own = frozenset(list(report.plan.names)[:most])
    for cell in report.months:
        year, month = cell.month.rsplit("-", 1)
        name = cell.event if cell.event in own else OTHERS
        counts = by_year.setdefault(year, {}).setdefault(name, [0] * 12)
        counts[int(month) - 1] += cell.count
    tables = []
    for year, events in sorted(by_year.items()):
        sums = [sum(column) for column in zip(*events.values(), strict=True)]
        names = (printable(name, MONTHS_NAME_CHARACTERS) if name != OTHERS else "all other events" for name in events)
        rows = [(name, counts, sum(counts)) for name, counts in zip(names, events.values(), strict=True)]
        tables.append(YearTable(year, rows, sums, sum(sums)))
    return tables
