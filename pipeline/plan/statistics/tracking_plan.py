"""Reads a tracking plan and compares the events of a plan with it (`plan --types`).

A tracking plan has a JSON Schema for the properties of each event; docs/know/exports.md#tracking-plans has the shapes
of exports. The values are those of the plan's sample, so numbers of events are estimates if it has only some of them: a
plan reads values nowhere else, and an exact count would decode each event once more. Names are counted exactly. Events
are as they are sent, duplicates included.
"""

from __future__ import annotations

import hashlib
import json
import re
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pipeline.encoder.encoded import DecodedEvent, read_properties
from pipeline.encoder.event import RESERVED
from pipeline.errors import UsageError
from pipeline.plan.samples.examples import shown_value
from pipeline.plan.samples.source_pairs import Shown
from pipeline.plan.sealed.facts import TrackingSeal, Violation
from pipeline.plan.statistics.sample import EventSample
from pipeline.plan.statistics.values import NO_PLACE
from pipeline.text import printable

MOST_LISTED = 300
_IS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: type(value) in (int, float),
    "integer": lambda value: type(value) is int or (type(value) is float and value.is_integer()),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}
_LIMITS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "enum": ("", lambda value, allowed: any(_same(value, one) for one in allowed)),
    "const": ("", lambda value, allowed: _same(value, allowed)),
    "pattern": ("string", lambda value, pattern: re.search(pattern, value)),
    "minLength": ("string", lambda value, limit: len(value) >= limit),
    "maxLength": ("string", lambda value, limit: len(value) <= limit),
    "minimum": ("number", lambda value, limit: value >= limit),
    "maximum": ("number", lambda value, limit: value <= limit),
}
"""The keywords that limit a value: the type that they apply to ("" for any), and whether a value keeps the limit."""
_COMPOSED = frozenset(("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"))
"""Keywords that can allow properties which `properties` does not list."""
_NOT_CHECKED = _COMPOSED | {
    "$dynamicRef", "not", "dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "contains",
    "additionalItems", "prefixItems", "unevaluatedItems", "unevaluatedProperties", "format", "multipleOf", "minItems",
    "maxItems", "uniqueItems", "minProperties", "maxProperties", "exclusiveMinimum", "exclusiveMaximum",
}  # fmt: skip
"""The keywords of JSON Schema that restrict a value and are not applied."""
_TAKES = {
    "enum": "array", "required": "array", "properties": "object", "items": "object", "additionalProperties": "boolean",
    "pattern": "string", "minLength": "number", "maxLength": "number", "minimum": "number", "maximum": "number",
}  # fmt: skip
"""The type of each keyword that is applied. With a value of another type, such as a list of `items`, it is not."""
_LISTS = (("rules", "events"), ("data", "rules"), ("events",), ("results",), ("entries",), ("rules",))
_NAMES, _KINDS = ("name", "key", "event"), ("type", "eventType", "entityType")
_SCHEMAS = ("rules", "jsonSchema", "json_schema", "schemaJson", "schema")
_OF_A_CALL = {"properties", "context", "traits", "type", "event", "name", "userId", "anonymousId", "messageId"}
"""What the schema of a whole call may describe; the schema of the properties is inside."""
_OF_A_SCHEMA = {"type", "properties", "required", "additionalProperties", "$schema", *_COMPOSED}
_HINT = 'give an export of Segment, RudderStack, Avo or Mixpanel, or JSON: {"Signed Up": {"properties": {"plan": {}}}}'


