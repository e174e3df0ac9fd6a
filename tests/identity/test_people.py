"""Who is who at the service once a plan was sent: persons, their properties and groups, judged by the local service."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.plan.sealed.freshness import open_plan
from tests.support.people import CALLS, Rows, amplitude, came_to, groups, mixpanel, people, planned, segment, sent
from tests.support.rehearsal import event, fresh, send

pytestmark = pytest.mark.slow


def test_mixpanels_people_are_those_that_its_rows_and_records_join(tmp_path: Path) -> None:
    """The label of a cluster is the user's, whose own id survives; an e-mail is no device; merges of many, a chain and
    a cycle are stars, of which the service refuses no link; a profile export wins over what old events say of a
    property."""
    rows = [
        *(mixpanel(at, label) for at, label in ((1, "225CC746-EA3B-4D51"), (1, "10be417a-cd8e-4000"))),
        mixpanel(2, "225CC746-EA3B-4D51", _user_id="324172", _device_id="d791b834"),
        mixpanel(2, "10be417a-cd8e-4000", _user_id="324173", _device_id="d791b835"),
        mixpanel(3, "other", _user_id="other"),
        mixpanel(1, "$device:d1", _device_id="d1"),
        mixpanel(2, "u-1", _user_id="u-1", _device_id="d1", _initial_referrer="$direct"),
        mixpanel(3, "$device:ada@example.com", _device_id="ada@example.com"),
        mixpanel(4, "u-2", _user_id="u-2", _device_id="ada@example.com"),
        mixpanel(1, "a", "$merge", _distinct_ids=["a", "b", "c"]),
        mixpanel(2, "x", "$create_alias", alias="y"),
        mixpanel(3, "y", "$create_alias", alias="z"),
        mixpanel(4, "z", "$create_alias", alias="x"),
        *(mixpanel(10 + number, one) for number, one in enumerate("abcxyz")),
    ]
    page = {"results": [{"$distinct_id": "u-1", "$properties": {"$email": "ada@example.com", "n": 1}}]}
    room = sent(tmp_path, "mixpanel", rows, [page, {"$distinct_id": "u-3", "$properties": {"plan": "pro"}}])
    alone = {("other",), ("$device:ada@example.com",), ("u-2",), ("a", "b", "c"), ("x", "y", "z")}
    joined = {("225CC746-EA3B-4D51", "324172"), ("10be417a-cd8e-4000", "324173")}
    assert people(room) == {ids: {} for ids in alone | joined} | {
        ("$device:d1", "u-1"): {"$initial_referrer": "$direct", "email": "ada@example.com", "n": 1},
        ("u-3",): {"plan": "pro"},
    }
    assert room.warnings() == []


def test_amplitudes_people_are_those_that_its_rows_and_merged_ids_join(tmp_path: Path) -> None:
    """A shared tablet is its first user's, a server's devices and a user's id in a device's place are nobody's, and
    merged ids are followed from link to link. Groups have their final properties and no event of their own."""
    merged = [{"amplitude_id": one, "merged_amplitude_id": one + 1} for one in (1, 2)]
    rows = [
        *(amplitude(at, user, "tablet") for at, user in enumerate((None, "ann", "bob"), 1)),
        *(amplitude(at, user, "phone") for at, user in ((4, "cid"), (5, None))),
        *(amplitude(10 + number, "ann", f"call-{number}") for number in range(5)),
        *(amplitude(at, user, "324172") for at, user in ((1, "324172"), (2, "346298"))),
        amplitude(3, "346298", "d"),
        amplitude(1, None, "d-1", amplitude_id=1),
        amplitude(2, "eve", "d-2", amplitude_id=3),
        amplitude(3, "bob", "b", groups={"company": ["acme", "zoo"], "team": "red"}),
    ]
    told = [{"acme": {"plan": "free", "n": 1}}, {"acme": {"plan": "pro"}}]
    of_groups = [
        amplitude(at, "bob", "b", "$groupidentify", group_properties={"company": each}) for at, each in enumerate(told)
    ]
    room = sent(tmp_path, "amplitude", [*rows, *of_groups], merged, settings={"merged_ids": "yes"})
    assert set(people(room)) == {
        ("ann", "tablet"), ("bob",), ("cid", "phone"), ("324172",), ("346298",), ("d-1", "eve"),
    }  # fmt: skip
    assert groups(room) == {("company", "acme"): {"plan": "pro", "n": 1}, ("team", "red"): {}}
    assert room.select("select count(*) from events where event = 'Seen'") == [(len(rows),)]
    assert room.warnings() == []


def test_segments_calls_make_persons_traits_and_groups(tmp_path: Path) -> None:
    """identify, alias and group calls; an anonymous id that survives a logout stays the first user's, and what was said
    of it counts for that person, by the time of each saying."""
    rows = [
        segment(1, "track", None, "a-1"),
        segment(1, "identify", None, "a-1", traits={"plan": "free", "m": 1}),
        segment(2, "identify", "u-1", "a-1", traits={"plan": "free"}),
        segment(3, "identify", "u-1", "a-1", traits={"plan": "pro", "n": 1}),
        segment(4, "identify", "u-2", "a-1", traits={"plan": "team"}),
        segment(5, "alias", "u-3", None, previousId="u-3@example.com"),
        segment(6, "track", "u-3@example.com", None),
        segment(7, "group", "u-1", "a-1", groupId="acme", traits={"name": "Acme"}),
    ]
    room = sent(tmp_path, "segment", rows)
    assert people(room) == {
        ("a-1", "u-1"): {"plan": "pro", "n": 1, "m": 1}, ("u-2",): {"plan": "team"}, ("u-3", "u-3@example.com"): {},
    }  # fmt: skip
    assert groups(room) == {("company", "acme"): {"name": "Acme"}}


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
    """By default nothing that is there is overwritten."""
    room = fresh()
    send(room, event("u-1", "$set", 10, _set={"plan": "live"}))
    sent(tmp_path, "segment", [old_and_new(9, "b"), old_and_new(5, "a")], room=room, profile_policy=policy)
    assert people(room) == {("u-1",): expected}


def test_person_properties_may_be_left_out(tmp_path: Path) -> None:
    """The merges and events stay."""
    rows = [segment(1, "track", None, "a-1"), segment(2, "identify", "u-1", "a-1", traits={"plan": "pro"})]
    assert people(sent(tmp_path, "segment", rows, person_properties="none")) == {("a-1", "u-1"): {}}


def of_types(count: int) -> Rows:
    """Rows that name so many group types, the first of them most."""
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
    """Under --persons identified: of users, of what joins them, and of nobody else; the counts are in the plan."""
    rows = [amplitude(1, None, "d-1"), amplitude(2, "ann", "d-1"), amplitude(3, None, 'lo"st'), amplitude(4, None, "é")]
    room = sent(tmp_path, "amplitude", rows, persons="identified")
    assert set(people(room)) == {("ann", "d-1")}
    assert room.count() == len(rows) + 1
    plan, place = open_plan(tmp_path / "plan")
    profiles = plan.people.profiles
    assert (profiles.identified_ids, profiles.anonymous_ids) == (2, 2)
    assert (profiles.identified_events, profiles.anonymous_events) == (2, 2)
    assert place.identified.name in plan.files
    assert (profiles.people, profiles.one_day_people, profiles.one_day_people_events) == (3, 3, 4)
    assert plan.gates == []


def test_pairs_of_the_operators_own_are_merged(tmp_path: Path) -> None:
    """And the file is part of what the plan seals."""
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("anonymous_id,user_id\nd-9,ann\n", "utf-8")
    rows = [amplitude(1, None, "d-9"), amplitude(2, "ann", "d-1")]
    assert set(people(sent(tmp_path, "amplitude", rows, identities=pairs))) == {("ann", "d-9")}


def test_a_second_plan_for_the_same_target_merges_nothing_twice(tmp_path: Path) -> None:
    """What the plan beside it settled is known, and the id that was kept goes on being kept."""
    room = fresh()
    first = [amplitude(1, None, "d-1"), amplitude(2, "ann", "d-1")]
    sent(tmp_path / "one", "amplitude", first, room=room, target=room.url)
    again = [*first, amplitude(3, None, "d-2"), amplitude(4, "ann", "d-2")]
    sent(tmp_path / "two", "amplitude", again, room=room, earlier=[tmp_path / "one" / "plan"])
    assert open_plan(tmp_path / "two" / "plan")[0].events.phases["identities"] == 1
    assert set(people(room)) == {("ann", "d-1", "d-2")}
    assert room.warnings() == []


@settings(max_examples=3)
@given(st.lists(CALLS, min_size=1, max_size=10, unique_by=lambda one: one["messageId"]), st.randoms())
@example([segment(0, "identify", None, "a", traits={})], random.Random(1))
@pytest.mark.parametrize("promote", ["off", "on"])
def test_any_order_of_rows_files_and_batches_gives_the_same_people(
    promote: str, calls: Rows, chance: random.Random
) -> None:
    """Persons, their ids and properties, groups: also where the service itself promotes properties of events."""
    first = came_to(calls, None, promote)
    assert came_to(calls, chance, promote) == first
    assert first[2] == []  # type: ignore[index]
