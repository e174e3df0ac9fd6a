"""Worker processes for a sealed plan, started while the command that will brief them is still loading."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pipeline.errors import BackcastError
from pipeline.ledger import read_totals
from pipeline.plan.directory import Directory
from pipeline.plan.sealed import load
from pipeline.workers import Workers, count_for


def ready_workers(directory: Path, phases: Collection[str] | None, asked: int | None) -> Workers:
    """As many as an apply of these phases (None: all) will want; none where nothing of the rows is left to send.

    What is wrong with the plan is left for others to say.
    """
    try:
        place = Directory(directory)
        plan = load(place)
        rows = plan.events.phases.get("events", 0)
        wanted = plan.ready and (phases is None or "events" in phases)
        if not wanted or read_totals(place.ledger).of("events").is_all(rows):
            return Workers(0)
        return Workers(count_for(asked, sum(part.bytes for part in plan.parts)))
    except BackcastError:
        return Workers(0)
