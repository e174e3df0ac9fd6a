"""Which person an id belongs to, and what merges do to it (service-behaviour 1.10).

`$identify` with `$anon_distinct_id`, and `$create_alias` and `$merge_dangerously` with `alias`, absorb the person of
that other id into the person of the event's own id. A person that is identified can be absorbed by
`$merge_dangerously` alone. So of a chain a→b, b→c the second link is refused: the first made b identified.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from . import notices
from .illegal_ids import is_illegal
from .person_events import Seen
from .persons import Person, person_uuid, update
from .settings import Settings

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
                seen.tell(notices.ILLEGAL_ID, illegal=distinct_id, distinct_id=seen.distinct_id, other=other)
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
            seen.tell(notices.ALREADY_IDENTIFIED, **ids, person_id=target.id, other_person_id=source.id)
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
