"""A preflight as a JSON object, as lines, and on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from pipeline.report.records import LEVELS, PREFLIGHT_FORMAT, Check
from pipeline.report.results import CaptureKeyStatus
from pipeline.report.state import NextStep
from pipeline.report.terminal.steps import show_step
from pipeline.report.terminal.tables import table, text
from pipeline.text import printable

if TYPE_CHECKING:
    from pipeline.preflight.run import Preflight

_STYLES = {"ok": "green", "warning": "yellow", "stop": "bold red", "unknown": "cyan"}
_WIDE = 2_000


def preflight_object(preflight: Preflight) -> dict[str, object]:
    """The object of `preflight --json`. A check that counts something has the numbers and examples as `facts`."""
    checks = [
        {"name": check.name, "level": check.level, "detail": check.detail}
        | ({"facts": check.facts} if check.facts else {})
        for check in preflight.checks
    ]
    return {"format": PREFLIGHT_FORMAT, "checks": checks}


def preflight_line(check: Check) -> str:
    """One check as one line, for stderr."""
    return printable(f"{LEVELS[check.level]}: {check.name}: {check.detail}", _WIDE)


def key_line(preflight: Preflight) -> str:
    """Which project the capture key belongs to, or that this could not be proved: the service answers 200 to an unknown
    key (docs/know/service.md#answers)."""
    check = next(check for check in preflight.checks if check.name == "capture_key_project")
    if check.level == "ok":
        return printable(check.detail[:1].upper() + check.detail[1:] + ".", _WIDE)
    problem = f"The capture key could not be proved: {check.detail}."
    return printable(f"{problem} A service answers 200 to an unknown key, and its events are lost.", _WIDE)


def show_key(console: Console, preflight: Preflight) -> None:
    """That line, folded on a terminal."""
    console.print(Text(key_line(preflight)), soft_wrap=not console.is_terminal)


def key_status(preflight: Preflight) -> CaptureKeyStatus:
    """Whether the capture key is proved to be the project's, for programs."""
    return CaptureKeyStatus(preflight.key_proved, key_line(preflight))


def show_preflight(console: Console, preflight: Preflight, next_step: NextStep | None = None) -> None:
    """A row for each check, one for all that are unknown for one reason, then the verdict and the next step."""
    shown = table("check", "", "")
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for number, check in enumerate(preflight.checks):
        apart = "" if check.level == "unknown" else str(number)
        reasons.setdefault((apart, check.detail, check.hint), []).append(check.name)
    levels = {check.name: check.level for check in preflight.checks}
    for (_, reason, hint), names in reasons.items():
        level = levels[names[0]]
        detail = text(reason, _WIDE)
        if hint and level != "ok":
            detail.append(f"\n→ {printable(hint, _WIDE)}", style="dim")
        named = Text("\n".join(printable(name, 80) for name in names))
        shown.add_row(named, Text(LEVELS[level], style=_STYLES[level]), detail)
    console.print(shown)
    console.print(Text(verdict(preflight), style="bold"))
    if next_step is not None and not preflight.stops:
        show_step(console, next_step)


def verdict(preflight: Preflight) -> str:
    """The number of checks of each level, in one line."""
    counts = {level: sum(check.level == level for check in preflight.checks) for level in LEVELS}
    levels = ", ".join(f"{count:,} {LEVELS[level]}" for level, count in counts.items() if count)
    ready = "Not ready" if counts["stop"] else "Nothing stops an import"
    return f"{ready}: {levels}."
