"""Which rule of a mapping gives a property of an event its value, and on which line of the mapping file the rule is."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from pipeline.mapper.language.parsed import Places
from pipeline.mapper.language.sections import Changes, Mapping

KEPT = "kept under its name"
BACKCAST = "set by backcast"


class Origin(NamedTuple):
    """A rule, as the keys of the mapping that lead to it or in words. `line` counts from 1; 0 if the rule is not in the
    mapping."""

    rule: str
    line: int = 0


class Origins:
    """The rules of one mapping, by what they give. `own` are properties that every import adds to its events."""

    def __init__(self, mapping: Mapping, own: Collection[str]) -> None:
        self._own = own
        self._mapping = mapping
        self._places = Places(mapping)
        self._rules = dict(enumerate(mapping.events, 1))
        self._line = lru_cache(maxsize=10_000)(self._line_of)

    def member(self, name: str, rule: int) -> Origin:
        """The rule for `event`, `distinct_id`, `timestamp` or `uuid` of an event; `rule` is the number of its name's
        rule."""
        mapping, event = self._mapping, self._rules.get(rule)
        if name == "event" and event is not None and mapping.events[event].name:
            return self._at("events", event, "as")
        if name == "uuid":
            key = "uuid" if mapping.uuid is not None else "key"
            return self._at(key) if getattr(mapping, key) is not None else Origin("from the content of the row")
        return self._at("time" if name == "timestamp" else name)

    def property(self, name: str, rule: int, fields: Collection[str]) -> Origin:
        """The rule for a property of an event. `fields` are the fields of the row that it comes from, as a mapping
        refers to them."""
        mapping, event = self._mapping, self._rules.get(rule)
        section = mapping.properties
        if event is not None and (path := _change(mapping.events[event], name, fields)):
            return self._at("events", event, *path)
        if path := _change(section, name, fields):
            return self._at("properties", *path)
        if mapping.groups is not None and (name == "$groups" or name.startswith("$group_")):
            return self._at("groups")
        if name in section.hash:
            return self._at("properties", "hash", name)
        if name in section.types:
            return self._at("properties", "types", name)
        if name in fields:
            return Origin(KEPT)
        if name in ("$set", "$set_once", "$unset") and mapping.person is not None:
            return self._at("person")
        if section.spread and any("/" in field for field in fields):
            return self._at("properties", "spread")
        if fields:
            if any(f"/{name}" == field for field in fields):
                return Origin(KEPT)
            if section.reserved and any(field in section.reserved for field in fields):
                return self._at("properties", "reserved")
            return self._at("properties", "rest") if section.rest else Origin("kept under a new name")
        if name in self._own:
            return Origin(BACKCAST)
        if mapping.code is not None:
            return self._at("python")
        if section.spread:
            return self._at("properties", "spread")
        return self._at("properties") if mapping.decoder is None else self._at("decoder")

    def _at(self, *path: str) -> Origin:
        return Origin(": ".join(path), self._line(path))

    def _line_of(self, path: tuple[str, ...]) -> int:
        return self._places.of(*path).line


def _change(changes: Changes, name: str, fields: Collection[str]) -> tuple[str, ...]:
    """The keys that lead to the change that gives a property, () if there is none."""
    if name in changes.set:
        return "set", name
    old = next((field for field in fields if changes.rename.get(field) == name), None)
    if old is not None:
        return "rename", old
    return ("fill", name) if name in changes.fill and name not in fields else ()
