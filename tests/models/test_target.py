"""The local service makes of random histories what the model of the target makes of them, at both endpoints."""

from __future__ import annotations

import json
import random
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.models.target import ALREADY, ILLEGAL, NO_PROFILE, Target
from tests.support.plain_http import PLAIN
from tests.support.rehearsal import Room, fresh, send

PROMOTED = ("$browser", "$os", "utm_source")
IDS = ["a", "b", "c", "d", "u", "v", "w", "u ", 7, 7.5, "null", "Guest", "system", "'id'", "é" * 101, "x" * 201]
WEIGHTS = [9, 9, 9, 9, 9, 9, 9, 2, 1, 1, 1, 1, 2, 1, 1, 1]
VALUES = [None, None, 1, 2, "x", False, {"n": [1]}]
NAMES = ["Seen"] * 6 + ["$identify"] * 5 + ["$create_alias"] * 4 + ["$merge_dangerously"] * 3 + ["$set"] * 2
NAMES += ["$groupidentify"] * 2 + ["$group_identify", "$exception", "$$heatmap"]
KEYS = ["7", 7, 7.0, 7.5, "acme", "zoo"]


def some(chance: random.Random, names: str, most: int = 2) -> dict[str, Any]:
    """An object with a few of these names."""
    return {name: chance.choice(VALUES) for name in chance.sample(names, chance.randint(0, most))}


def history(chance: random.Random) -> list[dict[str, Any]]:
    """Events whose few ids, values and groups collide."""
    events = []
    for number in range(chance.randint(5, 40)):
        name, (id_, other) = chance.choice(NAMES), chance.choices(IDS, WEIGHTS, k=2)
        properties: dict[str, Any] = {"distinct_id": id_}
        if name == "$identify" and chance.random() < 0.9:
            properties["$anon_distinct_id"] = other
        elif name in ("$create_alias", "$merge_dangerously"):
            properties["alias"] = other
        elif name.startswith("$group"):
            properties |= {"$group_type": f"t{chance.randint(0, 6)}", "$group_key": chance.choice(KEYS)}
            properties |= chance.choice([{}, {"$group_set": None}, {"$group_set": some(chance, "pq")}])
        if not name.startswith("$group") and chance.random() < 0.5:  # no document says what a group event's $set does
            properties |= {"$set": some(chance, "pqr"), "$set_once": some(chance, "pqrs")}
            # No document says what an $unset does to a name that the same event sets.
            properties |= {} if number % 2 else {"$set": some(chance, "tz")}
        elif not name.startswith("$group") and chance.random() < 0.2:
            properties["$unset"] = chance.choice([["t", "z"], {"t": ""}, "t"])
        if chance.random() < 0.1:
            properties["$process_person_profile"] = chance.choice([False, False, True, "false"])
        if not name.startswith("$group") and chance.random() < 0.2:  # nor which of two types in one event is first
            properties["$groups"] = chance.choice([{f"t{chance.randint(0, 6)}": chance.choice(KEYS)}, ["t0"], None])
        if not name.startswith("$group") and chance.random() < 0.3:
            properties |= {chance.choice(PROMOTED): chance.choice(["x", "y", None])}
        at = f"2023-01-{chance.randint(1, 28):02}T00:00:00.000000Z"
        events.append({"event": name, "properties": properties, "timestamp": at, "uuid": str(UUID(int=number + 1))})
    return events


def send_per_event(room: Room, events: list[dict[str, Any]]) -> None:
    """The same events to the other endpoint, where the id is next to the properties and is a string."""
    headers = {
        "authorization": f"Bearer {room.key()}", "posthog-sdk-info": "models/1/", "posthog-attempt": "1",
        "posthog-request-id": str(UUID(int=1)), "posthog-request-timestamp": "2023-11-14T22:13:20Z",
    }  # fmt: skip
    body = {"created_at": "2023-11-14T00:00:00Z", "historical_migration": True, "batch": events}
    answer = httpx.post(room.url + "/i/v1/analytics/events", headers=headers, json=body, **PLAIN)
    assert answer.status_code == 200, answer.text


def state(target: Target) -> dict[str, Any]:
    """The model's content, written as `landed` writes it."""
    persons = {
        ids: (one.identified, one.created, json.dumps(one.properties, sort_keys=True))
        for ids, one in target.persons().items()
    }
    return {"persons": persons, "groups": target.groups, "types": target.types, "warnings": target.warnings}


def landed(room: Room) -> dict[str, Any]:
    """The local service's content."""
    kinds = (ALREADY, ILLEGAL, NO_PROFILE)
    return {
        "persons": {
            one.distinct_ids: (one.is_identified, one.created_at, json.dumps(one.properties, sort_keys=True))
            for one in room.persons()
        },
        "groups": {(one.type, one.key): one.properties for one in room.groups()},
        "types": [kind for (kind,) in room.select('select type from group_types order by "index"')],
        "warnings": [(one.type, one.distinct_id) for one in room.warnings() if one.type in kinds],
    }


def compare(events: list[dict[str, Any]], per_event: bool, promote: bool) -> None:
    """Compare the local service with the model. Raises AssertionError with what differs."""
    room = fresh(promote_properties="on" if promote else "off", **({"per_event": "on"} if per_event else {}))
    target = Target(per_event, PROMOTED if promote else ())
    if per_event:
        events = [
            {**one, "distinct_id": str(one["properties"]["distinct_id"]), "options": {"disable_skew_correction": True}}
            for one in events
        ]
        send_per_event(room, events)
    else:
        send(room, *events)
    for one in events:
        target.take(one)
    right, found = state(target), landed(room)
    assert found == right, difference(found, right) + "".join(f"\n  {json.dumps(one)}" for one in events)


def difference(found: dict[str, Any], right: dict[str, Any]) -> str:
    """What differs, part by part."""
    lines = []
    for part in right:
        both = [one.items() if isinstance(one, dict) else enumerate(one) for one in (found[part], right[part])]
        ours, theirs = ({*map(repr, one)} for one in both)
        lines += [f"{part}, found: {one}" for one in sorted(ours - theirs)]
        lines += [f"{part}, right: {one}" for one in sorted(theirs - ours)]
    return "\n".join(lines)


def check(seed: int) -> None:
    """One random history at one of the endpoints."""
    chance = random.Random(seed)
    compare(history(chance), seed % 3 == 2, seed % 2 == 1)


@pytest.mark.parametrize("seed", range(30))
def test_histories(seed: int) -> None:
    """Persons, groups, types and refusals of a random history are the model's."""
    check(seed)
