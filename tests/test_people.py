"""Who is who at the service once a plan was sent: persons, their properties and groups, judged by the local service."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest
from deliveries import COLUMNS, ONE_AT_A_TIME, run
from hypothesis import given, settings
from hypothesis import strategies as st
from rehearsal import NOW, Room, event, fresh, send

import pipeline
from pipeline import workflow
from pipeline.errors import UnsafePlan
from pipeline.plan.sealed import Plan

pytestmark = pytest.mark.slow

AS_OF = datetime.fromtimestamp(NOW // 1_000_000, UTC)
JANUARY = 1_672_531_200
"""2023-01-01T00:00:00Z, in seconds."""
Rows = Sequence[dict[str, Any]]


def write(folder: Path, *files: Rows) -> Path:
    """An export of JSON lines."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(files):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def planned(place: Path, mapping: str, *files: Rows, **asked: Any) -> Plan:
    """A plan of these rows, in `place`/plan."""
    zone = {"timezone": "UTC"} if mapping == "mixpanel" else {}
    return pipeline.plan_export(
        write(place / "export", *files), place / "plan", mapping=mapping, as_of=AS_OF, workers=0, **(zone | asked)
    )


def sent(place: Path, mapping: str, *files: Rows, room: Room | None = None, **asked: Any) -> Room:
    """The project of the local service that such a plan was sent to."""
    room = room or fresh()
    planned(place, mapping, *files, **asked)
    outcome = run(place / "plan", room.url, key=room.key())
    assert outcome.balanced, outcome
    return room


def people(room: Room) -> dict[tuple[str, ...], dict[str, Any]]:
    """Each person's properties by its ids; persons of groups, which have no other use, are left out."""
    return {
        one.distinct_ids: one.properties for one in room.persons() if not one.distinct_ids[0].startswith("$company_")
    }


def groups(room: Room) -> dict[tuple[str, str], dict[str, Any]]:
    """Each group's properties by its type and key."""
    return {(one.type, one.key): one.properties for one in room.groups()}


def mixpanel(at: int, distinct_id: str, name: str = "Seen", **more: Any) -> dict[str, Any]:
    """A row; of the properties' names `_x` stands for `$x`. Its $insert_id is made of the rest."""
    named = {f"${key[1:]}" if key.startswith("_") else key: value for key, value in more.items()}
    insert = f"{name}-{at}-{distinct_id}-{len(named)}"
    return {
        "event": name,
        "properties": {"time": JANUARY + at, "distinct_id": distinct_id, "$insert_id": insert} | named,
    }


def amplitude(at: int, user: str | None, device: str, name: str = "Seen", **more: Any) -> dict[str, Any]:
    """A row."""
    when = datetime.fromtimestamp(JANUARY + at, UTC).strftime("%Y-%m-%d %H:%M:%S.000000")
    ids = {"user_id": user, "device_id": device, "$insert_id": f"{name}-{at}-{user}-{device}"}
    return {"event_type": name, "event_time": when} | ids | more


def segment(at: int, kind: str, user: str | None, anonymous: str | None, **more: Any) -> dict[str, Any]:
    """A call."""
    when = datetime.fromtimestamp(JANUARY + at, UTC).isoformat()
    name = {"event": "Seen"} if kind == "track" else {}
    ids = {"messageId": f"{kind}-{at}-{user}-{anonymous}", "userId": user, "anonymousId": anonymous}
    return {"type": kind, "timestamp": when} | name | ids | more


# -- each tool's ways ------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["225CC746-EA3B-4D51", "10be417a-cd8e-4000"])
def test_the_label_of_a_mixpanel_cluster_is_the_users(tmp_path: Path, label: str) -> None:
    """The user's own id survives, in capitals or not; what the device did before belongs to the user."""
    rows = [
        mixpanel(1, label),
        mixpanel(2, label, _user_id="324172", _device_id="d791b834"),
        mixpanel(3, "other", _user_id="other"),
    ]
    assert set(people(sent(tmp_path, "mixpanel", rows))) == {tuple(sorted(("324172", label))), ("other",)}


