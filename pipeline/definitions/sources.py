"""Reads definitions: Mixpanel's Lexicon, Amplitude's taxonomy, a tracking plan, or a table of a person
(docs/know/exports.md#definition-exports).

A row of a table, and an item of Amplitude's API, are read in one way: by the names of their columns, without case,
spaces and signs. A JSON Schema is read as `plan --types` reads it.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pipeline.errors import UsageError
from pipeline.extractors.small_table import read_table
from pipeline.plan.scope import NO, YES
from pipeline.plan.statistics.tracking_plan import TrackingPlan
from pipeline.text import pluralize, printable

EVENT, PROPERTY, PERSON = "event", "property", "person"
_HINT = (
    "give the CSV or the schemas of Mixpanel's Lexicon, the CSV or the API's JSON of Amplitude's taxonomy, a tracking"
    " plan, or a table: kind,name,description,tags,verified,type"
)
_KINDS = {
    EVENT: EVENT, "track": EVENT, "events": EVENT,
    PROPERTY: PROPERTY, "eventproperty": PROPERTY, "propertygroupproperty": PROPERTY,
    PERSON: PERSON, "personproperty": PERSON, "user": PERSON, "userproperty": PERSON, "identify": PERSON,
    "profile": PERSON, "profileproperty": PERSON, "userprofileproperty": PERSON,
}  # fmt: skip
"""What a definition may be about, as tools spell it."""
TYPES = {
    "string": "String", "text": "String", "enum": "String",
    "number": "Numeric", "numeric": "Numeric", "integer": "Numeric", "int": "Numeric", "float": "Numeric",
    "boolean": "Boolean", "bool": "Boolean",
    "date": "DateTime", "datetime": "DateTime", "date-time": "DateTime", "timestamp": "DateTime",
}  # fmt: skip
"""The target's types of properties, by what tools call them (docs/know/service.md#definitions)."""
_COLUMNS = {
    "kind": "kind entitytype objecttype",
    "event": "event eventname eventtype objectname entityname",
    "name": "name",
    "property": "eventpropertyname eventproperty propertyname",
    "person": "userproperty userpropertyname",
    "description": "description objectdescription entitydescription eventdescription",
    "description of property": "propertydescription description",
    "tags": "tags eventtags entitytags",
    "tags of property": "propertytags tags",
    "verified": "verified",
    "hidden": "hidden dropped status ishidden entityhidden entitydropped eventhiddenfromdropdowns"
    " ishiddenfromdropdowns",
    "hidden of property": "hidden dropped status ishidden propertyhidden propertydropped propertyvisibility",
    "type": "type propertyvaluetype valuetype propertytype",
}
_ROLES = {role: tuple(names.split()) for role, names in _COLUMNS.items()}
_QUERIES = re.compile(r"(event)?(\d*day)?quer(ies|ycount)")
"""How often the tool's users queried it, such as `Event 30 Day Queries`."""
_KNOWN = {name for names in _ROLES.values() for name in names}
_AMPLITUDE = {"event_type", "event_property", "user_property"}
_FLAGS = {
    **dict.fromkeys((*YES, "hidden", "dropped", "blocked"), True),
    **dict.fromkeys((*NO, "visible", "live", "merged", "pending"), False),
}


class Definition(NamedTuple):
    """What a source says about an event, a property of events, or a property of persons, by its name in the old tool.

    `event` is the event whose property it is, "" if it is one of any event. `fields` are those that the source states:
    description, tags, verified, hidden, type. `use` says how the old tool's users use it, "" if the source does not.
    """

    kind: str
    name: str
    event: str
    fields: dict[str, Any]
    use: str
    place: str


@dataclass
class Definitions:
    """The definitions of a file. `unused` are columns that mean nothing here, `event` is that of the latest row, and
    `left_out` has the places of rows by their kind, and of values by what is wrong with them."""

    file: str
    found: list[Definition] = field(default_factory=list)
    unused: dict[str, None] = field(default_factory=dict)
    event: str = ""
    left_out: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def notices(self) -> list[str]:
        unused = ", ".join(printable(name, 60) for name in self.unused)
        columns = [f"{self.file}: {pluralize(len(self.unused), 'column')} not used: {unused}"] if unused else []
        return columns + [
            f"{self.file}: left out: {what} ({len(places):,}, the first: {places[0]})"
            for what, places in self.left_out.items()
        ]


def read_definitions(path: str) -> Definitions:
    """The definitions in a file. Raises UsageError for a file of no known shape, and for a row without a name."""
    result = Definitions(Path(path).name)
    for place, row in _rows(path):
        _read_row(result, place, row)
    if not result.found:
        raise UsageError(f"{path} defines no event and no property", hint=_HINT)
    return result


def _rows(path: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The rows of a table, the items of Amplitude's Taxonomy API, or the entries of a tracking plan as such rows."""
    try:
        content = Path(path).read_bytes().removeprefix(BOM_UTF8).lstrip()
        if content[:1] not in (b"{", b"["):
            return read_table(path, _HINT)
        document = msgspec.json.decode(content)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"cannot read {path}: {error}", hint=_HINT) from None
    items = document.get("data") if isinstance(document, dict) else None
    if isinstance(items, list) and all(isinstance(item, dict) and item.keys() & _AMPLITUDE for item in items):
        return [(f"item {number} of {Path(path).name}", item) for number, item in enumerate(items, 1)]
    return _of_schemas(TrackingPlan(path))


