"""Plans of random exports give at the target the persons, profiles and groups of the model of people."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import pipeline
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from tests.models.people import TOOLS, People, people, values
from tests.models.target import Target, person_less_per_event
from tests.support.deliveries import run
from tests.support.people import AS_OF, JANUARY, planned, write
from tests.support.rehearsal import Room, fresh

Row = dict[str, Any]
Place = tuple[str, Row]
"""The name of a file, and a row in it."""
DEVICES, USERS = ["d0", "d1", "d2", "d3", "d4"], ["u0", "u1", "u2", "u3"]
PROFILE = ("plan", "seats", "initial_referrer", "initial_utm_source")
SEEN_NAMES = {*PROFILE, "utm_source", "$initial_referrer", "$initial_utm_source"}
SETTINGS = {"event": "event", "distinct_id": "user", "anonymous_id": "device", "timestamp": "at", "uuid": "id"}
ASKED: dict[str, Row] = {
    "generic": {"settings": SETTINGS, "allow_key_conflicts": True}, "mixpanel": {"timezone": "UTC"},
    "segment": {"allow_key_conflicts": True},
}  # fmt: skip


def iso(at: int) -> str:
    return datetime.fromtimestamp(JANUARY + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp(at: int) -> str:
    return iso(at)[:-1].replace("T", " ")


def dollars(given: Row) -> Row:
    """In these names `_x` means `$x`."""
    return {f"${name[1:]}" if name[0] == "_" else name: value for name, value in given.items()}


def generic(at: int, user: str | None, device: str | None, **more: Any) -> Place:
    return "events", {"event": "Seen", "user": user, "device": device, "at": iso(at), "id": f"e{at}"} | more


def amplitude(at: int, user: str | None, device: str | None, **more: Any) -> Place:
    ids = {"user_id": user, "device_id": device, "$insert_id": f"i{at}"}
    return "events", {"event_type": "Seen", "event_time": stamp(at), "user_properties": {}} | ids | more


def call(at: int, user: str | None, anonymous: str | None, kind: str = "track", **more: Any) -> Place:
    """A call of Segment's model."""
    row = {"type": kind, "messageId": f"m{at}", "timestamp": iso(at), "receivedAt": iso(at + 1), "userId": user}
    return "calls", row | ({"anonymousId": anonymous} if kind != "alias" else {}) | {"event": "Seen"} | more


def braze(at: int, user: str | None, own: str, orphaned_by: str = "") -> Place:
    kind = "users.UserOrphan" if orphaned_by else "users.behaviors.CustomEvent"
    given = {"orphaned_by_id": orphaned_by} if orphaned_by else {"name": "Seen", "custom_properties": {}}
    row = {"event_type": kind, "id": f"e{at}", "time": JANUARY + at, "properties": given}
    return "events", row | {"user": {"user_id": own, "external_user_id": user}}


def mixpanel(at: int, name: str = "Seen", **given: Any) -> Place:
    return "events", {"event": name, "properties": {"time": JANUARY + at, "$insert_id": f"i{at}"} | dollars(given)}


def kissmetrics(at: int, id_: str | None, **more: Any) -> Place:
    return "1", {"_p": id_, "_t": JANUARY + at} | more


def heap(at: int, id_: str) -> Place:
    row = {"event_id": str(at), "session_id": "1", "library": "web", "domain": "shop.example", "path": "/"}
    return "pageviews", row | {"user_id": id_, "time": stamp(at)}


def migration(at: int, kept: str, other: str) -> Place:
    return "user_migrations", {"from_user_id": other, "to_user_id": kept, "time": stamp(at)}


def heap_user(at: int, user: str, identity: str | None) -> Place:
    dates = {"joindate": iso(0), "last_modified": iso(at)}
    return "users", {"user_id": user, "identity": identity, "plan": f"p{at}"} | dates


def countly(at: int, id_: str, person: int) -> Place:
    row = {"_id": f"e{at}", "a": "app", "e": "[CLY]_custom", "n": "Seen", "uid": str(person), "did": id_}
    return "drill_events", row | {"ts": (JANUARY + at) * 1000, "c": 1, "s": 0, "dur": 0, "sg": {}, "up": {}}