def test_a_simplified_mixpanel_device_joins_its_user_and_an_email_never_does(tmp_path: Path) -> None:
    """$device:ID keeps its beginning on both sides; a $device_id that is an e-mail is no device."""
    rows = [
        mixpanel(1, "$device:d1", _device_id="d1"),
        mixpanel(2, "u-1", _user_id="u-1", _device_id="d1"),
        mixpanel(3, "$device:ada@example.com", _device_id="ada@example.com"),
        mixpanel(4, "u-2", _user_id="u-2", _device_id="ada@example.com"),
    ]
    found = set(people(sent(tmp_path, "mixpanel", rows)))
    assert found == {("$device:d1", "u-1"), ("$device:ada@example.com",), ("u-2",)}


def test_mixpanel_merges_of_many_a_chain_and_a_cycle_are_stars(tmp_path: Path) -> None:
    """No link is refused by the service, so each set of ids is one person."""
    rows = [
        mixpanel(1, "a", "$merge", _distinct_ids=["a", "b", "c"]),
        mixpanel(2, "x", "$create_alias", alias="y"),
        mixpanel(3, "y", "$create_alias", alias="z"),
        mixpanel(4, "z", "$create_alias", alias="x"),
        *(mixpanel(10 + number, one) for number, one in enumerate("abcxyz")),
    ]
    room = sent(tmp_path, "mixpanel", rows)
    assert set(people(room)) == {("a", "b", "c"), ("x", "y", "z")}
    assert room.warnings() == []


def test_mixpanel_people_join_events_in_one_plan(tmp_path: Path) -> None:
    """A profile export is the latest state: it wins over what old events say of the same property."""
    rows = [mixpanel(1, "u-1", _user_id="u-1", _initial_referrer="$direct")]
    page = {"results": [{"$distinct_id": "u-1", "$properties": {"$email": "ada@example.com", "n": 1}}]}
    profile = {"$distinct_id": "u-2", "$properties": {"plan": "pro"}}
    room = sent(tmp_path, "mixpanel", rows, [page, profile])
    assert people(room) == {
        ("u-1",): {"$initial_referrer": "$direct", "email": "ada@example.com", "n": 1},
        ("u-2",): {"plan": "pro"},
    }


def test_an_amplitude_device_of_two_users_is_the_firsts_and_a_servers_devices_are_nobodys(tmp_path: Path) -> None:
    """A shared tablet; a user who comes before the device; a server that makes a device up for each call."""
    rows = [
        amplitude(1, None, "tablet"),
        amplitude(2, "ann", "tablet"),
        amplitude(3, "bob", "tablet"),
        amplitude(4, "cid", "phone"),
        amplitude(5, None, "phone"),
        *(amplitude(10 + number, "ann", f"call-{number}") for number in range(5)),
    ]
    room = sent(tmp_path, "amplitude", rows)
    assert set(people(room)) == {("ann", "tablet"), ("bob",), ("cid", "phone")}
    assert room.count() == len(rows) + 2


def test_numeric_user_ids_in_a_devices_place_weld_nobody(tmp_path: Path) -> None:
    """A tracker that writes a user's id where the device's belongs."""
    rows = [amplitude(1, "324172", "324172"), amplitude(2, "346298", "324172"), amplitude(3, "346298", "d")]
    assert set(people(sent(tmp_path, "amplitude", rows))) == {("324172",), ("346298",)}


def test_what_was_said_of_a_device_counts_for_the_person_it_became(tmp_path: Path) -> None:
    """By the time of each saying, whichever id it names."""
    rows = [
        segment(1, "identify", None, "a-1", traits={"plan": "free", "n": 1}),
        segment(2, "track", None, "a-1"),
        segment(3, "identify", "u-1", "a-1", traits={"plan": "pro"}),
    ]
    assert people(sent(tmp_path, "segment", rows)) == {("a-1", "u-1"): {"plan": "pro", "n": 1}}


def test_amplitudes_merged_ids_are_followed(tmp_path: Path) -> None:
    """An id that was merged into another joins the device of the one to the user of the other, from link to link."""
    merged = [{"amplitude_id": one, "merged_amplitude_id": one + 1} for one in (1, 2)]
    rows = [amplitude(1, None, "d-1", amplitude_id=1), amplitude(2, "ann", "d-2", amplitude_id=3)]
    room = sent(tmp_path, "amplitude", rows, merged, settings={"merged_ids": "yes"})
    assert set(people(room)) == {("ann", "d-1")}
    assert room.warnings() == []