class TrackingPlan:
    """The tracking plan in a file. `events` are the schemas of the properties of each event, `entries` all entries with
    a schema: the name, the kind ("" if it states none), the entry and the schema. `not_checked` has the places of what
    is not applied, by keyword. Raises UsageError if the file has no such shape."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file = Path(path).name
        self.events: dict[str, Mapping[str, Any]] = {}
        self.entries: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = []
        self.not_checked: defaultdict[str, list[str]] = defaultdict(list)
        try:
            content = Path(path).read_bytes()
            document = msgspec.json.decode(content.removeprefix(BOM_UTF8))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"cannot read {self.file} as JSON: {error}", hint=_HINT) from None
        self.digest = hashlib.sha256(content).hexdigest()
        for event, schema in self._schemas(document):
            if event in self.events:
                raise UsageError(f"{self.file} has two schemas of {event!r}", hint="keep the one that applies")
            self.events[event] = self.of_properties(schema, event)
            self._look(self.events[event], event)
        if not self.events:
            raise UsageError(f"{self.file} has no schema of any event", hint=_HINT)

    def _schemas(self, document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each event's name and schema."""
        entries = document if isinstance(document, list) else self._entries(document)
        if entries is None:
            if not isinstance(document, dict) or not all(map(_is_schema, document.values())):
                raise UsageError(f"{self.file} is not a tracking plan of a known shape", hint=_HINT)
            self.entries += [(name, "", schema, schema) for name, schema in document.items()]
            yield from document.items()
        for number, entry in enumerate(entries or (), 1):
            name, kind, schema = (_first(entry, keys) for keys in (_NAMES, _KINDS, _SCHEMAS))
            if isinstance(name, str) and isinstance(schema, dict):
                self.entries.append((name, str(kind or ""), entry, schema))
            if isinstance(kind, str) and kind.lower() not in ("track", "event"):
                self.not_checked[f"rules of {kind.lower()}"].append(str(name or f"entry {number}"))
            elif isinstance(name, str) and isinstance(schema, dict):
                yield name, schema
            else:
                raise UsageError(f"{self.file}: entry {number} has no name with a JSON Schema", hint=_HINT)

    def _entries(self, document: Any) -> list[Any] | None:
        """The list of events in an export; None for any other document."""
        for *path, last in _LISTS:
            outer = document
            for key in path:
                outer = _first(outer, (key,))
            if isinstance(entries := _first(outer, (last,)), list):
                if _first(outer.get("pagination"), ("next",)):
                    raise UsageError(f"{self.file} is one page of a tracking plan", hint="join the lists of all pages")
                for other in ("global", "identify", "group"):
                    if outer.get(other):
                        self.not_checked[f"rules of {other}"].append(self.file)
                return entries
        return None

    def of_properties(self, schema: dict[str, Any], event: str) -> dict[str, Any]:
        """The part of an event's schema that describes its properties."""
        inner = schema.get("properties")
        if not isinstance(inner, dict) or not inner.keys() <= _OF_A_CALL or not _is_schema(inner.get("properties")):
            return schema
        for other in ("context", "traits"):
            if _first(inner.get(other), ("properties", "required")):
                self.not_checked[other].append(event)
        return dict(inner["properties"])

    def _look(self, schema: Any, place: str) -> None:
        """Note what is not applied, and remove keywords whose value is of another type."""
        if not isinstance(schema, dict):
            if schema is not True:
                self.not_checked[str(schema)].append(place)
            return
        odd = [key for key in schema.keys() & _TAKES.keys() if not _is_taken(key, schema[key])]
        unknown = (f"type {one}" for one in _types(schema) if one not in _IS)
        for keyword in (*odd, *unknown, *(schema.keys() & _NOT_CHECKED)):
            self.not_checked[keyword].append(place)
        for keyword in odd:
            del schema[keyword]
            if keyword == "additionalProperties":
                schema[keyword] = True
        for name, inner in schema.get("properties", {}).items():
            self._look(inner, f"{place}, {name}")
        self._look(schema.get("items", True), f"{place}[]")


class Broken(NamedTuple):
    """A rule that a value breaks: the names that lead to the value, the rule, and what it expects."""

    path: tuple[str, ...]
    rule: str
    expected: str = ""


class _Found(msgspec.Struct):
    events: float = 0.0
    place: int = NO_PLACE
    example: str = ""


