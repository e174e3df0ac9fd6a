"""The checks of a plan that found something (`gates` in JSON), with what to do about each, worst first.

The page has them on its first screen (`pipeline.report.page.first_screen`).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pipeline.models import Finding
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.registry import on_terminal
from pipeline.report.terminal.tables import text
from pipeline.report.wording import HEADLINE_CHARACTERS, advice_of, headline
from pipeline.text import printable

MOST_CHECKS = 5
"""Up to as many are shown whole, of more the first FIRST_CHECKS."""
FIRST_CHECKS = 3
DETAIL_CHARACTERS = 300
_STYLES = {"stop": "bold red", "warning": "yellow", "notice": "cyan"}


@on_terminal(10)
def show_failed_checks(console: Console, plan: Plan, directory: str) -> None:
    """The checks that stop the plan, with what to do about each."""
    _show(console, [check for check in plan.gates if check.level == "stop"], directory)


@on_terminal(40)
def show_other_checks(console: Console, plan: Plan, directory: str) -> None:
    """The checks that do not stop the plan, with what to do about each."""
    others = [check for check in plan.gates if check.level != "stop"]
    _show(console, sorted(others, key=lambda check: check.level == "notice"), directory)


def _show(console: Console, checks: Sequence[Finding], directory: str) -> None:
    """Each check with what to do about it; where there are many, the later ones have a line each."""
    whole = len(checks) if len(checks) <= MOST_CHECKS else FIRST_CHECKS
    for place, check in enumerate(checks):
        open_ = place < whole
        level = f"{check.level.upper()} {printable(check.name, 80)}: "
        console.print(Text.assemble((level, _STYLES.get(check.level, "")), _detail(check, open_)))
        if open_ and (advice := advice_of(check)):
            advice = advice.replace("rejects DIR", f"rejects {shlex.quote(directory)}")
            console.print(Text(f"  What to do: {advice}.", style="dim"))


def _detail(check: Finding, open_: bool) -> Text:
    return text(check.detail, DETAIL_CHARACTERS) if open_ else text(headline(check.detail), HEADLINE_CHARACTERS)