def test_amplitudes_groups_have_their_final_properties_and_no_event_of_their_own(tmp_path: Path) -> None:
    """One event for each group, also for one that is only named."""
    rows = [
        amplitude(1, "ann", "d", "$groupidentify", group_properties={"company": {"acme": {"plan": "free", "n": 1}}}),
        amplitude(2, "ann", "d", "$groupidentify", group_properties={"company": {"acme": {"plan": "pro"}}}),
        amplitude(3, "ann", "d", groups={"company": ["acme", "zoo"], "team": "red"}),
    ]
    room = sent(tmp_path, "amplitude", rows)
    assert groups(room) == {("company", "acme"): {"plan": "pro", "n": 1}, ("team", "red"): {}}


def test_segments_calls_make_persons_traits_and_groups(tmp_path: Path) -> None:
    """identify, alias and group calls; an anonymous id that survives a logout stays the first user's."""
    rows = [
        segment(1, "track", None, "a-1"),
        segment(2, "identify", "u-1", "a-1", traits={"plan": "free"}),
        segment(3, "identify", "u-1", "a-1", traits={"plan": "pro", "n": 1}),
        segment(4, "identify", "u-2", "a-1", traits={"plan": "team"}),
        segment(5, "alias", "u-3", None, previousId="u-3@example.com"),
        segment(6, "track", "u-3@example.com", None),
        segment(7, "group", "u-1", "a-1", groupId="acme", traits={"name": "Acme"}),
    ]
    room = sent(tmp_path, "segment", rows)
    assert people(room) == {
        ("a-1", "u-1"): {"plan": "pro", "n": 1}, ("u-2",): {"plan": "team"}, ("u-3", "u-3@example.com"): {},
    }  # fmt: skip
    assert groups(room) == {("company", "acme"): {"name": "Acme"}}


# -- profiles and groups -----------------------------------------------------------------------------------


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
    plan, place = workflow.load_plan(tmp_path / "plan")
    profiles = plan.people.profiles
    assert (profiles.identified_ids, profiles.anonymous_ids) == (2, 2)
    assert (profiles.identified_events, profiles.anonymous_events) == (2, 2)
    assert place.identified.name in plan.files
    assert [gate.name for gate in plan.gates] == ["persons"]


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
    assert workflow.load_plan(tmp_path / "two" / "plan")[0].events.phases["identities"] == 1
    assert set(people(room)) == {("ann", "d-1", "d-2")}
    assert room.warnings() == []


# -- any order -----------------------------------------------------------------------------------------------

IDS = st.sampled_from(["a", "b", "c"])
USERS = st.sampled_from(["u", "v", None])
TRAITS = st.dictionaries(st.sampled_from(["plan", "n"]), st.integers(0, 3), max_size=2)
CALLS = st.one_of(
    st.builds(lambda at, user, one: segment(at, "track", user, one), st.integers(0, 9), USERS, IDS),
    st.builds(
        lambda at, user, one, traits: segment(at, "identify", user, one, traits=traits),
        st.integers(0, 9), USERS, IDS, TRAITS,
    ),
    st.builds(
        lambda at, user, key, traits: segment(at, "group", user, "a", groupId=key, traits=traits),
        st.integers(0, 9), USERS, st.sampled_from(["acme", "zoo"]), TRAITS,
    ),
    st.builds(lambda at, one: segment(at, "alias", "u", None, previousId=one), st.integers(0, 9), IDS),
)  # fmt: skip


