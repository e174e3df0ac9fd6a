"""Profiles, persons and groups that tools export next to their events: who is who at the local service."""

from __future__ import annotations

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.people import amplitude, mixpanel, people, planned, segment, sent


def profile(distinct_id: Any, **more: Any) -> dict[str, Any]:
    """A profile of the Engage API."""
    return {"$distinct_id": distinct_id, "$properties": more}


def test_the_profile_of_a_cluster_is_that_of_the_user_whose_events_have_its_label(tmp_path: Path) -> None:
    """No event is sent under the label, so nothing is merged and no second person is made; the profile is the user's.

    If two users share a label, it is the first one's; if events have only the label, the merged person's.
    """
    events = [
        mixpanel(1, "label", _user_id="324172"), mixpanel(2, "tablet", _user_id="bob"),
        mixpanel(3, "tablet", _user_id="ann"), mixpanel(4, "phone"), mixpanel(5, "phone", _user_id="eve"),
    ]  # fmt: skip
    page = {"page": 0, "results": [profile("label", plan="pro"), profile("tablet", n=1), profile("phone", n=2)]}
    room = sent(tmp_path, "mixpanel", events, [page, profile("later", n=3)])
    assert people(room) == {
        ("324172",): {"plan": "pro"}, ("bob",): {"n": 1}, ("ann",): {},
        ("eve", "phone"): {"n": 2}, ("later",): {"n": 3},
    }  # fmt: skip


def test_a_profile_without_an_id_costs_no_other_of_its_page(tmp_path: Path) -> None:
    """The warning has its id; a page of thousands stays."""
    long = "x" * 201
    page = {"results": [profile("null", n=0), profile("u-1", n=1), profile(long, n=2), profile("u-2", n=3)]}
    plan = planned(tmp_path / "plan", "mixpanel", [page])
    assert (plan.rows.rejected, plan.events.phases["persons"]) == (0, 2)
    assert plan.warnings["left_out_profile"] == 2
    assert "null" in plan.examples["left_out_profile"].detail


def own(at: int, distinct_id: str, name: str = "Seen", **properties: Any) -> dict[str, Any]:
    """The row of an event; in names of properties `_x` means `$x`."""
    named = {f"${key[1:]}" if key.startswith("_") else key: value for key, value in properties.items()}
    uuid = f"018a4b2c-0000-7000-8000-{at:012d}"
    time = f"2023-01-02T03:04:{at:02d}Z"
    return {"uuid": uuid, "event": name, "distinct_id": distinct_id, "timestamp": time, "properties": named}


def person(distinct_id: str, number: int, version: int = 0, id_version: int = 0, **properties: Any) -> dict[str, Any]:
    """A row of the persons export."""
    return {
        "team_id": 1, "distinct_id": distinct_id, "person_id": f"0187a000-0000-4000-8000-{number:012d}",
        "properties": properties, "person_distinct_id_version": id_version, "person_version": version,
        "created_at": "2023-01-01T00:00:00Z", "is_deleted": False,
    }  # fmt: skip


def test_ids_with_one_person_are_one_person_and_its_number_is_not_an_id(tmp_path: Path) -> None:
    """Merges that are only in the persons export are made, of two users too; a person with one id needs none."""
    events = [
        own(1, "a-1"), own(2, "u-1", "$identify", _anon_distinct_id="a-1"),
        own(3, "a-2"), own(4, "u-2", "$identify", _anon_distinct_id="a-2"), own(5, "crm-1"),
    ]  # fmt: skip
    persons = [person("u-1", 1, plan="pro"), person("u-2", 1, plan="pro"), person("crm-1", 1), person("quiet", 2, n=1)]
    assert people(sent(tmp_path, "posthog", events, persons)) == {
        ("a-1", "a-2", "crm-1", "u-1", "u-2"): {"plan": "pro"}, ("quiet",): {"n": 1},
    }  # fmt: skip


ROWS = [
    *(person("u-1", 1, version, n=version) for version in (1, 3, 2)),
    # An id that belonged to another person before, who had more versions than the one that has it now.
    person("kiosk", 2, 50, 9, n=50),
    person("kiosk", 1, 4, 10, n=4),
    person("u-2", 2, 51, n=51),
]


@settings(max_examples=4)
@given(st.randoms(use_true_random=False))
def test_the_latest_version_of_a_person_and_of_an_id_counts_in_any_order(shuffle: random.Random) -> None:
    """Exports append a row for each change; neither their order nor how they are split into files matters."""
    rows = shuffle.sample(ROWS, len(ROWS))
    cut = shuffle.randrange(len(rows) + 1)
    with TemporaryDirectory() as folder:
        room = sent(Path(folder), "posthog", rows[:cut], [own(1, "u-1"), own(2, "kiosk")], rows[cut:])
    found = people(room)
    assert set(found) == {("kiosk", "u-1"), ("u-2",)}
    assert found["kiosk", "u-1"]["n"] == 4
    assert found["u-2",]["n"] == 51


