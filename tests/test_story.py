"""The story of sample_data/story is the same in the layout of every tool."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pipeline.api import plan_export
from pipeline.demo import SAMPLES, samples
from pipeline.options import PlanOptions
from pipeline.plan.sealed.directory import Directory
from sample_data.generator import story_layouts

COLUMNS = {"event": "event", "distinct_id": "user", "anonymous_id": "device", "timestamp": "time", "uuid": "uuid"}
MIXPANEL, SEGMENT = (sample.options for sample in SAMPLES)
FEW = {"max_rejects": "0.1%"}
OPTIONS = {
    "mixpanel": MIXPANEL,
    "amplitude": PlanOptions(mapping="amplitude", **FEW),
    "segment": SEGMENT,
    "rudderstack": replace(SEGMENT, mapping="rudderstack-warehouse"),
    "posthog": PlanOptions(mapping="posthog", **FEW),
    "generic": PlanOptions(mapping="generic", settings=COLUMNS, **FEW),
}
FOUND = {"empty_days", "renamed_event", "rejects"}
"""The checks that find something in each layout: days without events, the renamed event, rejected rows."""


def test_every_layout_of_the_story_gives_the_same_events(tmp_path: Path) -> None:
    """Events by name and UTC day, merges, profiles, teams, rejected rows, and what the checks find.

    A generic table has neither teams nor profiles.
    """
    assert [write.__name__ for write in story_layouts.LAYOUTS] == list(OPTIONS)
    for tool, options in OPTIONS.items():
        plan = plan_export(samples() / "story" / tool, tmp_path / tool, replace(options, workers=0))
        cells = map(json.loads, Directory(tmp_path / tool).cells.read_text("utf-8").splitlines())
        events = {(one["event"], one["day"]): one["count"] for one in cells if one["outcome"] == "mapped"}
        if tool == "mixpanel":
            first, phases = events, plan.events.phases
        held = phases | {"groups": 0, "persons": 0} if tool == "generic" else phases
        assert events == first, tool
        assert plan.events.phases == held, tool
        assert plan.rejects == {"junk_distinct_id": 5, "future_timestamp": 4}, tool
        assert plan.skips["duplicate_event"] > 70, tool
        assert {gate.name for gate in plan.gates} >= FOUND, tool
    assert sum(first.values()) > 18_000
    assert all(phases.values())
