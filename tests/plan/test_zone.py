"""A zone is proved or contradicted by the data, month by month; if they show nothing, a person has to choose."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.api import apply_plan, plan_export
from pipeline.errors import UnsafePlan
from pipeline.options import PlanOptions
from pipeline.plan.checks import run_checks
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan, load
from pipeline.plan.zone import judge_zone
from tests.support.plan_facts import facts, found
from tests.support.tiny_tool import AS_OF

PST = [-28_813, -28_840, -28_829, -28_819, -28_820, -28_805, -28_841]
"""Clock minus receipt of real rows of a project in Pacific time, December 2020
(docs/know/exports.md#mixpanel-time-zone)."""
IST = [19_762, 19_777, 19_738, 19_798, 19_762]
"""The same of a project in India, October 2022."""
DECEMBER_2020 = datetime(2020, 12, 10, 12, tzinfo=UTC)
OCTOBER_2022 = datetime(2022, 10, 10, 12, tzinfo=UTC)


def mixpanel(path: Path, clocks: list[tuple[datetime, int]]) -> Path:
    """An export whose rows have this reading of the project's clock, this many seconds from their receipt."""
    lines = []
    for number, (clock, distance) in enumerate(clocks):
        time = int(clock.timestamp()) + 60 * number
        properties: dict[str, Any] = {"time": time, "distinct_id": "u-1", "$insert_id": f"i{number}"}
        properties["mp_processing_time_ms"] = (time - distance) * 1000
        lines.append(json.dumps({"event": "Seen", "properties": properties}))
    path.write_text("\n".join(lines) + "\n")
    return path


def planned(place: Path, clocks: list[tuple[datetime, int]], *zones: str) -> Plan:
    """A plan of that export."""
    path = mixpanel(place / "export.jsonl", clocks)
    options = PlanOptions(mapping="mixpanel", timezone=zones, as_of=AS_OF, workers=0)
    return plan_export(path, place / "plan", options)


def levels(plan: Plan) -> dict[str, str]:
    """The checks that gave a finding, with their levels."""
    return {gate.name: gate.level for gate in found(plan.gates)}


def evidence(plan: Plan) -> list[tuple[Any, ...]]:
    """The evidence of each month, and whether it agrees."""
    return [(one.month, one.offset, one.rows, one.agrees) for one in plan.zone_evidence]


@pytest.mark.parametrize(
    ("when", "distances", "zone", "month", "offset"),
    [
        (DECEMBER_2020, PST, "America/Los_Angeles", "2020-12", -28_800),
        (OCTOBER_2022, IST, "Asia/Kolkata", "2022-10", 19_800),
    ],
    ids=["PST", "IST"],
)
def test_real_rows_prove_their_zone_and_contradict_utc(
    tmp_path: Path, when: datetime, distances: list[int], zone: str, month: str, offset: int
) -> None:
    """The two fixtures that have true local time."""
    clocks = [(when, distance) for distance in distances]
    right = planned(tmp_path, clocks, zone)
    assert evidence(right) == [(month, offset, len(distances), True)]
    assert (levels(right), right.verdict, right.zone) == ({}, "ready", zone)
    wrong = planned(tmp_path, clocks)
    assert evidence(wrong) == [(month, offset, len(distances), False)]
    assert (levels(wrong), wrong.verdict, wrong.zone) == ({"zone": "stop"}, "not-ready", "UTC")


def test_a_month_in_which_the_clocks_change_proves_with_either_offset(tmp_path: Path) -> None:
    """March 2021 in New York is five hours behind at its beginning and four at its end."""
    early = [(datetime(2021, 3, 2, 12, tzinfo=UTC), -18_001)]
    late = [(datetime(2021, 3, 29, 12, tzinfo=UTC), -14_401)]
    for clocks in (early * 5 + late * 3, early * 3 + late * 5):
        plan = planned(tmp_path, clocks, "America/New_York")
        assert (levels(plan), plan.zone_evidence[0].expected) == ({}, (-18_000, -14_400))


def test_a_constant_offset_is_contradicted_by_the_other_half_of_the_year(tmp_path: Path) -> None:
    """A zone is a name with its rules, not a number."""
    clocks = [(datetime(2021, 1, 5, tzinfo=UTC), -18_001)] * 3 + [(datetime(2021, 7, 5, tzinfo=UTC), -14_401)] * 3
    assert levels(planned(tmp_path, clocks, "America/New_York")) == {}
    plan = planned(tmp_path, clocks, "Etc/GMT+5")
    assert evidence(plan) == [("2021-01", -18_000, 3, True), ("2021-07", -14_400, 3, False)]
    told = "in 2021-07 receive times show UTC-04:00 in 3 of 3 rows, not UTC-05:00. 1 month of 2 disagrees."
    assert told in plan.gates[0].detail


def test_too_few_rows_ask_for_the_zone_by_name(tmp_path: Path) -> None:
    """Two rows prove nothing, so UTC is not assumed; a zone that a person names passes, also UTC. Three rows prove
    it."""
    two = [(OCTOBER_2022, -1)] * 2
    plan = planned(tmp_path, two)
    assert (plan.zone_evidence, levels(plan), plan.verdict) == ([], {"zone": "stop"}, "not-ready")
    assert "Name it with --timezone" in plan.gates[0].detail
    for zone in ("UTC", "Asia/Kolkata"):
        assert levels(planned(tmp_path, two, zone)) == {}
    plan = planned(tmp_path, [*two, *two[:1]])
    assert (levels(plan), plan.zone) == ({}, "UTC")


def test_a_plan_that_is_not_ready_is_written_and_is_never_applied(tmp_path: Path) -> None:
    """It can be read and rehearsed; apply ends with exit 4 before anything is sent."""
    planned(tmp_path, [(DECEMBER_2020, distance) for distance in PST])
    plan = load(Directory(tmp_path / "plan"))
    assert plan.verdict == "not-ready"
    with pytest.raises(UnsafePlan, match="the plan is not ready: 1 check stops it") as caught:
        apply_plan(tmp_path / "plan", "http://127.0.0.1:1", project_key="phc_test")
    (stop,) = caught.value.details
    assert stop.startswith("STOP zone: the times are not UTC")
    assert " --timezone America/Los_Angeles" in caught.value.hint
    assert caught.value.exit_code == 4


JULY_2021 = (date(2021, 7, 1) - date(1970, 1, 1)).days


def judged(counts: dict[int, int], zone: str = "UTC") -> list[tuple[int, int, int]]:
    """(offset, rows, of) of July 2021."""
    verdict = judge_zone(Counter({(JULY_2021, offset): count for offset, count in counts.items()}), ((zone, ""),))
    return [(one.offset, one.rows, one.of) for one in verdict.months]


def test_a_small_share_of_a_month_proves_and_contradicts_nothing() -> None:
    """If a thousand rows were imported in bulk, days or years after their own time, a few arrive at any distance by
    accident, and a distance beyond the zones of the earth is not an offset. The most frequent counts, not the mean."""
    assert judged({-86_400 * 30: 900, -3_600: 99}) == []
    assert judged({-86_400 * 30: 900, -3_600: 100}) == [(-3_600, 100, 1000)]
    assert judged({-86_400 * 30: 90, -43_200 - 900: 50, 0: 20}) == [(0, 20, 160)]
    assert judged({50_400: 3}) == [(50_400, 3, 3)]
    assert judged({-28_800: 7, -39_600: 1, -90_000: 1, 3_600: 1}) == [(-28_800, 7, 10)]


def test_months_are_judged_in_order_each_by_itself() -> None:
    """A project's zone may have been changed: ZONE@DATE applies from that day."""
    counts = Counter({(JULY_2021 + 31, 0): 5, (JULY_2021, 7_200): 5})
    verdict = judge_zone(counts, (("Europe/Berlin", ""), ("UTC", "2021-08-01")))
    assert [(one.month, one.agrees) for one in verdict.months] == [("2021-07", True), ("2021-08", True)]
    assert verdict.zone == "Europe/Berlin, UTC@2021-08-01"
    assert not judge_zone(counts, (("Europe/Berlin", ""),)).proved


def test_a_zone_that_applied_for_some_days_counts_for_its_month() -> None:
    """Each day is compared with the zone that applied on it."""
    zones = (("UTC", ""), ("Asia/Kolkata", "2021-07-10"), ("UTC", "2021-07-20"))
    (month,) = judge_zone(Counter({(JULY_2021 + 12, 19_800): 5, (JULY_2021 + 25, 0): 4}), zones).months
    assert (month.expected, month.agrees) == ((0, 19_800), True)


def test_the_gate_speaks_of_the_month_with_the_most_rows_against_the_zone() -> None:
    """So a person sees the strongest reason first."""
    counts = Counter({(JULY_2021, 19_800): 4, (JULY_2021 + 31, 19_800): 9})
    (finding,) = run_checks(facts(zone=judge_zone(counts, ())))
    told = "in 2021-08 receive times show UTC+05:30 in 9 of 9 rows. 2 months of 2 disagree."
    assert told in finding.detail
