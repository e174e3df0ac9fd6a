"""Reports for programs: the documented members, and what an earlier report of the plan has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import UnsafePlan
from pipeline.report.contents import Results, build_report
from pipeline.report.machine import plan_object, write_report
from pipeline.report.sections.rows import years
from tests.golden.report.small_plan import GOLDEN, REHEARSAL, VERIFICATION, golden_report, plan_directory, small_plan


def test_the_objects_of_a_plan_are_the_golden_ones() -> None:
    """report.json contains that of `plan --json`; neither has anything of this machine."""
    assert golden_report() == GOLDEN.read_bytes()
    assert json.loads(GOLDEN.read_bytes())["plan"] == json.loads(json.dumps(plan_object(small_plan(), "small")))


def test_a_report_keeps_what_an_earlier_one_of_the_plan_says(tmp_path: Path) -> None:
    """Verifying after a rehearsal keeps the rehearsal in it, another plan starts afresh; cells that cannot be read stop
    it with exit code 4."""
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


def test_months_are_bounded_and_in_order(tmp_path: Path) -> None:
    """Of 130 event names, 100 have months of their own and the others are added up; a year adds up its months."""
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