def openpanel(at: int, profile: str | None, device: str) -> Place:
    row = {"id": f"01879f12-7754-7f5e-ba86-{at:012x}", "name": "Seen", "device_id": device, "profile_id": profile}
    more = {"session_id": "s", "path": "/", "origin": "https://x.example", "properties": {}, "created_at": iso(at)}
    return "events", row | more | {"project_id": "p"}


def panel_alias(at: int, kept: str, other: str) -> Place:
    return "profile_aliases", {"profile_id": kept, "alias": other, "project_id": "p", "created_at": iso(at)}


def posthog(at: int, id_: str, name: str = "Seen", **properties: Any) -> Place:
    row = {"uuid": f"01879f12-7754-7f5e-ba86-{at:012x}", "timestamp": iso(at), "created_at": iso(at), "event": name}
    return "events", row | {"distinct_id": id_, "properties": dollars(properties)}


def some(chance: random.Random, names: Sequence[str] = PROFILE) -> Row:
    """A few values of a profile."""
    return {name: chance.choice([None, 1, 2, "x"]) for name in chance.sample(names, chance.randint(0, 2))}


def copied(chance: random.Random) -> Row:
    """Sometimes a property that the service copies to the person."""
    return {"utm_source": chance.choice(["mail", "web"])} if chance.random() < 0.3 else {}


