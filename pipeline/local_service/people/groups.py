"""Group types and groups (docs/know/service.md#groups).

A project has at most five group types, numbered in the order in which they are first named, by `$groups` of any event
or by a group event. The service ignores a further one without any record: here it leaves a warning.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from pipeline.local_service import ingestion_warnings
from pipeline.local_service.people.updates import PersonEvent
from pipeline.local_service.store.schema import MOST_GROUP_TYPES

LONGEST_TYPE = 400
"""Characters of a group's type."""

GroupKey = tuple[int, str, str]
"""Project, type and key of a group."""


class Group(msgspec.Struct):
    """A group after its group events.

    `created_at` is the earliest of their times, `updated_at` when the last of them was accepted (µs UTC).
    """

    created_at: int
    updated_at: int
    properties: dict[str, Raw] = msgspec.field(default_factory=dict)


class GroupUpdater(msgspec.Struct):
    """The group types of all projects in their order, and some groups; changes are in `changed`."""

    types: dict[int, list[str]] = msgspec.field(default_factory=dict)
    groups: dict[GroupKey, Group] = msgspec.field(default_factory=dict)
    changed: dict[GroupKey, Group] = msgspec.field(default_factory=dict)

    def apply(self, event: PersonEvent) -> None:
        """Apply one event. A group type that is ignored leaves a warning on it."""
        for name in event.group_types:
            self._has_type(event, name)
        change = event.group
        if change is None or not self._has_type(event, change.type):
            return
        key = (event.project, change.type, change.key)
        group = self.groups.setdefault(key, Group(event.instant, event.accepted))
        group.created_at, group.updated_at = min(group.created_at, event.instant), event.accepted
        group.properties.update(change.set)
        self.changed[key] = group

    def _has_type(self, event: PersonEvent, name: str) -> bool:
        types = self.types.setdefault(event.project, [])
        if name in types:
            return True
        if len(name) > LONGEST_TYPE:
            event.warn(ingestion_warnings.LONG_GROUP_TYPE, length=len(name), longest=LONGEST_TYPE)
        elif len(types) < MOST_GROUP_TYPES:
            types.append(name)
            return True
        else:
            event.warn(ingestion_warnings.TOO_MANY_GROUP_TYPES, group_type=name, types=types)
        return False
