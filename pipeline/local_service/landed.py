"""What landed in a project, as values: events, persons, groups and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from pipeline.local_service.store.database import Store


@dataclass(frozen=True, slots=True)
class LandedEvent:
    """One event after duplicates collapsed; `timestamp` is ISO 8601 with microseconds and Z."""

    uuid: str
    event: str
    distinct_id: str
    timestamp: str
    properties: str
    historical_migration: bool


class PersonProfile(msgspec.Struct, frozen=True):
    """A person with all its ids, sorted; `created_at` is ISO 8601 with microseconds and Z."""

    id: str
    distinct_ids: tuple[str, ...]
    properties: dict[str, Any]
    created_at: str
    is_identified: bool


class GroupProfile(msgspec.Struct, frozen=True):
    """A group that a group event wrote; `index` is its type's number, 0 to 4."""

    index: int
    type: str
    key: str
    properties: dict[str, Any]
    created_at: str


class IngestionWarning(msgspec.Struct, frozen=True):
    """What the service did to an accepted event without an error; a `dropped` event is not stored as one."""

    type: str
    details: dict[str, Any]
    dropped: bool
    uuid: str
    event: str
    distinct_id: str


def read_events(store: Store, project: int) -> list[LandedEvent]:
    """The events, by time and uuid."""
    rows = store.select(
        "SELECT uuid, event, distinct_id, timestamp, properties, historical_migration FROM collapsed "
        f"WHERE project = {project} ORDER BY timestamp, uuid, event, distinct_id",
        project,
    )
    return [LandedEvent(*row) for row in rows]


def read_persons(store: Store, project: int) -> list[PersonProfile]:
    """The persons, by their first id."""
    rows = store.select(
        "SELECT p.id, list_sort(list(d.distinct_id)) AS ids, any_value(p.properties), any_value(p.created_at), "
        "any_value(p.is_identified) FROM persons p JOIN person_distinct_ids d ON d.person_id = p.id "
        "GROUP BY p.id ORDER BY ids",
        project,
    )
    return [
        PersonProfile(key, tuple(ids), msgspec.json.decode(text), created_at, is_identified)
        for key, ids, text, created_at, is_identified in rows
    ]


def read_groups(store: Store, project: int) -> list[GroupProfile]:
    """The groups, by type and key."""
    rows = store.select(
        'SELECT "index", type, key, properties, created_at FROM groups JOIN group_types USING ("index") '
        'ORDER BY "index", key',
        project,
    )
    return [
        GroupProfile(index, kind, key, msgspec.json.decode(text), created_at)
        for index, kind, key, text, created_at in rows
    ]


def read_warnings(store: Store, project: int) -> list[IngestionWarning]:
    """The warnings, in the order of their events' acceptance."""
    rows = store.select(
        "SELECT type, details, dropped, uuid, event, distinct_id FROM warnings ORDER BY receipt, type, details",
        project,
    )
    return [IngestionWarning(kind, msgspec.json.decode(text), *others) for kind, text, *others in rows]
