"""Where a job keeps what, and what it notes of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.jobs.arrivals import SeenPart, name_of
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Plan


def state_file(state: Path) -> Path:
    """The job's memory."""
    return state / "state.sqlite"


def windows_folder(state: Path) -> Path:
    """A folder for each window."""
    return state / "windows"


def plan_directory(state: Path, window: str, number: int) -> Directory:
    """Where a plan of a window lies."""
    return Directory(windows_folder(state) / window / f"plan-{number}")


def parts_of(plan: Plan, folder: Path) -> Iterator[SeenPart]:
    """The parts of a plan as a job knows them."""
    for part in plan.parts:
        yield SeenPart(name_of(part.file, part.member, folder), part.bytes, part.mtime_ns, part.digest)


def counts_of(plan: Plan) -> dict[str, int]:
    """What the history says of a plan."""
    return {
        "parts": len(plan.parts),
        "rows": plan.rows.read,
        "skipped": plan.rows.skipped,
        "rejected": plan.rows.rejected,
        "already": plan.skips.get("already_settled", 0),
        "events": plan.events.made,
        "held": plan.warnings.get("held_link", 0),
    }
