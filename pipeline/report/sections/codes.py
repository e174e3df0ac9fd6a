"""Skipped rows, rejected rows and warnings, by code."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Report, first_rejects
from pipeline.report.registry import Values, on_page, on_terminal
from pipeline.report.terminal import tables

MOST_NOTICES = 3


@on_terminal(30)
def show_rejected(console: Console, plan: Plan, directory: str) -> None:
    """Why rows were rejected, and the place of the first row of each code."""
    if plan.rejects:
        tables.show_codes(console, "Rejected", plan.rejects, first_rejects(Directory(Path(directory)), plan))
        console.print(Text(f"The rows: backcast rejects {shlex.quote(directory)}", style="dim"), soft_wrap=True)


@on_terminal(50)
def show_warnings(console: Console, plan: Plan, directory: str) -> None:
    """What is sent and a person should know of, and what reading the export found."""
    tables.show_codes(console, "Warnings", plan.warnings, plan.examples)
    tables.show_notices(console, plan.notices, MOST_NOTICES)


@on_terminal(70)
def show_skipped(console: Console, plan: Plan, directory: str) -> None:
    """Why rows were left out."""
    tables.show_codes(console, "Skipped", plan.skips, plan.examples)


@on_page(60, "codes")
def codes(report: Report) -> Values:
    """Each code with its count; rejected rows and warnings with one example."""
    return {}
