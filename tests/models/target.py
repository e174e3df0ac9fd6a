"""What the target makes of events in their order of arrival: persons, merges, properties and groups.

Written from the documents alone, as the other models here: it imports nothing of the product. *service* is
docs/know/service.md, *facts* the pages of facts next to the design.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

ANY_CASE = frozenset(
    [
        "anonymous",
        "guest",
        "distinctid",
        "distinct_id",
        "id",
        "not_authenticated",
        "email",
        "undefined",
        "true",
        "false",
    ]
)
EXACT = frozenset(["[object Object]", "NaN", "None", "none", "null", "0", "undefined"])
ADDED_PER_EVENT = frozenset(
    ["00000000-0000-0000-0000-000000000000", "anonymous-user", "backend", "nan", "system", "user"]
)
"""service#ids-and-text; the third list: facts 1.7, which makes twenty with the others."""
ABOUT_PEOPLE = ("$identify", "$create_alias", "$merge_dangerously", "$groupidentify", "$group_identify")
ALREADY, ILLEGAL = "cannot_merge_already_identified", "cannot_merge_with_illegal_distinct_id"
NO_PROFILE = "invalid_event_when_process_person_profile_is_false"


def illegal(name: str) -> bool:
    """Whether no merge may touch this id (service#ids-and-text)."""
    bare = name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"" else name
    return not name.strip() or bare.lower() in ANY_CASE or bare in EXACT


def person_less_per_event(name: str) -> bool:
    """Whether the per-event endpoint takes events of this id without person processing (service#per-event-endpoint)."""
    return name.lower() in ANY_CASE | {one.lower() for one in EXACT} | ADDED_PER_EVENT


def as_text(value: object) -> str:
    """An id of any JSON (service#ids-and-text): a string as it is, everything else as its JSON; NUL is replaced."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("\0", "\ufffd")


def key_as_text(value: object) -> str:
    """A group's key. Numbers have passed through JavaScript (service#stored-values), in which 7.0 is 7."""
    return as_text(int(value) if isinstance(value, float) and value.is_integer() else value)[:400]


@dataclass
class Person:
    """The ids that are one person, and what is known about it."""

    ids: set[str]
    created: str
    identified: bool = False
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass
class Target:
    """A project. `promoted` are the properties of events that it copies to persons; `per_event` its other endpoint."""

    per_event: bool = False
    promoted: Collection[str] = ()
    of: dict[str, Person] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)
    groups: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def persons(self) -> dict[tuple[str, ...], Person]:
        """Each person by its ids."""
        return {tuple(sorted(one.ids)): one for one in self.of.values()}

    def take(self, event: Mapping[str, Any]) -> bool:
        """One event arrives; whether it is stored. The order of arrival decides, not the time (service#persons)."""
        name, properties = event["event"], dict(event.get("properties") or {})
        given = event.get("distinct_id")
        id_ = as_text(properties.get("distinct_id", "") if given is None else given)
        if self.per_event:  # service#per-event-endpoint: trimmed, and what is too long is dropped
            id_ = id_.strip()
            if name == "$performance_event" or max(len(name.encode()), len(id_.encode())) > 200:
                return False
            if person_less_per_event(id_):
                properties["$process_person_profile"] = False
        if not name or not id_.strip():  # service#answers, #per-event-endpoint
            return False
        id_ = id_[:200]  # service#ids-and-text
        for kind in ("$set", "$set_once"):  # service#event-fields: they override those in the properties
            if isinstance(event.get(kind), Mapping):
                properties[kind] = {**(properties.get(kind) or {}), **event[kind]}
        if properties.get("$process_person_profile") is False:  # service#persons: only the boolean counts
            if name in ABOUT_PEOPLE:
                self.warnings.append((NO_PROFILE, id_))
                return False
            return True
        if name in ("$groupidentify", "$group_identify") and not self._group(properties):  # service#two-spellings
            return False
        if isinstance(properties.get("$groups"), Mapping):  # service#groups: in any event
            for kind in properties["$groups"]:
                self._numbered(kind)
        merged = self._merge(name, id_, properties, event["timestamp"])
        person = self.of.get(id_) or self._new({id_}, event["timestamp"])
        person.identified |= merged
        if name not in ("$exception", "$$heatmap"):  # service#persons: these never write
            self._write(person.properties, properties)
        return True

    def _new(self, ids: set[str], at: str) -> Person:
        made = Person(ids, at)
        self.of |= dict.fromkeys(ids, made)
        return made

    def _merge(self, name: str, kept: str, properties: Mapping[str, Any], at: str) -> bool:
        """service#merges. Whether the person of the event's id is identified from now on.

        The documents do not say whether a merge that is refused because the other is identified identifies its own
        person all the same. It does here: the more careful reading, since such a person can then not be absorbed.
        """
        key = {"$identify": "$anon_distinct_id", "$create_alias": "alias", "$merge_dangerously": "alias"}.get(name)
        if key is None or key not in properties:
            return False
        given = properties[key]
        if name != "$identify" and given in ("", None):
            return False
        other = as_text(given)
        if other == kept:
            return False
        if illegal(other) or illegal(kept):
            self.warnings.append((ILLEGAL, kept))
            return False
        stays, absorbed = self.of.get(kept), self.of.get(other)
        if stays and absorbed and stays is not absorbed:
            if absorbed.identified and name != "$merge_dangerously":
                self.warnings.append((ALREADY, kept))
                return True
            stays.ids |= absorbed.ids
            stays.properties = {**absorbed.properties, **stays.properties}
            stays.created = min(stays.created, absorbed.created)
            self.of |= dict.fromkeys(absorbed.ids, stays)
        else:  # none exists: one with both ids; one exists: it gets the other id
            only = stays or absorbed or self._new({kept, other}, at)
            only.ids |= {kept, other}
            self.of |= {kept: only, other: only}
        return True

    def _write(self, held: dict[str, Any], properties: Mapping[str, Any]) -> None:
        """service#persons: set overwrites what differs, set once fills what is absent or null, an explicit value
        overrides a copied one. Both look at the person's properties before the event."""
        before = dict(held)
        copied = {name: properties[name] for name in self.promoted if name in properties}
        once = {f"$initial_{name.removeprefix('$')}": value for name, value in copied.items()}
        for name, value in {**once, **_object(properties.get("$set_once"))}.items():
            if before.get(name) is None:
                held[name] = value
        for name, value in {**copied, **_object(properties.get("$set"))}.items():
            if name not in before or before[name] != value:
                held[name] = value
        unset = properties.get("$unset")
        for name in unset if isinstance(unset, list | dict) else ():
            held.pop(name, None)

    def _numbered(self, kind: str) -> bool:
        """service#groups: five types, numbered as they arrive; a sixth is ignored."""
        if kind not in self.types and len(self.types) < 5:
            self.types.append(kind)
        return kind in self.types

    def _group(self, properties: Mapping[str, Any]) -> bool:
        """service#groups. Whether the event is kept."""
        kind, key, values = (properties.get(f"$group_{part}") for part in ("type", "key", "set"))
        if values is not None and not isinstance(values, Mapping):
            return False
        if kind and key not in (None, "") and self._numbered(str(kind)[:400]):
            held = self.groups.setdefault((str(kind)[:400], key_as_text(key)), {})
            held |= values or {}
        return True


def _object(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