def came_to(
    calls: Rows,
    chance: random.Random | None,
    promote: str,
    mapping: str = "segment",
    room: Room | None = None,
    **asked: Any,
) -> object:
    """Everything that stands at the service after these calls, in any order, files and batches; else in theirs."""
    with TemporaryDirectory() as folder:
        rows = list(calls)
        cut, batch = len(rows), 5_000
        if chance is not None:
            chance.shuffle(rows)
            cut, batch = chance.randint(0, len(rows)), chance.randint(1, 5)
        room = room or fresh(promote_properties=promote)
        planned(Path(folder), mapping, rows[:cut], rows[cut:], max_batch_events=batch, **asked)
        pace = ONE_AT_A_TIME if chance is None else None
        outcome = run(Path(folder) / "plan", room.url, key=room.key(), pace=pace)
        assert outcome.balanced, outcome
        ids = sorted((one.distinct_ids, sorted(one.properties.items())) for one in room.persons())
        return ids, sorted((*key, sorted(held.items())) for key, held in groups(room).items()), room.warnings()


@settings(max_examples=12, deadline=None)
@given(st.lists(CALLS, min_size=1, max_size=10, unique_by=lambda one: one["messageId"]), st.randoms())
@pytest.mark.parametrize("promote", ["off", "on"])
def test_any_order_of_rows_files_and_batches_gives_the_same_people(
    promote: str, calls: Rows, chance: random.Random
) -> None:
    """Persons, their ids and properties, groups: also where the service itself promotes properties of events."""
    first = came_to(calls, None, promote)
    assert came_to(calls, chance, promote) == first
    assert first[2] == []  # type: ignore[index]


# -- what the service promotes by itself -----------------------------------------------------------------------

VALUES = st.sampled_from(["x", "y", 1, 1.5, None])
PROMOTED = st.dictionaries(
    st.sampled_from(["$browser", "$os", "$os_name", "$current_url", "utm_source", "gclid"]), VALUES, max_size=4
)
SAID = {
    "$set": st.dictionaries(st.sampled_from(["$browser", "$os", "$initial_browser"]), st.sampled_from("pq")),
    "$set_once": st.dictionaries(st.sampled_from(["$initial_os", "$initial_browser"]), st.sampled_from("rs")),
    "$process_person_profile": st.booleans(),
}


def tracked(
    at: int, user: str | None, one: str, name: str, promoted: dict[str, Any], said: dict[str, Any]
) -> dict[str, Any]:
    """An event of the mapping `generic` that carries such properties; some have one uuid, and so only one is sent."""
    when = datetime.fromtimestamp(JANUARY + at, UTC).isoformat()
    ids = {"distinct_id": user or "", "anonymous_id": one, "uuid": str(UUID(int=at % 23, version=4))}
    return {"event": name, "timestamp": when} | ids | promoted | said


EVENTS = st.builds(
    tracked, st.integers(0, 30), USERS, IDS, st.sampled_from(["Seen", "$pageview", "$$heatmap"]), PROMOTED,
    st.fixed_dictionaries({}, optional=SAID),
)  # fmt: skip
PROMOTING_CALLS = st.one_of(
    st.builds(
        lambda at, user, one, promoted: segment(at, "track", user, one, properties=promoted),
        st.integers(0, 30), USERS, IDS, PROMOTED,
    ),
    st.builds(
        lambda at, user, one, traits: segment(at, "identify", user, one, traits=traits),
        st.integers(0, 30), USERS, IDS, st.one_of(TRAITS, PROMOTED),
    ),
    CALLS,
)  # fmt: skip
GENERIC = {"settings": COLUMNS | {"anonymous_id": "anonymous_id"}}


def lived(**switches: Any) -> Room:
    """A project in which one of the persons is known already."""
    room = fresh(promote_properties="on", **switches)
    send(room, event("u", "$set", 10, _set={"$browser": "live", "$initial_browser": "live", "plan": "live"}))
    return room


def in_time(rows: Rows, key: str) -> Rows:
    return sorted(rows, key=lambda one: one[key])


@settings(max_examples=3, deadline=None)
@given(st.lists(EVENTS, min_size=12, max_size=30, unique_by=lambda one: one["timestamp"]), st.randoms(), st.booleans())
@pytest.mark.parametrize("persons", ["all", "identified"])
def test_promoted_properties_come_to_what_events_in_order_make_of_them(
    persons: str, rows: Rows, chance: random.Random, known: bool
) -> None:
    """In any order, files and batches, several requests at a time: as if each event had arrived in its time."""
    asked = GENERIC | {"persons": persons}
    room = lived if known else lambda: fresh(promote_properties="on")
    ordered = came_to(in_time(rows, "timestamp"), None, "on", "generic", room(), **asked)
    found = came_to(rows, chance, "on", "generic", room(), promoted_properties="final", **asked)
    assert found == ordered


