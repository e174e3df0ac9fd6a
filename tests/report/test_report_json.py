"""Reports for programs: the members that are documented, and what an earlier report of the plan says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import UnsafePlan
from pipeline.report.contents import Results, build_report
from pipeline.report.machine import plan_object, write_report
from pipeline.report.sections.events import years
from tests.golden.report.small_plan import GOLDEN, REHEARSAL, VERIFICATION, golden_report, plan_directory, small_plan


def test_the_objects_of_a_plan_are_the_documented_ones() -> None:
    """`plan --json` has exactly the documented members and nothing of this machine; report.json is the golden one."""
    plan = small_plan()
    assert json.loads(json.dumps(plan_object(plan, "work/plan"))) == {
        "format": "backcast.plan/1",
        "plan": "work/plan",
        "digest": plan.digest,
        "verdict": "not-ready",
        "tool": "mixpanel",
        "zone": "America/New_York",
        "first": "2021-11-07T05:39:33Z",
        "last": "2022-01-02T23:00:00Z",
        "rows": {"read": 14, "mapped": 10, "skipped": 2, "rejected": 2},
        "events": {"made": 12, "phases": {"identities": 2, "groups": 0, "events": 10, "persons": 0}},
        "parts": [
            {"path": "a.jsonl", "bytes": 1200, "digest": "a" * 64, "rows": 12},
            {"path": "b.csv", "bytes": 200, "digest": "b" * 64, "rows": 2},
        ],
        "skips": {"duplicate_event": 1, "campaign_event": 1},
        "rejects": {"bad_json": 1, "missing_timestamp": 1},
        "warnings": {"unsafe_integer": 3},
        "gates": [{"name": "max_rejects", "level": "stop", "detail": "2 of 14 rows (14.29%) rejected (limit 0)"}],
    }
    assert golden_report() == GOLDEN.read_bytes()


def test_a_report_keeps_what_an_earlier_one_of_the_plan_says(tmp_path: Path) -> None:
    """Verifying after a rehearsal leaves the rehearsal in it, another plan starts afresh; cells that cannot be read
    stop it with exit code 4."""
    directory = plan_directory(tmp_path)
    write_report(directory, small_plan(), Results(rehearsal=REHEARSAL))
    write_report(directory, small_plan(), Results(verification=VERIFICATION))
    kept = json.loads(directory.report_json.read_bytes())
    assert (kept["rehearsal"]["events"]["accepted"], kept["verification"]["proved"]) == (12, True)
    assert (kept["rehearsed"], kept["applied"]) == (None, None)
    write_report(directory, small_plan(blocks=3))
    fresh = json.loads(directory.report_json.read_bytes())
    assert (fresh["rehearsal"], fresh["verification"]) == (None, None)
    directory = plan_directory(tmp_path)
    directory.cells.write_bytes(b'{"event": 1}\n')
    with pytest.raises(UnsafePlan, match=r"cells\.jsonl of the plan cannot be read"):
        build_report(directory, small_plan())


def test_months_are_bounded_and_stand_in_their_places(tmp_path: Path) -> None:
    """Of 130 event names, 100 have months of their own and the others are added up; a year adds each month up."""
    names = {f"event {number:03d}": 200 - number for number in range(130)}
    cells = [(name, "2021-05-01", "mapped", count) for name, count in sorted(names.items())]
    report = build_report(plan_directory(tmp_path, cells), small_plan(names=names))
    assert len(report.months) == 101
    assert (report.months[0].event, report.months[-1].event) == ("event 000", "")
    counts = [one.count for one in report.months]
    assert (counts[-1], sum(counts)) == (sum(range(71, 101)), sum(names.values()))
    first, second = years(build_report(plan_directory(tmp_path), small_plan()))
    assert first.events == [("Order Placed", [0] * 10 + [4, 2], 6), ("Signup", [0] * 10 + [1, 0], 1)]
    assert (first.sums, first.total) == ([0] * 10 + [5, 2], 7)
    assert (second.year, second.events) == ("2022", [("Signup", [3] + [0] * 11, 3)])
