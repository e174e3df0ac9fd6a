"""Copies of an export that loaders made in a warehouse give the events of the export itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sample_data.generator import mixpanel_warehouse
from sample_data.generator.spelling import lines, row
from tests.support.sent_events import planned

NEW_YORK = "America/New_York"


def identity(event: dict[str, Any]) -> tuple[str, ...]:
    return (event["uuid"], event["event"], event["properties"]["distinct_id"], event["timestamp"])


def test_a_copy_of_mixpanels_export_is_the_same_events(tmp_path: Path) -> None:
    """Names, uuids, people and times of a project in New York agree, over the days on which its clock changes.

    Not of rows without $insert_id, whose uuids are of their whole content, nor of one with a property `properties`.
    """
    found = [
        one
        for one in mixpanel_warehouse.records()
        if one["properties"].keys() >= {"distinct_id", "$insert_id"} and "properties" not in one["properties"]
    ]
    raw = tmp_path / "raw.jsonl"
    raw.write_bytes(lines([row(one) for one in found]))
    _, expected = planned(tmp_path / "plan", [raw], zone=NEW_YORK)
    assert len(expected) > 50
    copies: tuple[Callable[[Any], Any], ...] = (
        mixpanel_warehouse.fivetran, mixpanel_warehouse.airbyte, mixpanel_warehouse.service
    )  # fmt: skip
    for copy in copies:
        text, file = copy(found), tmp_path / f"{copy.__name__}.data"
        file.write_bytes(text if isinstance(text, bytes) else lines(text))
        plan, events = planned(tmp_path / copy.__name__, [file], zone=NEW_YORK)
        assert plan.mapping.name == "mixpanel-warehouse"
        assert sorted(map(identity, events)) == sorted(map(identity, expected)), copy


def test_a_copy_without_its_zone_is_not_ready(tmp_path: Path) -> None:
    """The receive times show that a loader's UTC is the project's clock."""
    file = tmp_path / "copy.jsonl"
    file.write_bytes(lines(mixpanel_warehouse.airbyte(mixpanel_warehouse.records())))
    plan, _ = planned(tmp_path / "plan", [file])
    assert plan.verdict == "not-ready"
    assert "zone" in [gate.name for gate in plan.gates if gate.level == "stop"]
