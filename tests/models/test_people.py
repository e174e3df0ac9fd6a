"""Plans of random exports make at the target the persons, profiles and groups that the model of people knows."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import pipeline
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from tests.models.exports_of_people import (
    PROFILE,
    Place,
    Row,
    amplitude,
    braze,
    call,
    export,
    generic,
    heap,
    iso,
    kissmetrics,
    migration,
    mixpanel,
    openpanel,
    panel_alias,
    posthog,
)
from tests.models.people import TOOLS, People, Policies, people, values
from tests.models.target import person_less_per_event
from tests.support.deliveries import run
from tests.support.people import AS_OF, planned, write
from tests.support.rehearsal import Room, fresh

SEEN_NAMES = {*PROFILE, "utm_source", "$initial_referrer", "$initial_utm_source"}
SETTINGS = {"event": "event", "distinct_id": "user", "anonymous_id": "device", "timestamp": "at", "uuid": "id"}
POLICIES = ("first", "latest", "none")
ASKED: dict[str, Row] = {
    "generic": {"settings": SETTINGS, "allow_key_conflicts": True}, "mixpanel": {"timezone": "UTC"},
    "segment": {"allow_key_conflicts": True},
}  # fmt: skip


def land(tool: str, rows: Sequence[Place], room: Room, pieces: int = 1, **asked: Any) -> Plan:
    """Plan these rows, cut into files, and send the plan."""
    with TemporaryDirectory() as place:
        folder = Path(place, "export")
        folder.mkdir()
        for number, (name, row) in enumerate(rows):
            piece = f"-{number % pieces}" if tool != "heap" else ""
            with (folder / f"{name}{piece}.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
        if own := asked.pop("own", None):
            asked["identities"] = Path(place, "pairs.csv")
            asked["identities"].write_text("anonymous_id,user_id\n" + "".join(f"{a},{b}\n" for a, b in own.items()))
        asked = {"joined_users": "first"} | ASKED.get(tool, {}) | asked
        options = PlanOptions(mapping=tool, as_of=AS_OF, workers=0, max_rejects="100%", **asked)
        plan = pipeline.plan_export(folder, Path(place, "plan"), options)
        if plan.events.made:
            assert plan.ready, [(gate.name, gate.detail) for gate in plan.gates]
            outcome = run(Path(place, "plan"), room.url, key=room.key())
            assert outcome.balanced, outcome
        return plan


def tiles(plan: Plan, room: Room) -> None:
    """The report says how many events, persons and merged identities there will be; groups' own persons apart."""
    some = [one.distinct_ids for one in room.persons() if not one.distinct_ids[0].startswith("$")]
    there = room.count(), len(some), sum(len(ids) - 1 for ids in some)
    said = plan.events.made, plan.people.profiles.persons(plan.options.persons), plan.events.phases["identities"]
    assert said == there, ("events, persons, merged identities", said, there)


def found(room: Room, right: People) -> People:
    """What stands at the target, of the ids that the model has and of the properties that tests use."""
    ids = frozenset[str]().union(*right.profiles)
    names = SEEN_NAMES.union(*right.profiles.values())
    profiles = {
        frozenset(one.distinct_ids) & ids: values({name: one.properties.get(name) for name in names})
        for one in room.persons()
        if ids & {*one.distinct_ids}
    }
    return People(profiles, {(one.type, one.key): one.properties for one in room.groups()})


def compare(tool: str, rows: Sequence[Place], pieces: int = 1, final: bool = False, **asked: Any) -> None:
    """Hold what a plan of these rows makes at the target against the model. Raises AssertionError with what differs."""
    policies = Policies(asked.get("shared_devices", "first"), asked.get("joined_users", "first"))
    right = people(tool, [row for _, row in rows], asked.get("own"), ("utm_source",) if final else (), policies)
    room = fresh(promote_properties="on" if final else "off")
    plan = land(tool, rows, room, pieces, **(asked | ({"promoted_properties": "final"} if final else {})))
    tiles(plan, room)
    assert bool(plan.people.identities.joined_users) == right.joined_users, "users whom records join"
    there, lines = found(room, right), [tool]
    pairs: list[tuple[dict[Any, Row], dict[Any, Row]]] = [(there[0], right[0]), (there[1], right[1])]
    for one, two in pairs:
        lines += [f"found: {' '.join(sorted(key))} {one[key]}" for key in one if two.get(key) != one[key]]
        lines += [f"right: {' '.join(sorted(key))} {two[key]}" for key in two if one.get(key) != two[key]]
    assert there[:2] == right[:2], "\n".join([*lines, *(json.dumps(row) for _, row in rows)])


