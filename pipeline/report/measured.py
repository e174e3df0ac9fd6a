"""How fast events were sent, or rehearsed, so that a report can say how long the rest will take.

What the target itself accepted says most: of this plan, then of the newest plan beside it for the same target. A
rehearsal says what this machine makes; a target is further away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal

import msgspec

from pipeline.errors import BackcastError
from pipeline.ledger import SendingRate, read_rate, was_ever_applied
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import FORMAT

MOST_PLANS = 8
"""Of the plans beside a plan, so many of the newest are looked at."""
_PAUSE = 60
"""Seconds without an accepted event after which nothing is being sent."""


class MeasuredRate(msgspec.Struct, frozen=True):
    """Events a second in the sending or rehearsal of a plan, named as its directory is. `failed` are requests that were
    not accepted at once."""

    events: float
    step: Literal["sent", "rehearsed"]
    plan: str
    failed: int = 0


def sending_rate(found: SendingRate, plan: str) -> MeasuredRate | None:
    """Accepted events by the time in which any were; None without any."""
    seconds = _active(found.settled)
    if not seconds:
        return None
    return MeasuredRate(sum(found.settled.values()) / seconds, "sent", plan, sum(found.failed.values()))


def _active(settled: Mapping[int, int]) -> int:
    """The seconds from the first accepted event to the last, without pauses."""
    times = sorted(settled)
    steps = (later - earlier for earlier, later in pairwise(times))
    return len(times[:1]) + sum(step if step <= _PAUSE else 1 for step in steps)


class _Head(msgspec.Struct):
    format: str = ""
    target: str = ""


class _Run(msgspec.Struct):
    seconds: float = 0.0
    events: dict[str, int] = {}


class _Report(msgspec.Struct):
    rehearsal: _Run | None = None


def earlier_rate(directory: Directory, target: str) -> MeasuredRate | None:
    """The rate of the newest plan beside this one for the same target: of one that was sent, else of a rehearsal."""
    if not target:
        return None
    rehearsed = None
    for other in _newest_beside(directory):
        try:
            if msgspec.json.decode(other.plan.read_bytes(), type=_Head) != _Head(FORMAT, target):
                continue
            name = other.path.resolve().name
            if was_ever_applied(other.ledger) and (found := sending_rate(read_rate(other.ledger), name)):
                return found
            run = msgspec.json.decode(other.report_json.read_bytes(), type=_Report).rehearsal
        except (OSError, msgspec.MsgspecError, RecursionError, BackcastError):
            continue
        if run is not None and run.seconds and rehearsed is None:
            rehearsed = MeasuredRate(run.events.get("made", 0) / run.seconds, "rehearsed", name)
    return rehearsed


def _newest_beside(directory: Directory) -> Iterable[Directory]:
    own = directory.path.resolve()
    found = []
    for path in own.parent.glob("*/plan.json"):
        try:
            if path.parent != own:
                found.append((path.stat().st_mtime, path.parent))
        except OSError:
            continue
    return [Directory(path) for _, path in sorted(found, reverse=True)[:MOST_PLANS]]
