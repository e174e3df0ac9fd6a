"""What definitions would change at the target, and what is left out and why.

A name of the old tool becomes the name that the mapping gives it. A field is set if the target has none, or if the
person says that it may be overwritten. The target makes a definition when it first receives an event or a property, so
one that it does not have yet is left out (docs/know/service.md#definitions).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from pipeline.definitions.sources import EVENT, PERSON, PROPERTY, Definition, read_definitions
from pipeline.errors import UsageError
from pipeline.management import ManagementClient
from pipeline.management.models import ServiceObject
from pipeline.management.operations import LIST_EVENTS, LIST_PROPERTIES
from pipeline.management.problems import NotFound
from pipeline.management.resources import Listing
from pipeline.mapper import load
from pipeline.mapper.codegen.runtime import Spreader
from pipeline.mapper.compiler import check_settings
from pipeline.mapper.inspection.field_uses import FieldUses
from pipeline.mapper.language import sections as language
from pipeline.mapper.program.references import Level
from pipeline.models import SealedOptions

FORMAT = "backcast.definitions/1"
FIELDS = ("description", "tags", "verified", "hidden", "type")
_FLAGS = {"verified": "hidden", "hidden": "verified"}
"""The target keeps at most one of both: to set one clears the other."""
Fields = dict[str, Any]


class Change(msgspec.Struct, frozen=True):
    """A definition of the target, by its `id` and name there, and the fields to set. `before` has all its fields as
    they are; `names` are those of the old tool."""

    kind: str
    name: str
    id: str
    names: list[str]
    set: Fields
    before: Fields

    @property
    def after(self) -> Fields:
        """The fields that the change touches, as they are when it is made."""
        return {**{_FLAGS[name]: False for name, value in self.set.items() if name in _FLAGS and value}, **self.set}


class LeftOut(msgspec.Struct, frozen=True):
    """What is not changed, and why: the target has another value (kept) or no such definition (missing), the mapping
    sends nothing of that name (dropped) or makes several properties of it (ambiguous), or an earlier source, or another
    old name, counts (conflict). Later: the target refused or ignored it, the definition is gone, or somebody changed it
    after the plan to the value that is left (theirs)."""

    why: str
    kind: str
    name: str
    field: str = ""
    value: Any = None
    detail: str = ""


class DefinitionPlan(msgspec.Struct, frozen=True):
    """A plan to change definitions. `unchanged` counts the fields that the target has already."""

    format: str
    target: str
    project: str
    mapping: str
    changes: list[Change]
    unchanged: int
    left_out: list[LeftOut]
    notices: list[str]


class Found(NamedTuple):
    """A definition at the target: its kind, its name, and its fields."""

    kind: str
    name: str
    fields: Fields


def read_target(client: ManagementClient) -> dict[str, Found]:
    """Every definition of the client's project, by its id. Raises UsageError if the target has none of them."""
    listings = ((EVENT, LIST_EVENTS, None), (PROPERTY, LIST_PROPERTIES, "event"), (PERSON, LIST_PROPERTIES, "person"))
    found: dict[str, Found] = {}
    for kind, operation, type in listings:
        listing = Listing(client, operation, ServiceObject, {"limit": 500, **({"type": type} if type else {})})
        try:
            for one in (item.plain() for item in listing):
                found[str(one.get("id"))] = Found(kind, str(one.get("name")), fields_of(kind, one))
        except NotFound as error:
            raise UsageError(
                f"the target has no definitions: {error.message}",
                hint="check --project; definitions exist in PostHog, and in `backcast service --behaviour observed`",
            ) from None
    return found


def fields_of(kind: str, served: Mapping[str, Any]) -> Fields:
    """The fields of a definition as the service shows it; null is one way in which a field may be empty."""
    fields: Fields = {
        "description": served.get("description"),
        "tags": sorted(served.get("tags") or ()),
        "verified": served.get("verified") is True,
        "hidden": served.get("hidden"),
    }
    return fields if kind == EVENT else {**fields, "type": served.get("property_type")}


def same(one: Any, other: Any) -> bool:
    """Whether two values of a field are equal; all empty ones are."""
    return bool((one or None) == (other or None))


