"""Rows about a few people as each tool exports them, and random exports of such rows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.models.target import Target
from tests.support.people import JANUARY

Row = dict[str, Any]
Place = tuple[str, Row]
"""The name of a file, and a row in it."""
DEVICES, USERS = ["d0", "d1", "d2", "d3", "d4"], ["u0", "u1", "u2", "NULL"]
PROFILE = ("plan", "seats", "initial_referrer", "initial_utm_source")


def iso(at: int) -> str:
    return datetime.fromtimestamp(JANUARY + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp(at: int) -> str:
    return iso(at)[:-1].replace("T", " ")


def dollars(given: Row) -> Row:
    """Of the names `_x` stands for `$x`."""
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
    """The tool's own statement that two ids are one person. Braze's names Braze's own ids alone."""
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
    by the records and by the service's own rules, say the same."""
    ids, names = [*DEVICES, *USERS], ["plan", "seats", "$initial_utm_source"]
    merges = {"$identify": "_anon_distinct_id", "$create_alias": "alias", "$merge_dangerously": "alias"}
    for number, at in enumerate(times):
        (id_, other), name = chance.sample(ids, 2), chance.choice(["Seen", "Seen", "$exception", "group", *merges])
        given: Row = {"_set": some(chance, names), "_set_once": some(chance, names)} if chance.random() < 0.6 else {}
        for name in given.get("_set", ()):  # what an event that sets a null also sets once, no document says
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
