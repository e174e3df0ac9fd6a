"""A plan finds each fault that is planted in an export of 70,000 rows, names its place, and finds none in a twin."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipeline
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from tests.support.planted_export import FAULTS, ZONE, write_export

COLUMNS = {"event": "event", "distinct_id": "user", "anonymous_id": "device", "timestamp": "at", "uuid": "id"}
CONSEQUENCES = {"duplicates", "ambiguous_time"}
"""What faults bring along: rows of two files are copies, and the other zone's clock has an hour twice."""


pytestmark = pytest.mark.slow


def planned(folder: Path, *, faulty: bool) -> Plan:
    """The plan of the export or of its twin."""
    export = write_export(folder / "export", faulty=faulty)
    asked = PlanOptions(mapping="generic", timezone=ZONE, settings=COLUMNS, workers=0)
    return pipeline.plan_export(export, folder / "plan", asked)


def found(plan: Plan) -> dict[str, str]:
    """What a plan found, by check or by the code of a warning, in the words that people read."""
    texts = {gate.name: f"{gate.detail} {gate.examples}" for gate in plan.gates}
    warnings = {code: plan.examples[code].detail if code in plan.examples else "" for code in plan.warnings}
    return warnings | texts


def test_each_planted_fault_is_found_and_named_and_nothing_else(tmp_path: Path) -> None:
    """By its own check, with the day, the name or the file, a count and examples; what is no fault costs a person's
    time. Rows of a file of copies alone are left out already: they are a count, since whoever left out the file's
    neighbour would lose rows. The days without a file are not among the days without an event."""
    plan = planned(tmp_path, faulty=True)
    texts = found(plan)
    for fault in FAULTS:
        assert fault.names in texts[fault.check], fault.planted
    assert texts.keys() - CONSEQUENCES == {fault.check for fault in FAULTS}
    assert [gate.name for gate in plan.gates if not gate.count or not gate.examples] == []
    assert sum(part.rows for part in plan.parts if not part.mapped) == plan.skips["duplicate_event"] == 569
    assert "2022-05" not in texts["empty_days"]
    assert "no event of another file has a time there" in texts["missing_files"]


def test_a_clean_twin_has_no_finding(tmp_path: Path) -> None:
    """The same people on the same days, without the faults."""
    plan = planned(tmp_path, faulty=False)
    assert found(plan) == {}
    assert plan.verdict == "ready"
