"""The service's own batch export: one file of JSON lines (objects) and one Parquet file (JSON text).

Batches are delivered at least once, so both files hold some of the same rows; properties of old rows can be
an empty text; a `$session_id` can be something else than a UUIDv7 (docs/know/exports.md#posthog-export).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

from sample_data.generator.spelling import row, spelled, uuid4, uuid7

COLUMNS = pa.schema(
    [
        ("uuid", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("created_at", pa.timestamp("us", "UTC")),
        ("event", pa.string()),
        ("properties", pa.string()),
        ("distinct_id", pa.string()),
        ("elements_chain", pa.string()),
        ("person_properties", pa.string()),
        ("person_id", pa.string()),
    ]
)


START = datetime(2023, 4, 20, 14, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Export:
    """What the two files hold: JSON lines, and a table."""

    lines: list[str]
    table: pa.Table


def _who(rng: Random) -> tuple[list[str], list[str]]:
    """The anonymous ids of four people, and the ids of their persons."""
    anonymous = [uuid7(rng, int(START.timestamp() * 1000) + n) for n in range(4)]
    return anonymous, [uuid4(rng) for _ in range(4)]


def persons(seed: int = 15) -> list[dict[str, Any]]:
    """The persons of the same project: a row for each id of each, and one more for each later version.

    Ada's person took in an id through the API alone; the second one was renamed; an id went from the third person to
    the fourth; one person was deleted; one never did anything (docs/know/exports.md#posthog-export).
    """
    anonymous, uuids = _who(Random(seed))
    made = [
        _person(f"person-{who}@lumen.example", uuids[who], {"tier": "pro", "seats": who}) for who in range(len(uuids))
    ]
    made += [_person(one, uuids[who], {"tier": "pro", "seats": who}) for who, one in enumerate(anonymous)]
    ada = {"tier": "pro", "seats": 0, "name": "Ada", "spent": spelled("49.10")}
    return [
        *made,
        _person("crm-0001", uuids[0], {"tier": "pro", "seats": 0}),
        _person("person-1@lumen.example", uuids[1], {"tier": "team", "seats": 40}, version=3),
        _person("person-1@lumen.example", uuids[1], {"tier": "team", "seats": 10}, version=2),
        _person("person-0@lumen.example", uuids[0], ada, version=1),
        _person("kiosk-7", uuids[2], {"tier": "old", "seats": 2}, version=9),
        _person("kiosk-7", uuids[3], {"tier": "pro", "seats": 3}, id_version=1),
        _person("gone@lumen.example", "0187a000-0000-4000-8000-000000000009", {}, version=101, deleted=True),
        _person("quiet@lumen.example", "0187a000-0000-4000-8000-00000000000a", {"tier": "free"}),
    ]


def _person(
    distinct_id: str,
    person: str,
    properties: dict[str, Any],
    *,
    version: int = 0,
    id_version: int = 0,
    deleted: bool = False,
) -> dict[str, Any]:
    return {
        "team_id": 2,
        "distinct_id": distinct_id,
        "person_id": person,
        "properties": properties,
        "person_distinct_id_version": id_version,
        "person_version": version,
        "created_at": START.isoformat(timespec="microseconds"),
        "is_deleted": deleted,
    }


def person_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Such rows as Parquet has them, the properties as JSON text."""
    columns = {name: [_cell(one, name) for one in rows] for name in rows[0]}
    return pa.table(columns)


def export(seed: int = 15) -> Export:
    """48 events, the middle sixteen in both files; the same for the same seed."""
    rng = Random(seed)
    events = _events(rng)
    first, second = events[:32], events[16:]
    second.append(_old(rng))
    columns = {name: [_cell(event, name) for event in second] for name in COLUMNS.names}
    return Export([row(_line(event)) for event in first], pa.table(columns, schema=COLUMNS))


def _events(rng: Random) -> list[dict[str, Any]]:
    start = START
    anonymous, persons = _who(rng)
    events = []
    for number in range(48):
        at = start + timedelta(seconds=41 * number, microseconds=rng.randrange(1_000_000))
        who = number % 4
        known = number >= 12
        distinct_id = f"person-{who}@lumen.example" if known else anonymous[who]
        name, own, chain = _event(rng, number)
        if number in (12, 13, 14):
            name, own, chain = "$identify", {"$anon_distinct_id": anonymous[who], "$set": {"tier": "pro"}}, ""
        if number == 15:
            name, own, chain = "$create_alias", {"alias": anonymous[who]}, ""
        session = uuid7(rng, int(start.timestamp() * 1000)) if who else "not-a-version-7"
        common = {"$lib": "web", "$lib_version": "1.53.4", "$session_id": session, "$ip": "203.0.113.9"}
        events.append(
            {
                "uuid": uuid7(rng, int(at.timestamp() * 1000)),
                "timestamp": at,
                "created_at": at + timedelta(milliseconds=rng.randrange(200, 4_000)),
                "event": name,
                "properties": own | common,
                "distinct_id": distinct_id,
                "elements_chain": chain,
                "person_properties": {"tier": "pro"} if known else {},
                "person_id": persons[who],
            }
        )
    return events


def _event(rng: Random, number: int) -> tuple[str, dict[str, Any], str]:
    page = {
        "$current_url": "https://lumen.example/docs?q=a%20b",
        "$host": "lumen.example",
        "$pathname": "/docs",
    }
    kind = number % 5
    if kind == 0:
        return (
            "$pageview",
            page | {"title": "Docs – Lumen 📚", "$browser": "Chrome", "$browser_version": 112},
            "",
        )
    if kind == 1:
        chain = 'button.primary:attr__class="primary"nth-child="1"nth-of-type="2"text="Try it"'
        return "$autocapture", page | {"$event_type": "click"}, chain
    if kind == 2:
        return "lamp switched", {"level": rng.randrange(101), "ratio": spelled("1.10"), "scene": None}, ""
    if kind == 3:
        groups = {
            "$groups": {"company": "acme"},
            "total": spelled("49.10"),
            "order": spelled("9007199254740993"),
        }
        return "order completed", page | groups, ""
    return "$pageleave", page, ""


def _old(rng: Random) -> dict[str, Any]:
    at = datetime(2020, 9, 1, 8, 0, 0, 120_000, UTC)
    return {
        "uuid": uuid4(rng),
        "timestamp": at,
        "created_at": at,
        "event": "legacy import",
        "properties": "",
        "distinct_id": "person-0@lumen.example",
        "elements_chain": "",
        "person_properties": "",
        "person_id": uuid4(rng),
    }


def _line(event: dict[str, Any]) -> dict[str, Any]:
    return event | {
        "timestamp": event["timestamp"].isoformat(timespec="microseconds"),
        "created_at": event["created_at"].isoformat(timespec="microseconds"),
    }


def _cell(event: dict[str, Any], name: str) -> Any:
    value = event[name]
    return row(value) if isinstance(value, dict) else value
