"""Ids that no merge may touch (docs/know/service.md#ids-and-text).

An event under such an id is taken and makes a person like any other; only a merge that names it is refused, or all
visitors whose id was not set would become one person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import Raw

from pipeline.local_service import ingestion_warnings
from pipeline.local_service.people.updates import MINOR, PERSON_EVENTS, Seen
from pipeline.local_service.settings import Settings

LONGEST_MERGED = 400
"""Characters of an id that a merge may name: no longer one can be kept."""

_ANY_CASE = [
    "anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email",
    "undefined", "true", "false",
]  # fmt: skip
_AS_WRITTEN = ["[object Object]", "NaN", "None", "none", "null", "0", "undefined"]


def _with_quotes(words: list[str]) -> frozenset[str]:
    return frozenset(template.format(word) for word in words for template in ("{}", "'{}'", '"{}"'))


_LOWERED = _with_quotes(_ANY_CASE)
_WRITTEN = _with_quotes(_AS_WRITTEN)


def is_illegal(distinct_id: str) -> bool:
    """Whether merges of this id are refused."""
    return (
        not distinct_id.strip()
        or distinct_id in _WRITTEN
        or distinct_id.lower() in _LOWERED
        or "\0" in distinct_id
        or len(distinct_id) > LONGEST_MERGED
    )


_NULL = Raw(b"null")


@dataclass(slots=True, eq=False)
class Person:
    """A person. Values of `properties` are exact JSON texts; `created_at` is microseconds since 1970 (UTC)."""

    project: int
    id: str
    created_at: int
    properties: dict[str, Raw] = field(default_factory=dict)
    is_identified: bool = False
    absorbed_by: Person | None = None

    @property
    def final(self) -> Person:
        """The person that this one has become part of, or itself."""
        person = self
        while person.absorbed_by is not None:
            person = person.absorbed_by
        return person


def person_uuid(project: int, distinct_id: str) -> str:
    """The id of the person that an id makes; the same as the SQL macro of this name."""
    digits = hashlib.md5(f"{project}:{distinct_id}".encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-3{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


def update(person: Person, seen: Seen, settings: Settings) -> bool:
    """Write the event's properties into the person; whether anything changed."""
    old = person.properties
    added = {
        name: value for name, value in seen.once.items() if name not in old or (old[name] == _NULL and value != _NULL)
    }
    changed = {name: value for name, value in seen.set.items() if old.get(name) != value}
    removed = [name for name in seen.unset if name in old]
    if settings.promoted_changes == "skipped" and seen.event not in PERSON_EVENTS:
        worth_it = removed or added or any(name not in MINOR or name not in old for name in changed)
        if not worth_it:
            return False
    if not (added or changed or removed):
        return False
    old.update(added | changed)
    for name in removed:
        old.pop(name, None)
    return True


Id = tuple[int, str]
"""A project and a distinct_id in it."""


@dataclass(slots=True)
class Persons:
    """The persons of some ids, while events are taken in the order of their acceptance.

    `ids` must hold every id that an event to be taken may name and that already has a person. What has changed is left
    in `changed`, `given` (ids that had no person before) and `absorbed`.
    """

    settings: Settings
    ids: dict[Id, Person] = field(default_factory=dict)
    changed: set[Person] = field(default_factory=set)
    given: dict[Id, Person] = field(default_factory=dict)
    absorbed: list[Person] = field(default_factory=list)

    def find(self, project: int, distinct_id: str) -> Person | None:
        """The person that an id belongs to now."""
        person = self.ids.get((project, distinct_id))
        return None if person is None else person.final

    def take(self, seen: Seen) -> None:
        """Let one event count. Refused merges leave a notice on it; its properties are written all the same."""
        person = None
        if seen.other is not None and self._may_merge(seen, seen.other):
            person = self._merged(seen, seen.other)
            if person is None:
                return
            if not person.is_identified:
                person.is_identified = True
                self.changed.add(person)
        person = person or self.find(seen.project, seen.distinct_id)
        if person is None:
            self._create(seen, [seen.distinct_id])
        elif update(person, seen, self.settings):
            self.changed.add(person)

    def _may_merge(self, seen: Seen, other: str) -> bool:
        if other == seen.distinct_id:
            return False
        for distinct_id in (seen.distinct_id, other):
            if is_illegal(distinct_id):
                seen.tell(ingestion_warnings.ILLEGAL_ID, illegal=distinct_id, distinct_id=seen.distinct_id, other=other)
                return False
        return True

    def _merged(self, seen: Seen, other: str) -> Person | None:
        """The person of both ids, or of the event's own where they stay apart; None when the event is dealt with."""
        target, source = self.find(seen.project, seen.distinct_id), self.find(seen.project, other)
        if target is None and source is None:
            self._create(seen, [seen.distinct_id, other]).is_identified = True
            return None
        if target is None or source is None:
            person = target or source
            assert person is not None
            self._give(person, seen.project, [other if target else seen.distinct_id])
            return person
        if target is source:
            return target
        if source.is_identified and not seen.forced:
            ids = {"distinct_id": seen.distinct_id, "other": other}
            seen.tell(ingestion_warnings.ALREADY_IDENTIFIED, **ids, person_id=target.id, other_person_id=source.id)
            return target
        target.properties = source.properties | target.properties
        target.created_at = min(target.created_at, source.created_at)
        source.absorbed_by = target
        self.changed.add(target)
        self.changed.discard(source)
        self.absorbed.append(source)
        return target

    def _create(self, seen: Seen, distinct_ids: list[str]) -> Person:
        person = Person(seen.project, person_uuid(seen.project, seen.distinct_id), seen.instant, seen.once | seen.set)
        self._give(person, seen.project, distinct_ids)
        self.changed.add(person)
        return person

    def _give(self, person: Person, project: int, distinct_ids: Iterable[str]) -> None:
        for distinct_id in distinct_ids:
            self.ids[project, distinct_id] = self.given[project, distinct_id] = person
