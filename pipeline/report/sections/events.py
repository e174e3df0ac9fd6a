"""What will be sent: events by phase, by name and by month."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import OTHERS, Report, phases_of
from pipeline.report.registry import Values, on_page, on_terminal
from pipeline.report.terminal.tables import bounded
from pipeline.report.wording import phase_meaning
from pipeline.text import printable

MOST_NAMES = 5
NAME_CHARACTERS = 200
MOST_IN_MONTHS, LEAST_IN_MONTHS, MOST_LINES = 40, 10, 120
"""Names with their own line in the tables of months, and lines in all: ten years of a hundred are half a page."""
MONTHS_NAME_CHARACTERS = 80


class YearTable(NamedTuple):
    """Events to send in one UTC year: (name, twelve counts, their sum) in the order of the plan, then the sums."""

    year: str
    events: list[tuple[str, list[int], int]]
    sums: list[int]
    total: int


@on_terminal(80)
def show_names(console: Console, plan: Plan, directory: str) -> None:
    """The most frequent event names."""
    top = bounded(plan.names, MOST_NAMES)
    names = [f"{printable(name, 60)} {count:,}" for name, count in top.shown]
    if names:
        more = f" {top.more} names" if top.more else ""
        console.print(Text(f"Events: {', '.join(names)}{more}", style="dim"))


@on_page(20, "phases")
def phases(report: Report) -> Values:
    """Each phase in the order of sending."""
    plan = report.plan
    return {"phases": [(name, phase_meaning(name, plan), count) for name, count in phases_of(plan).items()]}


@on_page(40, "months")
def months(report: Report) -> Values:
    """Events by name and month, a table a year."""
    return {"years": years(report)}


def years(report: Report) -> list[YearTable]:
    """The months of a report as one table a year."""
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
        rows = [(_event_name(name), counts, sum(counts)) for name, counts in events.items()]
        tables.append(YearTable(year, rows, sums, sum(sums)))
    return tables


def _event_name(name: str) -> str:
    return "all other events" if name == OTHERS else printable(name, MONTHS_NAME_CHARACTERS)
