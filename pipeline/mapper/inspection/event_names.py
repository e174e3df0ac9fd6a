"""Which names of events need no rule: those in `events` and `known`, texts that `event` makes, the service's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from pipeline.mapper import service_names
from pipeline.mapper.language import sections as language
from pipeline.mapper.program.builder import NO_TABLES, Tables
from pipeline.mapper.program.lookup_table import StoredTable
from pipeline.mapper.verbs.values import HOLE


class EventNames:
    """The names that a mapping names; `lookups` are the entries of its lookup files."""

    def __init__(self, mapping: language.Mapping, lookups: Tables = NO_TABLES) -> None:
        self._listed = {*mapping.events, *_made(mapping.event, mapping, {**mapping.tables, **lookups})}
        self._known = NamePatterns(mapping.known.events)
        self._templates = tuple(_templates(mapping.event))

    def is_named(self, name: str) -> bool:
        """Whether the mapping names an event's name, or the service gives it its meaning."""
        if name in self._listed or name in service_names.EVENTS or self._known.match(name):
            return True
        return any(fnmatchcase(name, pattern) for pattern in self._templates)


class NamePatterns:
    """Names, and beginnings of names that end in `*`. A match costs the same however many there are."""

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = frozenset(patterns)
        self._begins = {pattern[:-1] for pattern in patterns if pattern.endswith("*")}
        self._lengths = sorted(set(map(len, self._begins)))
        self._names = {pattern for pattern in patterns if not pattern.endswith("*")}

    def match(self, name: str) -> bool:
        """Whether a name is one of these, or begins with one of the beginnings."""
        return name in self._names or any(name[:length] in self._begins for length in self._lengths)


def _made(given: Any, mapping: language.Mapping, tables: Tables) -> set[str]:
    """The fixed texts that a value can give."""
    if not isinstance(given, language.Call):
        return set().union(*(_made(one, mapping, tables) for one in given)) if isinstance(given, tuple) else set()
    arguments = given.arguments
    match given.verb:
        case "const":
            return {arguments["const"]}
        case "lookup":
            table = arguments.get("in", tables.get(arguments.get("table", ""), {}))
            fixed = () if isinstance(table, StoredTable) else table.values()  # too many names to compare with
            return {*fixed} | _made(arguments.get("else"), mapping, tables)
        case "ref":
            name = arguments["ref"]
            defined = mapping.define.get(name[1:]) if name.startswith("@") else None
            return _made(defined, mapping, tables)
        case _:
            inner = (one for name, one in arguments.items() if name != "when" or not isinstance(one, language.Call))
            return set().union(*(_made(one, mapping, tables) for one in inner))


def _templates(given: Any) -> Iterator[str]:
    """Patterns of the texts of templates that have a text of their own."""
    if isinstance(given, tuple):
        for one in given:
            yield from _templates(one)
    elif isinstance(given, language.Call):
        if given.verb == "template":
            fixed = HOLE.sub(lambda hole: "*" if hole.group(1) else "?", given.arguments["template"].replace("[", "?"))
            if fixed.strip("*"):
                yield fixed
        else:
            for one in given.arguments.values():
                yield from _templates(one)