@settings(max_examples=3, deadline=None)
@given(
    st.lists(PROMOTING_CALLS, min_size=12, max_size=30, unique_by=lambda one: one["timestamp"]), st.randoms(),
    st.sampled_from(["fill-only", "overwrite", "prefix=was_"]), st.booleans(),
)  # fmt: skip
def test_they_do_so_beside_what_rows_say_of_persons_and_groups(
    calls: Rows, chance: random.Random, policy: str, known: bool
) -> None:
    """Under every policy, and where a profile is live."""
    room = lived if known else lambda: fresh(promote_properties="on")
    ordered = came_to(in_time(calls, "timestamp"), None, "on", room=room(), profile_policy=policy)
    asked = {"profile_policy": policy, "promoted_properties": "final"}
    assert came_to(calls, chance, "on", room=room(), **asked) == ordered


@settings(max_examples=3, deadline=None)
@given(st.lists(EVENTS, min_size=12, max_size=30), st.randoms())
def test_events_of_one_instant_and_a_service_that_skips_changes_do_no_harm(rows: Rows, chance: random.Random) -> None:
    """The service may leave out changes that are worth little to it; the same persons come of any order."""
    switches = {"promote_properties": "on", "promoted_changes": "skipped"}
    found = [
        came_to(rows, chance, "on", "generic", fresh(**switches), promoted_properties="final", **GENERIC)
        for _ in range(2)
    ]
    assert found[0] == found[1]


VISITS = [
    tracked(3, "u", "a", "Seen", {"$browser": "Third"}, {}),
    tracked(1, None, "a", "Seen", {"$browser": "First", "utm_source": "ad"}, {}),
    tracked(2, "u", "a", "Seen", {"$browser": "Second", "$os_name": "Linux"}, {}),
]


def test_a_live_profile_keeps_its_first_values_and_gets_the_last_of_the_history(tmp_path: Path) -> None:
    """As it would have if the events had come in their order; what it never had is filled with the first."""
    room = lived()
    sent(tmp_path, "generic", VISITS, room=room, promoted_properties="final", **GENERIC)
    assert people(room) == {
        ("a", "u"): {
            "$browser": "Third", "$os": "Linux", "utm_source": "ad", "plan": "live",
            "$initial_browser": "live", "$initial_os": "Linux", "$initial_utm_source": "ad",
        }
    }  # fmt: skip


def test_a_copy_that_is_not_sent_promotes_nothing(tmp_path: Path) -> None:
    """Of rows with one uuid only one is sent."""
    twice = [tracked(1, "u", "a", "Seen", {"$browser": one}, {}) for one in ("x", "y")]
    room = fresh(promote_properties="on")
    sent(tmp_path, "generic", twice, room=room, promoted_properties="final", **GENERIC)
    [(landed,)] = room.select("select properties from events where event = 'Seen'")
    one = json.loads(landed)["$browser"]
    assert people(room) == {("u",): {"$browser": one, "$initial_browser": one}}


def test_what_is_set_before_events_waits_for_merges_and_is_told_apart_from_groups(tmp_path: Path) -> None:
    """It goes with the phase groups, whose counts and report say so."""
    plan = planned(tmp_path, "generic", VISITS, promoted_properties="final", **GENERIC)
    assert dict(plan.events.phases) == {"identities": 1, "groups": 1, "events": 3, "persons": 1}
    assert (plan.people.groups.groups, plan.people.initials) == (0, 1)
    assert "1 initial profile and 1 profile" in plan.sentence
    with pytest.raises(UnsafePlan, match="groups needs the phase identities"):
        pipeline.apply_plan(tmp_path / "plan", fresh().url, project_key="phc_test_1", phases=["groups"])
    report = (tmp_path / "plan" / "report.html").read_text("utf-8")
    assert "first values of persons" in report
    assert "--promoted-properties final" in report