def _of_schemas(plan: TrackingPlan) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, kind, members, schema in plan.entries:
        properties = _object(plan.of_properties(schema, name).get("properties"))
        place, of_event = f"{name!r} of {plan.file}", _KINDS.get(kind.casefold(), kind or EVENT)
        if of_event != PERSON:
            yield place, {"kind": of_event, "name": name, **_stated(schema), **_stated(members)}
        elif "traits" in properties:
            properties = _object(_object(properties["traits"]).get("properties"))
        for one, inner in properties.items() if of_event in (EVENT, PERSON) else ():
            stated = {"kind": PROPERTY, "event": name} if of_event == EVENT else {"kind": PERSON}
            yield f"{one!r} in {place}", {**stated, "name": one, **_stated(_object(inner))}


def _stated(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a JSON Schema, or the entry that has it, states, with Mixpanel's own members, as cells of a row."""
    cells = {**schema, **_object(_object(schema.get("metadata")).get("com.mixpanel"))}
    types = cells.get("type") if isinstance(cells.get("type"), list) else [cells.get("type")]
    cells["type"] = " or ".join(str(one) for one in types or () if one not in (None, "null"))
    if str(cells.get("format")) in TYPES:
        cells["type"] = cells["format"]
    return {name: cells[name] for name in ("description", "tags", "hidden", "dropped", "type") if cells.get(name)}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _read_row(result: Definitions, place: str, row: Mapping[str, Any]) -> None:
    cells = {_plain(name): value.strip() if isinstance(value, str) else value for name, value in row.items()}
    unused = (name for name in row if _plain(name) not in _KNOWN and not _QUERIES.fullmatch(_plain(name)))
    result.unused |= dict.fromkeys(unused)
    kind, name, event = _subject(cells, result.event)
    result.event = name if kind == EVENT else event
    if kind not in (EVENT, PROPERTY, PERSON):
        result.left_out[f"rows about {kind}"].append(place)
        return
    if not name:
        raise UsageError(f"{place} has no name of what it defines", hint=_HINT)
    level = "" if kind == EVENT else " of property"
    fields: dict[str, Any] = {}
    if (description := _cell(cells, f"description{level}")) is not None:
        fields["description"] = str(description)
    stated_tags = _cell(cells, f"tags{level}") or ""
    listed = stated_tags if isinstance(stated_tags, list) else re.split(r"[,;|]", str(stated_tags))
    # As the target stores them (docs/know/service.md#definitions).
    if tags := {str(tag).strip().lower() for tag in listed} - {""}:
        fields["tags"] = sorted(tags)
    use = [f"{value} queries" for plain, value in cells.items() if _QUERIES.fullmatch(plain) and value]
    for column in ("verified", *_ROLES[f"hidden{level}"]):
        word = str(cells.get(column) or "").strip().casefold()
        if word and word not in _FLAGS:
            result.left_out[f"{column} {printable(word, 40)!r}, neither yes nor no"].append(place)
        if _FLAGS.get(word):
            fields["verified" if column == "verified" else "hidden"] = True
            if column != "verified":
                use.append("dropped" if "dropped" in (word, column) else "hidden")
    stated = next((str(cells[n]) for n in _ROLES["type"] if cells.get(n) and _plain(cells[n]) not in _KINDS), "")
    if level and stated:
        if kind_of_value := TYPES.get(stated.casefold()):
            fields["type"] = kind_of_value
        else:
            result.left_out[f"type {printable(stated, 40)}, which the target does not have"].append(place)
    result.found.append(Definition(kind, name, event if kind == PROPERTY else "", fields, ", ".join(use), place))


def _subject(cells: Mapping[str, Any], latest: str) -> tuple[str, str, str]:
    """The kind of what a row defines, its name, and the event that its property is of: that of an earlier row, if the
    row says only which kind of property it is."""
    person, named, name, event = (str(_cell(cells, role) or "") for role in ("person", "property", "name", "event"))
    stated = _plain(_cell(cells, "kind") or "")
    kind = _KINDS.get(stated, stated)
    if person:
        return PERSON, person.removeprefix("gp:"), ""
    if named:
        of_property = _KINDS.get(_plain(cells.get("propertytype") or ""), PROPERTY)
        return (kind if kind in (PROPERTY, PERSON) else of_property), named, event or ("" if stated else latest)
    if kind in (PROPERTY, PERSON):
        return kind, name or event, event if name else ""
    return kind or EVENT, event or name, ""


def _plain(value: Any) -> str:
    """A name or a word without case, spaces and signs."""
    return re.sub(r"[^a-z0-9]", "", str(value).casefold())


def _cell(cells: Mapping[str, Any], role: str) -> Any:
    return next((cells[name] for name in _ROLES[role] if cells.get(name) not in (None, "")), None)
