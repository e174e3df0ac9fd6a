"""The checks of a plan that found something (`gates` in JSON), with what to do about each.

The page has them on its first screen (`pipeline.report.first_screen`).
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pipeline.plan.manifest import Plan
from pipeline.report.registry import on_terminal
from pipeline.report.wording import ADVICE
from pipeline.text import printable

_STYLES = {"stop": "bold red", "warning": "yellow", "notice": "cyan"}


@on_terminal(60)
def show_checks(console: Console, plan: Plan, directory: str) -> None:
    """A line for each check, and one for what to do."""
    for check in plan.gates:
        level = f"{check.level.upper()} {printable(check.name, 80)}: "
        console.print(Text.assemble((level, _STYLES.get(check.level, "")), printable(check.detail, 1_000)))
        if advice := ADVICE.get(check.name):
            console.print(Text(f"  What to do: {advice}.", style="dim"))