def check(seed: int) -> None:
    """One random export of one of the tools."""
    chance, tool = random.Random(seed), list(TOOLS)[seed % len(TOOLS)]
    rows, pieces = export(tool, chance), chance.randint(1, 3)
    own = {"own": {"d0": "u3", "d1": "u3"}} if tool == "generic" and seed % 5 == 0 else {}
    final = tool in ("amplitude", "posthog") and seed // len(TOOLS) % 2 == 1
    named = list(itertools.product(POLICIES, POLICIES))[seed % 9]
    compare(tool, rows, pieces, final, shared_devices=named[0], joined_users=named[1], **own)


@pytest.mark.parametrize("seed", range(12))
def test_exports(seed: int) -> None:
    """Who is one person, with which profile and in which groups, is what the model says."""
    check(seed)


def stranger(kind: str, **more: Any) -> list[Place]:
    """Calls on a device that a record joins to `u2`, which one more call, not an event, names as a user's."""
    return [
        call(1, None, "d1"), call(2, "d1", None, "alias", previousId="u2"), call(3, "u0", "d1"),
        call(4, "u2", None, kind, traits={}, **more),
    ]  # fmt: skip


def calls() -> list[Place]:
    return [call(1, None, "z"), call(2, "u", "a"), call(3, "a", None, "alias", previousId="z")]