def test_a_deleted_person_is_counted_and_not_brought_back(tmp_path: Path) -> None:
    """Its row has nothing to set, and is reported under a code of its own."""
    gone = person("gone", 9, 101, 101) | {"is_deleted": True}
    plan = planned(tmp_path, "posthog", [own(1, "u-1")], [gone, person("u-1", 1, n=1)])
    assert (plan.skips, plan.events.phases["persons"]) == ({"deleted_person": 1}, 1)


def in_groups(at: int, **groups: Any) -> dict[str, Any]:
    """An event of these groups, with the numbers that the source's project gave to types."""
    numbers = {f"_group_{number}": key for number, key in enumerate(groups.values())}
    return own(at, "u-1", _groups=groups, **dict(list(numbers.items())[:5]))


def test_types_that_were_not_chosen_are_cut_from_the_events_and_reported(tmp_path: Path) -> None:
    """The service would number them permanently, and silently ignore a sixth: the plan's choice applies, in its order,
    the keys of the others stay as properties, and no event claims a group by the old project's numbers."""
    six = {f"t{number}": f"k{number}" for number in range(6)}
    rows = [in_groups(1, **six), in_groups(2, t3="k3"), in_groups(3, t0=7, t5="x")]
    room = sent(tmp_path, "posthog", rows, group_types=["t5", "t0"])
    assert [(one.index, one.type, one.key) for one in room.groups()] == [
        (0, "t5", "k5"), (0, "t5", "x"), (1, "t0", "7"), (1, "t0", "k0"),
    ]  # fmt: skip
    found = room.select("select properties from events where event = 'Seen' order by timestamp")
    landed = [json.loads(text) for (text,) in found]
    assert [one.get("$groups") for one in landed] == [{"t0": "k0", "t5": "k5"}, None, {"t0": 7, "t5": "x"}]
    assert [one.get("t3_ids") for one in landed] == ["k3", "k3", None]
    assert [one.get("posthog_$group_0") for one in landed] == ["k0", "k3", 7]
    assert not any(f"$group_{number}" in one for one in landed for number in range(5))
    plan = planned(tmp_path / "again", "posthog", rows, group_types=["t5", "t0"])
    assert plan.warnings["left_out_group"] == 2
    assert plan.examples["left_out_group"].detail == "of no type that was chosen: t1, t2, t3, t4"


def test_ordinary_rows_say_what_their_groups_are(tmp_path: Path) -> None:
    """The latest row with a property of a group decides, whatever its event; a group that cannot be sent loses no
    event, and neither does an object of another form."""
    told: list[tuple[int, str, Any]] = [
        (1, "Played", {"acme": {"plan": "free", "seats": 1}}),
        (3, "Played", {"acme": {"plan": "pro"}, "x" * 201: {"plan": "pro"}}),
        (2, "$groupidentify", {"acme": {"plan": "none", "name": "Acme"}}),
        (4, "Stopped", "acme"),
    ]
    rows = [amplitude(at, None, "d-1", name, group_properties={"company": group}) for at, name, group in told]
    room = sent(tmp_path, "amplitude", rows)
    assert room.select("SELECT event FROM events WHERE event NOT LIKE '$%' ORDER BY timestamp") == [
        ("Played",), ("Played",), ("Stopped",)
    ]  # fmt: skip
    (acme,) = room.groups()
    assert (acme.key, acme.properties) == ("acme", {"plan": "pro", "seats": 1, "name": "Acme"})
    plan = planned(tmp_path / "again", "amplitude", rows)
    assert (plan.rows.mapped, plan.rows.rejected, plan.warnings["bad_value"]) == (4, 0, 2)


@pytest.mark.parametrize("tool", ["segment", "rudderstack"])
def test_a_group_call_says_that_its_two_ids_are_one_person(tmp_path: Path, tool: str) -> None:
    """Like any other call with both ids; what it says about the group is not lost if its member's id is too long."""
    long = "x" * 201
    rows = [
        segment(1, "track", None, "a-1"),
        segment(2, "track", "u-1", None),
        segment(3, "group", "u-1", "a-1", groupId="acme", traits={"name": "Acme"}),
        segment(4, "group", long, long + "y", groupId="acme", traits={"seats": 4}),
    ]
    room = sent(tmp_path, tool, rows)
    assert set(people(room)) == {("a-1", "u-1")}
    assert [(one.key, one.properties) for one in room.groups()] == [("acme", {"name": "Acme", "seats": 4})]
    assert room.warnings() == []
