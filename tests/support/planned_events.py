"""The events of a plan in the order of the export, which differs from that of its requests."""

from __future__ import annotations

from pathlib import Path

from pipeline.plan.requests.query import opened
from pipeline.plan.requests.store import read_events
from pipeline.plan.sealed.directory import EVENTS
from pipeline.plan.sealed.freshness import open_plan


def planned_events(plan: Path) -> list[bytes]:
    """Every event of the phase events, as it is sent."""
    _, directory = open_plan(plan)
    by_number = {request.number: events for request, events in read_events(directory, EVENTS)}
    if not by_number:
        return []
    with opened(directory) as database:
        places = database.rows(
            "SELECT number, place FROM facts WHERE number IS NOT NULL ORDER BY part, row, position, number, place"
        )
    return [by_number[number][place] for number, place in places]