class NewNames:
    """The names with which a mapping sends events and properties."""

    def __init__(self, mapping: language.Mapping, options: SealedOptions) -> None:
        check_settings(mapping, options)
        self._mapping = mapping
        self._rules = {name: number for number, name in enumerate(mapping.events, 1)}
        self._level = Level(mapping.properties.open is not None, ())
        self._uses = FieldUses(mapping, options)
        person = mapping.person or language.Person()
        self._spreads = [
            Spreader(one.only, one.leave, one.rename, one.strip, one.prefix, one.blank)
            for one in (*person.spread_set, *person.spread_set_once)
        ]
        self._profiles = [rule.profiles for rule in mapping.events.values() if rule.profiles is not None]

    def of(self, kind: str, name: str, event: str = "") -> tuple[Collection[str], str]:
        """The names at the target, or none and why; `event` is the one whose property it is."""
        if kind == EVENT:
            return self._event(name)
        if kind == PROPERTY:
            fate = self._uses.fate(self._level, name, self._rules.get(event, 0), None)
            names = [to.removesuffix(" (hashed)") for to in fate.to if to[:1] != "("]
            return names, fate.by or f"it becomes {', '.join(fate.to)}"
        made = [spreader.new_name(name) for spreader in self._spreads]
        made += [None if name in rule.leave else rule.rename.get(name, name) for rule in self._profiles]
        names = sorted({one for one in made or [name] if one is not None})
        return names, f"it becomes {', '.join(names)}" if names else "the mapping leaves it out"

    def _event(self, name: str) -> tuple[Collection[str], str]:
        rule = self._mapping.events.get(name)
        if rule is None:
            return ([], "events: unlisted: reject") if self._mapping.unlisted == "reject" else ([name], "")
        if rule.skip or rule.link or rule.update or rule.group or rule.profiles:
            return [], f"events: {name}: {f'skip: {rule.skip}' if rule.skip else 'no event'}"
        return [rule.name or name], ""


def plan_changes(
    sources: Iterable[str],
    mapping: str,
    settings: Mapping[str, str],
    client: ManagementClient,
    overwrite: Collection[str],
) -> DefinitionPlan:
    """Compare the definitions in files with those of a client's project. The first definition of a field counts.
    Without a `mapping`, names are those of the target. Raises UsageError and MappingError."""
    names = NewNames(load(mapping), SealedOptions(0, settings=settings)) if mapping else None
    read = [read_definitions(source) for source in sources]
    left_out: list[LeftOut] = []
    wanted: dict[tuple[str, str], dict[str, tuple[Any, Definition]]] = {}
    for one in (one for file in read for one in file.found):
        new_names, why = ([one.name], "") if names is None else names.of(one.kind, one.name, one.event)
        if one.name not in new_names and len(new_names) != 1:
            left_out.append(LeftOut("ambiguous" if new_names else "dropped", one.kind, one.name, detail=why))
            continue
        for name in [one.name] if one.name in new_names else new_names:
            fields = wanted.setdefault((one.kind, name), {})
            for field, value in one.fields.items():
                first, by = fields.setdefault(field, (value, one))
                if first != value:
                    left_out.append(
                        LeftOut("conflict", one.kind, name, field, value, f"{one.place}; {by.place} counts")
                    )
    target = read_target(client)
    ids = {(found.kind, found.name): id for id, found in target.items()}
    changes, unchanged = [], 0
    for (kind, name), fields in sorted(wanted.items()):
        if (kind, name) not in ids:
            left_out.append(LeftOut("missing", kind, name))
            continue
        before = target[id := ids[kind, name]].fields
        if "hidden" in fields and "verified" in fields:
            left_out.append(
                LeftOut("conflict", kind, name, "verified", True, "it is hidden; the target cannot have both")
            )
            del fields["verified"]
        changed: Fields = {}
        for field, (value, _) in fields.items():
            present = before[field] or before.get(_FLAGS.get(field, ""))
            if same(before[field], value):
                unchanged += 1
            elif present and field not in overwrite:
                detail = f"the target has {before[field]!r}" if before[field] else f"it is {_FLAGS[field]} there"
                left_out.append(LeftOut("kept", kind, name, field, value, detail))
            else:
                changed[field] = value
        if changed:
            old = sorted({one.name for _, one in fields.values()})
            changes.append(Change(kind, name, id, old, changed, before))
    notices = [line for file in read for line in file.notices]
    return DefinitionPlan(
        FORMAT, client.base_url, client.project_id or "", mapping, changes, unchanged, left_out, notices
    )
