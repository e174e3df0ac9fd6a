"""A project that moves to another instance of the service, with a catch-up until the cut-over: nobody is lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pipeline
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from tests.support.deliveries import run
from tests.support.people import AS_OF, people
from tests.support.rehearsal import Room, alias, event, fresh, identify, send

CUT = datetime(2023, 1, 15, tzinfo=UTC)
"""The day of January 2023 at which the first plan ends."""


def lived() -> Room:
    """A project with a history: devices, merges, groups, events without a person, copied properties."""
    room = fresh(promote_properties="on")
    company = {"$group_type": "company", "$group_key": "acme", "$group_set": {"plan": "free", "seats": 4}}
    send(room, event("a-1", "$pageview", 1, _browser="Firefox", _os="Linux", utm_source="mail", _session_id="old-1"))
    send(room, event("u-1", "Signed Up", 2, _set={"plan": "free"}, _set_once={"first": 1}, _groups={"company": "acme"}))
    send(room, event("u-1", "$groupidentify", 2, **{key.replace("$", "_"): one for key, one in company.items()}))
    send(room, identify("u-1", "a-1", 3, _set={"name": "Ada"}))
    send(room, event("kiosk", "Seen", 3, _process_person_profile=False))
    send(room, event("crm-1", "Imported", 4), alias("u-1", "crm-1", _set={"crm": 1.5}))
    send(room, event("a-2", "$pageview", 5, _browser="Chrome"), event("u-2", "Signed Up", 5, _groups={"team": "red"}))
    send(room, identify("u-2", "a-2", 6))
    send(room, event("u-3", "Signed Up", 7), event("u-4", "Signed Up", 8))
    send(room, alias("u-3", "u-4", "$merge_dangerously"))
    send(room, event("a-9", "$pageview", 9, _browser="Safari"))
    return room


def lives_on(room: Room) -> None:
    """What happens between the first plan and the cut-over."""
    send(room, event("u-1", "Paid", 16, _set={"plan": "pro"}, _unset=["crm"], _browser="Chrome"))
    send(room, event("a-3", "$pageview", 17), identify("u-1", "a-3", 18), event("u-5", "Signed Up", 18))
    send(room, identify("u-2", "a-9", 19), event("u-2", "Seen", 19, _browser="Safari"))
    changed = {"_group_type": "company", "_group_key": "acme", "_group_set": {"plan": "pro"}}
    send(room, event("u-1", "$groupidentify", 19, **changed))


def export(room: Room, folder: Path) -> Path:
    """The three models as the service exports them: events in two overlapping files, persons, and groups."""
    folder.mkdir(parents=True)
    rows = room.select("select uuid, event, distinct_id, timestamp, properties from events order by timestamp, uuid")
    events = [
        {
            "uuid": str(uuid), "timestamp": str(time), "created_at": str(time), "event": name, "person_id": None,
            "properties": json.loads(properties), "distinct_id": distinct_id, "elements_chain": "",
            "person_properties": {},
        }
        for uuid, name, distinct_id, time, properties in rows
    ]  # fmt: skip
    persons = [
        {
            "team_id": 1, "distinct_id": one, "person_id": person.id, "properties": person.properties,
            "person_distinct_id_version": 0, "person_version": 1, "created_at": person.created_at, "is_deleted": False,
        }
        for person in room.persons()
        for one in person.distinct_ids
    ]  # fmt: skip
    groups = [
        {"group_type_index": one.index, "group_key": one.key, "group_properties": json.dumps(one.properties)}
        for one in room.groups()
    ]
    half = len(events) // 2
    models = {"events-0": events[: half + 2], "events-1": events[half:], "persons": persons, "groups": groups}
    for name, lines in models.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    kinds = sorted({(one.index, one.type) for one in room.groups()})
    types = [{"group_type_index": index, "group_type": kind} for index, kind in kinds]
    (folder / "groups_types.json").write_text(json.dumps(types))
    return folder


def moved(export: Path, place: Path, room: Room, **asked: Any) -> Plan:
    """The plan of an export that was sent to a project."""
    options = PlanOptions(mapping="posthog", as_of=AS_OF, workers=0, group_types=["company", "team"], **asked)
    plan = pipeline.plan_export(export, place, options)
    assert run(place, room.url, key=room.key()).balanced
    return plan


def events(room: Room, table: str = "events") -> list[tuple[Any, ...]]:
    """The events without merges and updates."""
    names = "('$identify', '$create_alias', '$merge_dangerously', '$groupidentify', '$set')"
    return room.select(
        f"select uuid, event, distinct_id, timestamp from {table} where event not in {names} order by timestamp, uuid"
    )


def test_a_project_that_moves_with_a_catch_up_is_the_same_people_groups_and_events(tmp_path: Path) -> None:
    """Merges made only by the API too; nothing is sent twice, and a third plan has nothing left to send."""
    source, target = lived(), fresh(promote_properties="on")
    first = moved(
        export(source, tmp_path / "bulk"), tmp_path / "first", target, until=CUT, person_properties="none",
        dialect="posthog",
    )  # fmt: skip
    assert (first.verdict, first.events.phases) == (
        "ready", {"identities": 4, "groups": 2, "events": 9, "persons": 0}
    )  # fmt: skip
    assert people(target).keys() == people(source).keys()

    lives_on(source)
    whole = export(source, tmp_path / "whole")
    catch_up: dict[str, Any] = {"since": CUT, "profile_policy": "overwrite", "dialect": "posthog"}
    second = moved(whole, tmp_path / "second", target, earlier=[tmp_path / "first"], **catch_up)
    assert (second.skips["outside_window"], second.rows.rejected) == (16, 0)
    assert second.events.phases == {"identities": 2, "groups": 1, "events": 4, "persons": 2}
    assert people(target) == people(source)
    kept = {(one.index, one.type, one.key): one.properties for one in target.groups()}
    assert kept == {(0, "company", "acme"): {"plan": "pro", "seats": 4}, (1, "team", "red"): {}}
    assert events(target) == events(target, "raw_events") == events(source)
    assert target.warnings() == []

    third = moved(whole, tmp_path / "third", target, earlier=[tmp_path / "first", tmp_path / "second"], **catch_up)
    assert third.events.phases["identities"] == 0
    assert events(target) == events(source)
