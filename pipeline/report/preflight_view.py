"""What people and programs read of a preflight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from pipeline.report.results import CaptureKeyStatus
from pipeline.report.tables import table, text
from pipeline.text import printable

if TYPE_CHECKING:
    from pipeline.preflight.check import Check
    from pipeline.preflight.run import Preflight

FORMAT = "backcast.preflight/1"
_STYLES = {"ok": "green", "warning": "yellow", "stop": "bold red", "unknown": "cyan"}
_LEVELS = {"stop": "stop", "warning": "warning", "unknown": "could not check", "ok": "ok"}
_WIDE = 2_000


def preflight_object(found: Preflight) -> dict[str, object]:
    """The object of `preflight --json`."""
    checks = [{"name": one.name, "level": one.level, "detail": one.detail} for one in found.checks]
    return {"format": FORMAT, "checks": checks}


def preflight_line(check: Check) -> str:
    """One check as one line, for stderr."""
    return printable(f"{_LEVELS[check.level]}: {check.name}: {check.detail}", _WIDE)


def key_line(found: Preflight) -> str:
    """Whose the capture key is, or that it could not be proved: an unknown one is answered 200.

    (docs/know/service.md#answers)
    """
    check = next(one for one in found.checks if one.name == "capture_key_project")
    if check.level == "ok":
        return printable(check.detail[:1].upper() + check.detail[1:] + ".", _WIDE)
    problem = f"The capture key could not be proved: {check.detail}."
    return printable(f"{problem} A service answers 200 to an unknown key, and its events are lost.", _WIDE)


def key_status(found: Preflight) -> CaptureKeyStatus:
    """Whether the capture key is known to be the project's, for programs."""
    return CaptureKeyStatus(found.key_proved, key_line(found))


def show_preflight(console: Console, found: Preflight) -> None:
    """A row for each check, then what to do, then the verdict."""
    shown = table("check", "", "")
    for one in found.checks:
        detail = text(one.detail, _WIDE)
        if one.hint and one.level != "ok":
            detail.append(f"\n→ {printable(one.hint, _WIDE)}", style="dim")
        shown.add_row(text(one.name, 80), Text(_LEVELS[one.level], style=_STYLES[one.level]), detail)
    console.print(shown)
    console.print(Text(verdict(found), style="bold"))


def verdict(found: Preflight) -> str:
    """The number of checks of each level, in one line."""
    counts = {level: sum(one.level == level for one in found.checks) for level in _LEVELS}
    levels = ", ".join(f"{count:,} {_LEVELS[level]}" for level, count in counts.items() if count)
    ready = "Not ready" if counts["stop"] else "Nothing stops an import"
    return f"{ready}: {levels}."
