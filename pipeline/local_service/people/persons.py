"""Which person an id belongs to, what merges do to it, and how an event changes a person or a group
(docs/know/service.md#persons, #groups).

`$identify` with `$anon_distinct_id`, and `$create_alias` and `$merge_dangerously` with `alias`, merge the person of
that other id into the person of the event's own id. Only `$merge_dangerously` can merge away an identified person. So
in a chain a→b, b→c the second link is refused: the first has identified b.

The order of acceptance decides, never a timestamp: the last `$set` wins, whenever its event happened.

A project has at most five group types, numbered in the order in which they are first named, by `$groups` of any event
or by a group event. The service ignores any further one without a record; here it leaves a warning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from pipeline.local_service import ingestion_warnings
from pipeline.local_service.people.updates import MINOR, PERSON_EVENTS, PersonEvent
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.schema import MOST_GROUP_TYPES

LONGEST_MERGED = 400
"""The most characters of an id that a merge may name: a longer one cannot be stored."""

_NULL = Raw(b"null")
_ANY_CASE = [
    "anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email",
    "undefined", "true", "false",
]  # fmt: skip
_AS_WRITTEN = ["[object Object]", "NaN", "None", "none", "null", "0", "undefined"]


def _with_quotes(words: list[str]) -> frozenset[str]:
    return frozenset(template.format(word) for word in words for template in ("{}", "'{}'", '"{}"'))


_ILLEGAL_LOWERED = _with_quotes(_ANY_CASE)
_ILLEGAL_AS_WRITTEN = _with_quotes(_AS_WRITTEN)


def is_illegal(distinct_id: str) -> bool:
    """Whether merges of this id are refused (docs/know/service.md#ids-and-text).

    An event with such an id is accepted and creates a person like any other. Only a merge that names it is refused,
    because otherwise all visitors whose id was not set would become one person.
    """
    return (
        not distinct_id.strip()
        or distinct_id in _ILLEGAL_AS_WRITTEN
        or distinct_id.lower() in _ILLEGAL_LOWERED
        or "\0" in distinct_id
        or len(distinct_id) > LONGEST_MERGED
    )


@dataclass(slots=True, eq=False)
class Person:
    """A person. Values of `properties` are exact JSON text; `created_at` is microseconds since 1970 (UTC)."""

    project: int
    id: str
    created_at: int
    properties: dict[str, Raw] = field(default_factory=dict)
    is_identified: bool = False
    merged_into: Person | None = None

    @property
    def final(self) -> Person:
        """The person that this one has been merged into, or itself."""
        person = self
        while person.merged_into is not None:
            person = person.merged_into
        return person


def person_uuid(project: int, distinct_id: str) -> str:
    """The id of the person that a distinct_id creates; the same as the SQL macro of this name."""
    digits = hashlib.md5(f"{project}:{distinct_id}".encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-3{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


Id = tuple[int, str]
"""A project and a distinct_id in it."""


class PersonUpdater(msgspec.Struct):
    """The persons of some ids, while events are applied in the order of acceptance.

    `ids` must contain every id that an event may name and that already has a person. Changes are in `changed`,
    `new_ids` (ids that had no person before) and `merged` (persons that are now part of another).
    """

    settings: Settings
    ids: dict[Id, Person] = msgspec.field(default_factory=dict)
    changed: set[Person] = msgspec.field(default_factory=set)
    new_ids: dict[Id, Person] = msgspec.field(default_factory=dict)
    merged: list[Person] = msgspec.field(default_factory=list)

    def find(self, project: int, distinct_id: str) -> Person | None:
        person = self.ids.get((project, distinct_id))
        return None if person is None else person.final

    def apply(self, event: PersonEvent) -> None:
        """Apply one event. A refused merge leaves a warning on it; its properties are still written."""
        person = None
        if event.merged_id is not None and self._may_merge(event, event.merged_id):
            person = self._merge(event, event.merged_id)
            if person is None:
                return
            if not person.is_identified:
                person.is_identified = True
                self.changed.add(person)
        person = person or self.find(event.project, event.distinct_id)
        if person is None:
            self._create(event, [event.distinct_id])
        elif self._update(person, event):
            self.changed.add(person)

    def _update(self, person: Person, event: PersonEvent) -> bool:
        """Write the event's properties into the person. Returns whether anything changed."""
        old = person.properties
        added = {
            name: value
            for name, value in event.set_once.items()
            if name not in old or (old[name] == _NULL and value != _NULL)
        }
        changed = {name: value for name, value in event.set.items() if old.get(name) != value}
        removed = [name for name in event.unset if name in old]
        if self.settings.promoted_changes == "skipped" and event.event not in PERSON_EVENTS:
            is_major = removed or added or any(name not in MINOR or name not in old for name in changed)
            if not is_major:
                return False
        if not (added or changed or removed):
            return False
        old.update(added | changed)
        for name in removed:
            old.pop(name, None)
        return True

    def _may_merge(self, event: PersonEvent, other: str) -> bool:
        if other == event.distinct_id:
            return False
        for distinct_id in (event.distinct_id, other):
            if is_illegal(distinct_id):
                event.warn(
                    ingestion_warnings.ILLEGAL_ID, illegal=distinct_id, distinct_id=event.distinct_id, other=other
                )
                return False
        return True

    def _merge(self, event: PersonEvent, other: str) -> Person | None:
        """The person of both ids, or of the event's own if they stay apart; None if the event created it."""
        target, source = self.find(event.project, event.distinct_id), self.find(event.project, other)
        if target is None and source is None:
            self._create(event, [event.distinct_id, other]).is_identified = True
            return None
        if target is None or source is None:
            person = target or source
            assert person is not None
            self._assign(person, event.project, [other if target else event.distinct_id])
            return person
        if target is source:
            return target
        if source.is_identified and not event.forced:
            ids = {"distinct_id": event.distinct_id, "other": other}
            event.warn(ingestion_warnings.ALREADY_IDENTIFIED, **ids, person_id=target.id, other_person_id=source.id)
            return target
        target.properties = source.properties | target.properties
        target.created_at = min(target.created_at, source.created_at)
        source.merged_into = target
        self.changed.add(target)
        self.changed.discard(source)
        self.merged.append(source)
        return target

    def _create(self, event: PersonEvent, distinct_ids: list[str]) -> Person:
        id = person_uuid(event.project, event.distinct_id)
        person = Person(event.project, id, event.instant, event.set_once | event.set)
        self._assign(person, event.project, distinct_ids)
        self.changed.add(person)
        return person

    def _assign(self, person: Person, project: int, distinct_ids: Iterable[str]) -> None:
        for distinct_id in distinct_ids:
            self.ids[project, distinct_id] = self.new_ids[project, distinct_id] = person


# -- groups --------------------------------------------------------------------------------------------

LONGEST_TYPE = 400
"""The most characters of a group's type."""

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