SHARING = [("u1", "d0"), ("u1", "d4"), ("u0", "d3"), ("u2", "d3")]
SHARED = [posthog(1, "a"), posthog(2, "b"), posthog(3, "c")]
CASES: dict[str, tuple[str, list[Place]]] = {
    # An id that only comes with its user is the bridge to what a record joins to it.
    "a bridge of Segment": ("segment", calls()),
    "superseded, of the same user": ("segment", [
        call(1, None, "d"), call(2, "u1", "e"), call(2, "u1", "d", receivedAt=iso(0)),
    ]),
    "superseded by a later": ("segment", [
        call(1, None, "d"), call(2, "u1", "d"), call(2, "u2", "d", receivedAt=iso(9)),
    ]),
    "a bridge of RudderStack": ("rudderstack", calls()),
    "a bridge of Braze": ("braze", [braze(1, None, "b1"), braze(2, "u", "b2"), braze(3, None, "b1", "b2")]),
    "a bridge of Mixpanel": ("mixpanel", [
        mixpanel(1, distinct_id="z"), mixpanel(2, distinct_id="a", _user_id="u"),
        mixpanel(3, "$merge", _distinct_ids=["a", "z"]),
    ]),
    "a bridge of OpenPanel": ("openpanel", [openpanel(1, "z", "z"), openpanel(2, "u", "a"), panel_alias(3, "a", "z")]),
    # An id that two records name.
    "two records of posthog": ("posthog", [
        *SHARED, posthog(4, "b", "$create_alias", alias="a"), posthog(5, "c", "$merge_dangerously", alias="a"),
    ]),
    "two records of kissmetrics": ("kissmetrics", [
        *(kissmetrics(at, id_, _n="Seen") for at, id_ in enumerate("abc", 1)),
        kissmetrics(4, "a", _p2="b"), kissmetrics(5, "a", _p2="c"),
    ]),
    "two records of heap": ("heap", [
        *(heap(at, str(at)) for at in (1, 2, 3)), migration(4, "2", "1"), migration(5, "3", "1"),
    ]),
    "two records of segment": ("segment", [
        call(1, "b", None), call(2, "c", None),
        call(3, "b", None, "alias", previousId="a"), call(4, "c", None, "alias", previousId="a"),
    ]),
    "two records of openpanel": ("openpanel", [
        openpanel(1, "b", "b"), openpanel(2, "c", "c"), panel_alias(3, "b", "a"), panel_alias(4, "c", "a"),
    ]),
    "a row joins no two users, of devices that a record joined": ("segment", [
        call(1, None, "a"), call(2, None, "b"), call(3, "a", None, "alias", previousId="b"),
        call(4, "u1", "a"), call(5, "u2", "b"),
    ]),
    # A row joins no two users, and a row without an event names a user, too.
    "a user whom only a profile names": ("segment", stranger("identify")),
    "a user whom only a profile of RudderStack names": ("rudderstack", stranger("identify")),
    "a user whom only a group call names": ("segment", stranger("group", groupId="acme")),
    "a user whom only a superseded profile names": ("segment", [
        *stranger("identify"), call(4, "u1", None, "identify", traits={}, receivedAt=iso(9)),
    ]),
    "refused by the service itself": ("posthog", [
        *SHARED, posthog(4, "b", "$identify", _anon_distinct_id="a"), posthog(5, "c", "$create_alias", alias="b"),
    ]),
    "an alias sets": ("posthog", [*SHARED, posthog(4, "b", "$create_alias", alias="a", _set={"plan": 1})]),
    "a dangerous merge sets": ("posthog", [
        *SHARED, posthog(4, "b", "$merge_dangerously", alias="a", _set={"plan": 1}),
    ]),
    # The service takes a stored null for absent.
    "a null, once": ("posthog", [posthog(1, "a", _set_once={"plan": None}), posthog(2, "a", _set_once={"plan": 1})]),
    "a null, then once": ("posthog", [
        posthog(1, "a", _set={"plan": None}), posthog(2, "a", _set_once={"plan": 1}),
    ]),
    "a first referrer of null": ("amplitude", [
        amplitude(at, "u", None, user_properties={"initial_referrer": one}) for at, one in enumerate([None, "x"], 1)
    ]),
    "a null is no event": ("kissmetrics", [kissmetrics(1, "a", _n=None, plan=1)]),
    "an exception sets": ("posthog", [posthog(1, "a"), posthog(2, "a", "$exception", _set={"plan": 1})]),
    "an exception unsets": ("posthog", [
        posthog(1, "a", _set={"plan": 1}), posthog(2, "a", "$exception", _unset=["plan"]),
    ]),
    "a number as the key of a group": ("posthog", [
        posthog(at, "a", "$groupidentify", _group_type="company", _group_key=key, _group_set={"seats": at})
        for at, key in enumerate([7, 7.0], 1)
    ]),
}  # fmt: skip
PROMOTED: dict[str, tuple[str, list[Place]]] = {
    "amplitude": ("amplitude", [
        amplitude(1, "u", None, event_properties={"utm_source": "mail"}, user_properties={"initial_utm_source": "ad"}),
    ]),
    "posthog": ("posthog", [posthog(1, "a", utm_source="mail", _set_once={"$initial_utm_source": "ad"})]),
    "later": ("posthog", [posthog(1, "a", utm_source="m"), posthog(2, "a", _set_once={"$initial_utm_source": "ad"})]),
    "an old set": ("posthog", [posthog(1, "a", _set={"utm_source": "old"}), posthog(2, "a", utm_source="mail")]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    compare(*CASES[name])


def test_the_last_user_of_a_shared_device_keeps_it_although_records_join_others() -> None:
    """Two users of a device whom only that device makes one person are not one person before it is decided."""
    rows = [
        *(mixpanel(at, distinct_id=device, _user_id=user) for at, (user, device) in enumerate(SHARING, 1)),
        mixpanel(5, "$create_alias", distinct_id="d0", alias="u0"),
        mixpanel(6, "$create_alias", distinct_id="d4", alias="d3"),
    ]
    compare("mixpanel", rows, shared_devices="latest", joined_users="latest")


def test_files() -> None:
    """A profile does not depend on how its rows are cut into files."""
    once = [posthog(at, "a", _set_once={"plan": plan}) for at, plan in [(1, "x"), (3, "x"), (4, "y"), (5, "x")]]
    rows = [once[0], posthog(2, "a", _unset=["plan"]), once[1], once[2], once[3]]
    compare("posthog", rows, pieces=2)


@pytest.mark.parametrize("name", PROMOTED)
def test_promoted(name: str) -> None:
    """The tool's own first touch wins, and explicit values have their time."""
    compare(*PROMOTED[name], final=True, profile_policy="overwrite")


@pytest.mark.parametrize("name", ["system", "NULL", "Nan", "anonymous-user", "u7 ", "é" * 120])
def test_the_other_endpoint(name: str, tmp_path: Path) -> None:
    """A plan for the per-event endpoint plans no merge that cannot happen there, nor what is dropped there."""
    rows = [generic(1, None, "d")[1], generic(2, name, "d")[1], generic(3, name.strip(), None)[1]]
    options = PlanOptions(mapping="generic", dialect="posthog", as_of=AS_OF, workers=0, settings=SETTINGS)
    plan = pipeline.plan_export(write(tmp_path / "export", rows), tmp_path / "plan", options)
    if not plan.ready:
        return  # that it stops is right as well
    room = fresh(per_event="on")
    outcome = run(tmp_path / "plan", room.url, key=room.key())
    assert outcome.counts.refused == 0
    assert plan.events.phases["identities"] == 0 or not person_less_per_event(name)
    assert name == name.strip() or plan.warnings, "two ids become one person without a word"


def test_groups_of_anonymous_events(tmp_path: Path) -> None:
    """Groups that are lost with `--persons identified` are counted."""
    rows = [call(1, None, "d", context={"groupId": "acme"})[1]]
    options = PlanOptions(mapping="segment", persons="identified", as_of=AS_OF, workers=0)
    plan = pipeline.plan_export(write(tmp_path / "export", rows), tmp_path / "plan", options)
    assert any("group" in code for code in [*plan.warnings, *plan.skips, *(gate.name for gate in plan.gates)])


def test_the_group_call_of_a_person_to_forget(tmp_path: Path) -> None:
    """Whoever is among --exclude-ids makes no group either."""
    rows = [call(1, "u", None)[1], call(2, "u", None, "group", groupId="acme", traits={"seats": 1})[1]]
    (tmp_path / "gone.txt").write_text("u\n")
    plan = planned(tmp_path, "segment", rows, exclude_ids=tmp_path / "gone.txt")
    assert (plan.events.made, plan.skips) == (0, {"excluded_id": 2})
