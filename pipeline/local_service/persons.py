"""One person, and how an event changes its properties (service-behaviour 1.10).

The order of acceptance decides, never a timestamp: the last `$set` wins, whenever it happened.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from msgspec import Raw

from .names import PERSON_EVENTS
from .person_events import Seen
from .promotion import MINOR
from .settings import Settings

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
