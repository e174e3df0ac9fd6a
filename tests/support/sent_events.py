"""A plan of some files whose mapping is recognised or named, and its events as they would be sent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from pipeline.api import plan_export
from pipeline.options import PlanOptions
from pipeline.plan.requests.store import read_events
from pipeline.plan.sealed.directory import EVENTS
from pipeline.plan.sealed.freshness import open_plan

AS_OF = 1_767_225_600_000_000
"""2026-01-01: the instant of the plans."""


def planned(
    place: Path, sources: Iterable[Path], mapping: str | None = None, *, zone: str = "", **settings: str
) -> tuple[Any, list[dict[str, Any]]]:
    """The plan, for the zone of the tool's clock if one is given, and its events in the order of their times and then
    of their uuids."""
    zones = (zone,) if zone else ()
    options = PlanOptions(mapping=mapping, settings=settings, as_of=AS_OF, workers=0, timezone=zones)
    plan = plan_export([str(path) for path in sources], place, options)
    return plan, events_of(place)


def events_of(place: Path) -> list[dict[str, Any]]:
    """The events of the plan in a folder, in the order of their times and then of their uuids."""
    found = chain.from_iterable(events for _, events in read_events(open_plan(place)[1], EVENTS))
    return sorted(map(json.loads, found), key=lambda event: (event["timestamp"], event["uuid"]))
