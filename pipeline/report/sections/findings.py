"""The checks of a plan that found something (`gates` in JSON), with what to do about each, and rows by code.

The page has the checks on its first screen (`pipeline.report.page.first_screen`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pipeline.models import Finding
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import DUPLICATES, Report, first_rejects
from pipeline.report.registry import Values, on_page, on_terminal
from pipeline.report.terminal import tables
from pipeline.report.wording import HEADLINE_CHARACTERS, advice_of, headline
from pipeline.text import printable, quoted

MOST_CHECKS = 5
"""Up to as many are shown whole, of more the first FIRST_CHECKS."""
FIRST_CHECKS = 3
DETAIL_CHARACTERS = 300
MOST_NOTICES = 3
_STYLES = {"stop": "bold red", "warning": "yellow", "open": "yellow", "notice": "cyan"}


@on_terminal(10)
def show_failed_checks(console: Console, plan: Plan, directory: str) -> None:
    """The checks that stop the plan, with what to do about each."""
    _show(console, [check for check in plan.gates if check.level == "stop"], directory)


@on_terminal(40)
def show_other_checks(console: Console, plan: Plan, directory: str) -> None:
    """The checks that do not stop the plan, with what to do about each. Warnings have a table of their own."""
    _show(console, [check for check in plan.gates if check.level != "stop" and check.name != "warnings"], directory)


def _show(console: Console, checks: Sequence[Finding], directory: str) -> None:
    """Each check with what to do about it. What a plan leaves open has a line each, and so have the later ones if there
    are many."""
    found = [check for check in checks if check.level != "open"]
    whole = found if len(found) <= MOST_CHECKS else found[:FIRST_CHECKS]
    for check in checks:
        in_full = check in whole
        level = f"{check.level.upper()} {printable(check.name, 80)}: "
        limit = DETAIL_CHARACTERS if in_full else HEADLINE_CHARACTERS
        detail = tables.text(check.detail if in_full else headline(check.detail), limit)
        console.print(Text.assemble((level, _STYLES.get(check.level, "")), detail))
        if in_full and (advice := advice_of(check)):
            advice = advice.replace("rejects DIR", f"rejects {quoted(directory)}")
            console.print(Text(f"  What to do: {advice}.", style="dim"))


@on_terminal(30)
def show_rejected(console: Console, plan: Plan, directory: str) -> None:
    """Why rows were rejected, and the place of the first row of each code."""
    if plan.rejects:
        tables.show_codes(console, "Rejected", plan.rejects, first_rejects(Directory(Path(directory)), plan))
        console.print(Text(f"The rows: backcast rejects {quoted(directory)}", style="dim"), soft_wrap=True)


@on_terminal(50)
def show_warnings(console: Console, plan: Plan, directory: str) -> None:
    """What is sent and a person should know of, and what reading the export found."""
    tables.show_codes(console, "Warnings", plan.warnings, plan.examples)
    tables.show_notices(console, plan.notices, MOST_NOTICES)


@on_terminal(70, lambda plan: tables.codes_in_line("Skipped", plan.skips))
def show_skipped(console: Console, plan: Plan, directory: str) -> None:
    tables.show_codes(console, "Skipped", plan.skips, plan.examples)


@on_page(45, "codes")
def codes(report: Report) -> Values:
    """Each code with its count; rejected rows and warnings with one example. Duplicates have a chapter of their own."""
    return {"skips": [row for row in report.skips if row.code not in DUPLICATES]}