def seen(tool: str, chance: random.Random, at: int, user: str | None, device: str | None) -> Place:
    """A row with the id of a user, a device or both."""
    number = DEVICES.index(device or "d0")
    match tool:
        case "generic":
            return generic(at, user, device)
        case "amplitude":
            return amplitude(at, user, device, user_properties=some(chance), event_properties=copied(chance))
        case "segment" | "rudderstack" if chance.random() < 0.4:
            return call(at, user, device, "identify", traits=some(chance))
        case "segment" | "rudderstack":
            return call(at, user, device)
        case "braze":
            return braze(at, user, device or f"b{user}")
        case "mixpanel":
            more: Row = {"_initial_referrer": chance.choice([None, "x", "y"])} if at % 3 == 0 else {}
            return mixpanel(at, **more, **({"_user_id": user} if user else {}), distinct_id=device or user)
        case "kissmetrics":
            kinds: list[Row] = [{"_n": "Seen"}, {"_n": "Seen"}, {"_n": None, "plan": at}, {"plan": at}]
            return kissmetrics(at, user or device, **chance.choice(kinds))
        case "heap" if user and chance.random() < 0.3:  # a user of Heap's has one identity
            return heap_user(at, f"d{number}", f"i{number // 2}")
        case "heap":
            return heap(at, user or device or "")
        case "countly":
            return countly(at, chance.choice([f"d{number}", f"u{number // 2}"]), number // 2)
    return openpanel(at, user or device, device or "")


def record(tool: str, chance: random.Random, at: int) -> Place | None:
    """The tool's own statement that two ids are one person. Braze's names only Braze's own ids."""
    kept, other = chance.sample(DEVICES if tool == "braze" else [*DEVICES, *USERS], 2)
    match tool:
        case "segment" | "rudderstack":
            return call(at, kept, None, "alias", previousId=other)
        case "braze":
            return braze(at, None, other, kept)
        case "mixpanel" if at % 2:
            return mixpanel(at, "$merge", _distinct_ids=[kept, other])
        case "mixpanel":
            return mixpanel(at, "$create_alias", distinct_id=kept, alias=other)
        case "kissmetrics":
            return kissmetrics(at, other, _p2=kept)
        case "heap":
            return migration(at, kept, other)
        case "openpanel":
            return panel_alias(at, kept, other)
    return None


def instance(chance: random.Random, times: Sequence[int]) -> Iterator[Place]:
    """Events of the service itself. Each id has an event before it is merged, so that both readings of the documents,
    by the records and by the service's own rules, agree."""
    ids, names = [*DEVICES, *USERS], ["plan", "seats", "$initial_utm_source"]
    merges = {"$identify": "_anon_distinct_id", "$create_alias": "alias", "$merge_dangerously": "alias"}
    for number, at in enumerate(times):
        (id_, other), name = chance.sample(ids, 2), chance.choice(["Seen", "Seen", "$exception", "group", *merges])
        given: Row = {"_set": some(chance, names), "_set_once": some(chance, names)} if chance.random() < 0.6 else {}
        for name in given.get("_set", ()):  # no document says what an event sets once if it also sets it to null
            if given["_set"][name] is None:
                given["_set_once"].pop(name, None)
        if number < len(ids):
            name, id_ = "Seen", ids[number]
        elif name == "group":
            key = chance.choice(["7", "acme"])
            name, given = "$groupidentify", {"_group_set": {"seats": at}, "_group_type": "company", "_group_key": key}
        elif name in merges:
            given[merges[name]] = other
        elif chance.random() < 0.1:
            given["_process_person_profile"] = False
        if not given and chance.random() < 0.4:
            given["_unset"] = ["seats"]
        yield posthog(at, id_, name, **given, **(copied(chance) if name == "Seen" else {}))


def persons(events: Sequence[Row]) -> Iterator[Place]:
    """The export of persons of such an instance, as the service's own rules made them."""
    service = Target()
    for one in events:
        service.take(one | {"properties": one["properties"]})
    for number, person in enumerate(service.persons().values()):
        for id_ in sorted(person.ids):
            row = {"distinct_id": id_, "person_id": f"p{number}", "person_version": 1, "person_distinct_id_version": 0}
            yield "persons", row | {"team_id": 2, "properties": {}, "created_at": iso(0), "is_deleted": False}


def export(tool: str, chance: random.Random) -> list[Place]:
    """A small export in which few ids collide, in any order."""
    times = sorted(chance.sample(range(100, 2_000_000, 7), chance.randint(14, 36)))
    rows = list(instance(chance, times)) if tool == "posthog" else []
    for at in times if tool != "posthog" else ():
        alone = chance.random()
        user, device = chance.choice(USERS) if alone > 0.3 else None, chance.choice(DEVICES) if alone < 0.8 else None
        made = record(tool, chance, at) if chance.random() < 0.15 else None
        rows.append(made or seen(tool, chance, at, user, device))
        if tool == "segment" and chance.random() < 0.1:  # the same call again, as another user's
            again = {"userId": chance.choice(USERS), "receivedAt": iso(at + chance.choice([0, 2]))}
            rows.append(("calls", rows[-1][1] | again))
    if tool == "posthog" and chance.random() < 0.3:
        rows += persons([row for _, row in rows])
    chance.shuffle(rows)
    return rows


def land(tool: str, rows: Sequence[Place], room: Room, pieces: int = 1, **asked: Any) -> Plan:
    """Plan these rows, split into files, and send the plan."""
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
        options = PlanOptions(mapping=tool, as_of=AS_OF, workers=0, **(ASKED.get(tool, {}) | asked))
        plan = pipeline.plan_export(folder, Path(place, "plan"), options)
        if plan.events.made:
            assert plan.ready, [(gate.name, gate.detail) for gate in plan.gates]
            outcome = run(Path(place, "plan"), room.url, key=room.key())
            assert outcome.balanced, outcome
        return plan


def tiles(plan: Plan, room: Room) -> None:
    """The report says how many events, persons and merged identities there will be; groups' own persons are
    separate."""
    some = [one.distinct_ids for one in room.persons() if not one.distinct_ids[0].startswith("$")]
    there = room.count(), len(some), sum(len(ids) - 1 for ids in some)
    said = plan.events.made, plan.people.profiles.persons(plan.options.persons), plan.events.phases["identities"]
    assert said == there, ("events, persons, merged identities", said, there)


def found(room: Room, right: People) -> People:
    """The target's content, for the ids of the model and the properties that tests use."""
    ids = frozenset[str]().union(*right.profiles)
    names = SEEN_NAMES.union(*right.profiles.values())
    profiles = {
        frozenset(one.distinct_ids) & ids: values({name: one.properties.get(name) for name in names})
        for one in room.persons()
        if ids & {*one.distinct_ids}
    }
    return People(profiles, {(one.type, one.key): one.properties for one in room.groups()})


def compare(tool: str, rows: Sequence[Place], pieces: int = 1, final: bool = False, **asked: Any) -> None:
    """Compare the result of a plan of these rows at the target with the model. Raises AssertionError with what
    differs."""
    right = people(tool, [row for _, row in rows], asked.get("own"), ("utm_source",) if final else ())
    room = fresh(promote_properties="on" if final else "off")
    tiles(land(tool, rows, room, pieces, **(asked | ({"promoted_properties": "final"} if final else {}))), room)
    there, lines = found(room, right), [tool]
    pairs: list[tuple[dict[Any, Row], dict[Any, Row]]] = [(there[0], right[0]), (there[1], right[1])]
    for one, two in pairs:
        lines += [f"found: {' '.join(sorted(key))} {one[key]}" for key in one if two.get(key) != one[key]]
        lines += [f"right: {' '.join(sorted(key))} {two[key]}" for key in two if one.get(key) != two[key]]
    assert there == right, "\n".join([*lines, *(json.dumps(row) for _, row in rows)])


def check(seed: int) -> None:
    """One random export of one of the tools."""
    chance, tool = random.Random(seed), list(TOOLS)[seed % len(TOOLS)]
    rows, pieces = export(tool, chance), chance.randint(1, 3)
    own = {"own": {"d0": "u3", "d1": "u3"}} if tool == "generic" and seed % 5 == 0 else {}
    compare(tool, rows, pieces, tool in ("amplitude", "posthog") and seed // len(TOOLS) % 2 == 1, **own)


@pytest.mark.parametrize("seed", range(12))
def test_exports(seed: int) -> None:
    """Who is one person, with which profile and in which groups, agrees with the model."""
    check(seed)


def calls() -> list[Place]:
    return [call(1, None, "z"), call(2, "u", "a"), call(3, "a", None, "alias", previousId="z")]


SHARED = [posthog(1, "a"), posthog(2, "b"), posthog(3, "c")]
CASES: dict[str, tuple[str, list[Place]]] = {
    # An id that appears only with its user connects it to what a record joins.
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
    "refused by the service itself": ("posthog", [
        *SHARED, posthog(4, "b", "$identify", _anon_distinct_id="a"), posthog(5, "c", "$create_alias", alias="b"),
    ]),
    "an alias sets": ("posthog", [*SHARED, posthog(4, "b", "$create_alias", alias="a", _set={"plan": 1})]),
    "a dangerous merge sets": ("posthog", [
        *SHARED, posthog(4, "b", "$merge_dangerously", alias="a", _set={"plan": 1}),
    ]),
    # The service reads a stored null as missing.
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


def test_files() -> None:
    """A profile does not depend on how its rows are split into files."""
    once = [posthog(at, "a", _set_once={"plan": plan}) for at, plan in [(1, "x"), (3, "x"), (4, "y"), (5, "x")]]
    rows = [once[0], posthog(2, "a", _unset=["plan"]), once[1], once[2], once[3]]
    compare("posthog", rows, pieces=2)


@pytest.mark.parametrize("name", PROMOTED)
def test_promoted(name: str) -> None:
    """The tool's own first touch wins, and explicit values have their time."""
    compare(*PROMOTED[name], final=True, profile_policy="overwrite")


@pytest.mark.parametrize("name", ["system", "NULL", "Nan", "anonymous-user", "u7 ", "é" * 120])
def test_the_other_endpoint(name: str, tmp_path: Path) -> None:
    """A plan for the per-event endpoint has no merge that cannot happen there, and nothing that is dropped there."""
    rows = [generic(1, None, "d")[1], generic(2, name, "d")[1], generic(3, name.strip(), None)[1]]
    options = PlanOptions(mapping="generic", dialect="posthog", as_of=AS_OF, workers=0, settings=SETTINGS)
    plan = pipeline.plan_export(write(tmp_path / "export", rows), tmp_path / "plan", options)
    if not plan.ready:
        return  # stopping is right as well
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
    """People in --exclude-ids do not make a group either."""
    rows = [call(1, "u", None)[1], call(2, "u", None, "group", groupId="acme", traits={"seats": 1})[1]]
    (tmp_path / "gone.txt").write_text("u\n")
    plan = planned(tmp_path, "segment", rows, exclude_ids=tmp_path / "gone.txt")
    assert (plan.events.made, plan.skips) == (0, {"excluded_id": 2})
