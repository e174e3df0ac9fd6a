"""What the product makes of an export, in the way of a user: a plan that is applied to files. For `tests/models`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

import pipeline
from pipeline.errors import BackcastError
from pipeline.options import ApplyOptions, PlanOptions

AS_OF = 1_767_225_600_000_000
"""2026-01-01: the instant of the plans."""
HEAD: dict[str, Any] = {
    "format": "backcast.mapping/1",
    "tool": "shop",
    "title": "Shop",
    "event": "/name",
    "distinct_id": ["/user"],
    "time": {"from": "/at", "unit": "s"},
}
"""A mapping to which more sections are added."""
ADDED = {"$geoip_disable", "$ip", "historical_migration", "analytics_source"}
"""What every event has in addition to its row (docs/know/service.md, "What backcast sends")."""


class Event(msgspec.Struct):
    """An event as it is written, its properties as JSON: those of its row, without `ADDED`."""

    event: str
    distinct_id: str
    timestamp: str
    uuid: str
    properties: dict[str, msgspec.Raw]

    def own_properties(self) -> dict[str, str]:
        """The properties of the row, each as the bytes that are sent."""
        return {name: bytes(value).decode() for name, value in self.properties.items() if name not in ADDED}


class Sent(NamedTuple):
    """A plan and its events; none if it is not ready."""

    plan: Any
    events: list[Event]


def sent(mapping: Mapping[str, Any] | str, files: Mapping[str, bytes], **options: Any) -> Sent:
    """Plan these files with a mapping, or the name of a shipped one, and write the events of a plan that is ready."""
    with TemporaryDirectory() as name:
        place = Path(name)
        for file, content in files.items():
            (place / "export" / file).parent.mkdir(parents=True, exist_ok=True)
            (place / "export" / file).write_bytes(content)
        if not isinstance(mapping, str):
            (place / "mapping.yaml").write_text(json.dumps(mapping, ensure_ascii=False), "utf-8")
        chosen = mapping if isinstance(mapping, str) else str(place / "mapping.yaml")
        chosen_options = PlanOptions(mapping=chosen, workers=0, as_of=AS_OF, dialect="posthog", **options)
        try:
            plan = pipeline.plan_export(str(place / "export"), place / "plan", chosen_options)
        except BackcastError as error:
            raise AssertionError(f"the export is refused: {error}") from error
        if not plan.ready:
            return Sent(plan, [])
        merges = plan.events.phases["identities"]
        pipeline.apply_plan(place / "plan", f"file:{place / 'out'}", ApplyOptions(approve_merges=merges))
        written = sorted((place / "out" / "3-events").glob("*.jsonl"))
        lines = [line for path in written for line in path.read_bytes().splitlines()]
        return Sent(plan, [msgspec.json.decode(line, type=Event) for line in lines])
