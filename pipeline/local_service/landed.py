"""What landed in a project, as Python values: events, persons, groups and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from pipeline.local_service.keys import Keyring
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
    """What the service did to an accepted event without an error; a `dropped` event is not stored as an event."""

    type: str
    details: dict[str, Any]
    dropped: bool
    uuid: str
    event: str
    distinct_id: str


class Landed:
    """What landed, by project; the first project if none is named."""

    store: Store
    keys: Keyring

    @property
    def project_id(self) -> int:
        return self.keys.projects[0].id

    def count(self) -> int:
        return self.store.count()

    def select(self, sql: str, project_id: int | None = None) -> list[Any]:
        """The rows of a SELECT over the views of a project."""
        return self.store.select(sql, project_id or self.project_id)

    def events(self, project_id: int | None = None) -> list[LandedEvent]:
        """The events after duplicates collapsed, by time and uuid."""
        project = project_id or self.project_id
        sql = (
            "SELECT uuid, event, distinct_id, timestamp, properties, historical_migration FROM collapsed "
            f"WHERE project = {project} ORDER BY timestamp, uuid, event, distinct_id"
        )
        return [LandedEvent(*row) for row in self.select(sql, project)]

    def persons(self, project_id: int | None = None) -> list[PersonProfile]:
        """The persons, by their first id."""
        sql = (
            "SELECT p.id, list_sort(list(d.distinct_id)) AS ids, any_value(p.properties), any_value(p.created_at), "
            "any_value(p.is_identified) FROM persons p JOIN person_distinct_ids d ON d.person_id = p.id "
            "GROUP BY p.id ORDER BY ids"
        )
        return [
            PersonProfile(key, tuple(ids), msgspec.json.decode(text), *others)
            for key, ids, text, *others in self.select(sql, project_id)
        ]

    def groups(self, project_id: int | None = None) -> list[GroupProfile]:
        """The groups, by type and key."""
        sql = (
            'SELECT "index", type, key, properties, created_at FROM groups JOIN group_types USING ("index") '
            'ORDER BY "index", key'
        )
        return [
            GroupProfile(index, kind, key, msgspec.json.decode(text), created_at)
            for index, kind, key, text, created_at in self.select(sql, project_id)
        ]

    def warnings(self, project_id: int | None = None) -> list[IngestionWarning]:
        """What the service did to accepted events without an error, in the order in which they were accepted."""
        sql = "SELECT type, details, dropped, uuid, event, distinct_id FROM warnings ORDER BY receipt, type, details"
        rows = self.select(sql, project_id)
        return [IngestionWarning(kind, msgspec.json.decode(text), *others) for kind, text, *others in rows]
