"""preflight.json: what a target answered before a plan is sent to it, for the report and for the next plan."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.files import private, write_atomically
from pipeline.plan.sealed.directory import Directory

if TYPE_CHECKING:
    from pipeline.preflight.run import Preflight

FORMAT = "backcast.preflight/1"
CUT_OVER = "cut_over"
LEVELS = {"stop": "stop", "warning": "warning", "unknown": "could not check", "ok": "ok"}
"""How each level is written for people, the most urgent first."""


class RecordedCheck(msgspec.Struct, frozen=True):
    """One check, as `preflight --json` has it, with its hint."""

    name: str
    level: str
    detail: str
    hint: str = ""
    facts: dict[str, Any] = {}


class PreflightResult(msgspec.Struct, frozen=True, kw_only=True):
    """A preflight of a plan: `to` is the address and `project` the project's id, `at` when (ISO 8601, UTC).

    `digest` is the plan's; `most` the limit of events that may be there already.
    """

    format: str = FORMAT
    digest: str
    to: str
    project: str
    at: str
    most: str
    checks: list[RecordedCheck]

    @property
    def cut_over(self) -> RecordedCheck | None:
        """The check of where live events begin; None where it was not answered."""
        return next((check for check in self.checks if check.name == CUT_OVER and "first_live" in check.facts), None)

    def age(self, now: datetime) -> float:
        """How many seconds ago it was."""
        return (now - datetime.fromisoformat(self.at)).total_seconds()


def preflight_of(directory: Directory, digest: str) -> PreflightResult | None:
    """The last preflight of the plan with this digest; None without one."""
    found = read_preflight(directory)
    return found if found is not None and found.digest == digest else None


def read_preflight(directory: Directory) -> PreflightResult | None:
    """The last preflight of a plan of this directory, not necessarily of the one that is there now; None without."""
    try:
        return msgspec.json.decode(directory.preflight.read_bytes(), type=PreflightResult)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


@private()
def write_preflight(directory: Directory, digest: str, to: str, most: str, preflight: Preflight) -> None:
    """Record a preflight. Raises OSError."""
    checks = [
        RecordedCheck(check.name, check.level, check.detail, check.hint, dict(check.facts))
        for check in preflight.checks
    ]
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    result = PreflightResult(digest=digest, to=to, project=preflight.project_id, at=at, most=most, checks=checks)
    write_atomically(directory.preflight, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
