"""Skipped rows, rejected rows and warnings, by code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pipeline.models import Reject
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Example, Plan
from pipeline.report.contents import Report, first_rejects
from pipeline.report.registry import Values, on_page, on_terminal
from pipeline.report.tables import number, show_notices, table, text
from pipeline.validator.codes import meaning


@on_terminal(50)
def show_codes(console: Console, plan: Plan, directory: str) -> None:
    """Each code with its count, and its first occurrence where it is stored."""
    _show(console, "Skipped", plan.skips, {})
    _show(console, "Rejected", plan.rejects, first_rejects(Directory(Path(directory)), plan) if directory else {})
    if plan.rejects:
        console.print(Text(f"The rows: backcast rejects {directory or 'DIR'}", style="dim"))
    _show(console, "Warnings", plan.warnings, plan.examples)
    show_notices(console, plan.notices)


def _show(
    console: Console, title: str, counts: Mapping[str, int], examples: Mapping[str, Example] | Mapping[str, Reject]
) -> None:
    if not counts:
        return
    shown = table(title, "#count", "what it means", *(["example"] if examples else []))
    for code, count in counts.items():
        example = examples.get(code)
        location = (
            text(f"{example.part}, row {example.row:,}: {example.detail}", 240) if example is not None else Text("")
        )
        shown.add_row(
            text(code, 80), number(count), Text(meaning(code), style="dim"), *([location] if examples else [])
        )
    console.print(shown)


@on_page(60, "codes")
def codes(report: Report) -> Values:
    """Each code with its count; rejected rows and warnings with one example."""
    return {}
