"""What was read: rows by part, and whether they balance."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pipeline.extractors import describe
from pipeline.plan.manifest import Plan
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page, on_terminal
from pipeline.report.tables import number, table, text
from pipeline.text import pluralize

MOST_ON_TERMINAL = 20
MOST_ON_PAGE = 300
"""Parts listed one by one; the others are in plan.json."""
_COUNTS = ("rows", "mapped", "skipped", "rejected")


@on_terminal(10)
def show_rows(console: Console, plan: Plan, directory: str) -> None:
    """The counts of each part, and of all."""
    has_tables = any(part.table for part in plan.parts)
    shown = table("part", *(["table"] if has_tables else []), *(f"#{name}" for name in _COUNTS))
    blank = [""] if has_tables else []
    for part in plan.parts[:MOST_ON_TERMINAL]:
        counts = (number(getattr(part, name)) for name in _COUNTS)
        shown.add_row(text(part.path, 200), *([text(part.table, 60)] if has_tables else []), *counts)
    others = plan.parts[MOST_ON_TERMINAL:]
    if others:
        sums = (number(sum(getattr(part, name) for part in others)) for name in _COUNTS)
        shown.add_row(Text(pluralize(len(others), "more part"), style="dim"), *blank, *sums)
    rows = plan.rows
    shown.add_row("all", *blank, *map(number, (rows.read, rows.mapped, rows.skipped, rows.rejected)), style="bold")
    console.print(shown)


@on_page(30, "rows")
def rows(report: Report) -> Values:
    """The balance of the rows, and the counts of each part."""
    parts = report.plan.parts
    return {
        "parts": [(part, describe(part.part(index))) for index, part in enumerate(parts[:MOST_ON_PAGE])],
        "parts_left_out": max(0, len(parts) - MOST_ON_PAGE),
        "has_tables": any(part.table for part in parts),
    }