def compare(plan: TrackingPlan, sample: EventSample, shown: Shown, row_at: Callable[[int], str]) -> TrackingSeal:
    """What breaks the tracking plan, the most frequent first."""
    found: dict[tuple[str, Broken], _Found] = defaultdict(_Found)
    unseen = set(plan.events)
    for name, months in sample.names():
        schema = plan.events.get(name)
        unseen.discard(name)
        for month in months:
            if schema is None:
                one = found[name, Broken((), "unplanned event")]
                one.events += month.events
                one.place = min((one.place, *(place for some in month.some for place in some.places)))
                continue
            for text, place in (pair for some in month.some for pair in zip(some.texts, some.places, strict=True)):
                properties = {key: one for key, one in read_properties(text).items() if key not in RESERVED}
                values = {key: json.loads(bytes(one)) for key, one in properties.items()}
                for broken in set(broken_by(schema, values)):
                    one = found[name, broken]
                    one.events += month.events / month.sampled
                    if place < one.place:
                        one.place, top = place, broken.path[0]
                        event = DecodedEvent(name, properties, "", "")
                        one.example = shown_value(event, top, shown) if top in properties else ""
    ranked = sorted(found.items(), key=lambda pair: (-pair[1].events, pair[0]))
    violations = [
        Violation(
            printable(name, 200), printable(".".join(broken.path).replace(".[]", "[]"), 200), broken.rule,
            printable(broken.expected, 80), round(one.events), one.example,
            row_at(one.place) if one.place != NO_PLACE else "",
        )
        for (name, broken), one in ranked[:MOST_LISTED]
    ]  # fmt: skip
    not_checked = {
        keyword: f"{len(places):,}, the first in {printable(places[0], 120)}"
        for keyword, places in sorted(plan.not_checked.items())
    }
    return TrackingSeal(plan.file, plan.digest, len(plan.events), violations, len(ranked), sorted(unseen), not_checked)


def broken_by(schema: Any, value: Any, path: tuple[str, ...] = ()) -> Iterator[Broken]:
    """The rules of a schema that a value breaks.

    Inside a value, other properties are allowed unless the schema forbids them, as JSON Schema says. An event's own
    (without a `path`) are unplanned unless the schema allows others expressly, or the name begins with $.
    """
    if not isinstance(schema, dict):
        return
    types = _types(schema)
    if types and not any(_IS.get(one, lambda _: True)(value) for one in types):
        yield Broken(path, "type", " or ".join(types))
        return
    for keyword in schema.keys() & _LIMITS.keys():
        of, keeps = _LIMITS[keyword]
        if (not of or _IS[of](value)) and not keeps(value, schema[keyword]):
            yield Broken(path, keyword, json.dumps(schema[keyword], ensure_ascii=False))
    if isinstance(value, dict):
        listed = schema.get("properties", {})
        yield from (Broken((*path, name), "missing") for name in schema.get("required", ()) if name not in value)
        closed = not schema.get("additionalProperties", bool(path) or not listed) and not schema.keys() & _COMPOSED
        for name, one in value.items():
            if name in listed:
                yield from broken_by(listed[name], one, (*path, name))
            elif closed and (path or not name.startswith("$")):
                yield Broken((*path, name), "unplanned property")
    elif isinstance(value, list) and "items" in schema:
        for one in value:
            yield from broken_by(schema["items"], one, (*path, "[]"))


def _types(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema allows; none if it allows all."""
    found = schema.get("type", [])
    return [str(one) for one in found] if isinstance(found, list) else [str(found)]


def _is_taken(keyword: str, value: Any) -> bool:
    """Whether a keyword is applied with this value; a pattern has to be one that Python understands."""
    try:
        return _IS[_TAKES[keyword]](value) and (keyword != "pattern" or bool(re.compile(value)))
    except re.error:
        return False


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _first(entry: Any, keys: tuple[str, ...]) -> Any:
    return next((entry[key] for key in keys if key in entry), None) if isinstance(entry, dict) else None


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and (not value or bool(value.keys() & _OF_A_SCHEMA))
