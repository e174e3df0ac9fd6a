"""Group types and groups (docs/know/service.md#groups).

A project has at most five group types, numbered in the order in which they are first named, by `$groups` of any event
or by a group event. A further one is passed over without a word: here it leaves a notice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Raw

from pipeline.local_service import ingestion_warnings
from pipeline.local_service.people.updates import Seen

MOST_TYPES = 5
LONGEST = 400
"""Characters of a group's type."""

Key = tuple[int, str, str]
"""Project, type and key of a group."""


@dataclass(slots=True)
class GroupRecord:
    """A group as group events left it; `created_at` is microseconds since 1970 (UTC)."""

    created_at: int
    properties: dict[str, Raw] = field(default_factory=dict)


@dataclass(slots=True)
class Groups:
    """The group types of all projects in their order, and some groups; what has changed is left in `changed`."""

    types: dict[int, list[str]] = field(default_factory=dict)
    records: dict[Key, GroupRecord] = field(default_factory=dict)
    changed: dict[Key, GroupRecord] = field(default_factory=dict)

    def take(self, seen: Seen) -> None:
        """Let one event count."""
        group = seen.group
        for name in seen.types:
            self._has_type(seen, name)
        if group is None or not self._has_type(seen, group.type):
            return
        key = (seen.project, group.type, group.key)
        record = self.records.setdefault(key, GroupRecord(seen.instant))
        record.created_at = min(record.created_at, seen.instant)
        record.properties.update(group.set)
        self.changed[key] = record

    def _has_type(self, seen: Seen, name: str) -> bool:
        types = self.types.setdefault(seen.project, [])
        if name in types:
            return True
        if len(name) > LONGEST:
            seen.tell(ingestion_warnings.LONG_GROUP_TYPE, length=len(name), longest=LONGEST)
        elif len(types) < MOST_TYPES:
            types.append(name)
            return True
        else:
            seen.tell(ingestion_warnings.TOO_MANY_GROUP_TYPES, group_type=name, types=types)
        return False
