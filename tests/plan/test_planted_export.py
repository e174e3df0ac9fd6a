"""A plan finds each fault that is planted in an export of 200,000 rows, names its place, and finds none in a twin."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipeline
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from tests.support.planted_export import FAULTS, ZONE, Fault, write_export

COLUMNS = {"event": "event", "distinct_id": "user", "anonymous_id": "device", "timestamp": "at", "uuid": "id"}
CONSEQUENCES = {"duplicates", "ambiguous_time"}
"""What faults bring along: rows of two files are copies, and the other zone's clock has an hour twice."""


def planned(folder: Path, *, faulty: bool) -> Plan:
    """The plan of the export or of its twin."""
    export = write_export(folder / "export", faulty=faulty)
    return pipeline.plan_export(
        export, folder / "plan", PlanOptions(mapping="generic", timezone=ZONE, settings=COLUMNS)
    )


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """The plan of the export with every fault."""
    return planned(tmp_path_factory.mktemp("faulty"), faulty=True)


def found(plan: Plan) -> dict[str, str]:
    """What a plan found, by check or by the code of a warning, in the words that people read."""
    texts = {gate.name: f"{gate.detail} {gate.examples}" for gate in plan.gates}
    warnings = {code: plan.examples[code].detail if code in plan.examples else "" for code in plan.warnings}
    return warnings | texts


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.planted for fault in FAULTS])
def test_each_planted_fault_is_found_and_named(faulty: Plan, fault: Fault) -> None:
    """By its own check, with the day, the name or the file."""
    texts = found(faulty)
    assert fault.check in texts
    assert fault.names in texts[fault.check]


@pytest.mark.slow
def test_each_finding_has_a_count_and_examples(faulty: Plan) -> None:
    """The worst places first."""
    assert [gate.name for gate in faulty.gates if not gate.count or not gate.examples] == []


@pytest.mark.slow
def test_nothing_else_is_found(faulty: Plan) -> None:
    """A finding that is no fault costs a person's time."""
    assert set(found(faulty)) - CONSEQUENCES == {fault.check for fault in FAULTS}


@pytest.mark.slow
def test_a_file_of_copies_alone_is_a_count(faulty: Plan) -> None:
    """Its rows are left out already: whoever left out its neighbour would lose rows."""
    assert sum(part.rows for part in faulty.parts if not part.mapped) == faulty.skips["duplicate_event"] == 1_677


@pytest.mark.slow
def test_one_hole_has_one_line(faulty: Plan) -> None:
    """The days without a file are not among the days without an event."""
    texts = found(faulty)
    assert "2022-05" not in texts["empty_days"]
    assert "no event of another file has a time there" in texts["missing_files"]


@pytest.mark.slow
def test_a_clean_twin_has_no_finding(tmp_path: Path) -> None:
    """The same people on the same days, without the faults."""
    plan = planned(tmp_path, faulty=False)
    assert found(plan) == {}
    assert plan.verdict == "ready"
