"""Skipped rows, rejected rows and warnings, by code."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Plan
from pipeline.report import tables
from pipeline.report.contents import Report, first_rejects
from pipeline.report.registry import Values, on_page, on_terminal


@on_terminal(50)
def show_codes(console: Console, plan: Plan, directory: str) -> None:
    """Each code with its count, and its first occurrence where it is stored."""
    tables.show_codes(console, "Skipped", plan.skips)
    tables.show_codes(console, "Rejected", plan.rejects, first_rejects(Directory(Path(directory)), plan))
    if plan.rejects:
        console.print(Text(f"The rows: backcast rejects {directory}", style="dim"))
    tables.show_codes(console, "Warnings", plan.warnings, plan.examples)
    tables.show_notices(console, plan.notices)


@on_page(60, "codes")
def codes(report: Report) -> Values:
    """Each code with its count; rejected rows and warnings with one example."""
    return {}
