"""Who is who at the service after a plan was sent: persons, their properties and groups, as the local service has
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.plan.sealed.freshness import open_plan
from tests.support.people import Rows, amplitude, people, planned, segment, sent
from tests.support.plan_facts import found
from tests.support.rehearsal import event, fresh, send


def old_and_new(at: int, value: str) -> dict[str, Any]:
    return segment(at, "identify", "u-1", None, traits={"plan": value, "old": value})


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fill-only", {"plan": "live", "old": "b"}),
        ("overwrite", {"plan": "b", "old": "b"}),
        ("prefix=was_", {"plan": "live", "was_plan": "b", "was_old": "b"}),
    ],
)
def test_an_old_set_meets_a_live_profile_as_the_policy_says(
    tmp_path: Path, policy: str, expected: dict[str, str]
) -> None:
    """By default no existing value is overwritten."""
    room = fresh()
    send(room, event("u-1", "$set", 10, _set={"plan": "live"}))
    sent(tmp_path, "segment", [old_and_new(9, "b"), old_and_new(5, "a")], room=room, profile_policy=policy)
    assert people(room) == {("u-1",): expected}


def test_person_properties_may_be_left_out(tmp_path: Path) -> None:
    """The merges and events stay."""
    rows = [segment(1, "track", None, "a-1"), segment(2, "identify", "u-1", "a-1", traits={"plan": "pro"})]
    assert people(sent(tmp_path, "segment", rows, person_properties="none")) == {("a-1", "u-1"): {}}


def of_types(count: int) -> Rows:
    """Rows that name this many group types, the first of them most often."""
    kinds = [f"t{number}" for number in range(count)]
    return [amplitude(at, "ann", "d", groups=dict.fromkeys(kinds[: count - at], "k")) for at in range(count)]


def test_five_group_types_are_numbered_as_the_plan_shows_and_six_stop_it(tmp_path: Path) -> None:
    """Until --group-types chooses."""
    room = sent(tmp_path / "five", "amplitude", of_types(5))
    assert [one.type for one in sorted(room.groups(), key=lambda one: one.index)] == ["t0", "t1", "t2", "t3", "t4"]
    six = planned(tmp_path / "six", "amplitude", of_types(6))
    assert (six.ready, [gate.name for gate in six.gates if gate.level == "stop"]) == (False, ["group_types"])
    chosen = planned(tmp_path / "chosen", "amplitude", of_types(6), group_types=["t5", "t1"])
    assert chosen.ready
    room = sent(tmp_path / "sent", "amplitude", of_types(6), group_types=["t5", "t1"])
    assert {one.type for one in room.groups()} == {"t5", "t1"}
    assert room.select('select count(*) from events where properties like \'%"t0_ids":"k"%\'') == [(6,)]
    assert [(one.type, one.sent) for one in chosen.people.groups.types] == [("t5", True), ("t1", True)]
    assert chosen.warnings == {"left_out_group": 6}


def test_events_of_unidentified_ids_make_no_profile(tmp_path: Path) -> None:
    """Under --persons identified only users and ids joined to them get one; the counts are in the plan."""
    rows = [amplitude(1, None, "d-1"), amplitude(2, "ann", "d-1"), amplitude(3, None, 'lo"st'), amplitude(4, None, "é")]
    profile = amplitude(5, "eve", None, event_type="$identify", user_properties={"plan": "pro"})
    room = sent(tmp_path, "amplitude", [*rows, profile], persons="identified")
    assert set(people(room)) == {("ann", "d-1"), ("eve",)}
    assert room.count() == len(rows) + 2
    plan, place = open_plan(tmp_path / "plan")
    profiles = plan.people.profiles
    assert (profiles.identified_ids, profiles.anonymous_ids) == (2, 2)
    assert (profiles.identified_events, profiles.anonymous_events) == (2, 2)
    assert place.identified.name in plan.files
    assert (profiles.people, profiles.one_day_people, profiles.one_day_people_events) == (3, 3, 4)
    assert found(plan.gates) == []
