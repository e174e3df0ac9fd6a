"""References: the names by which a mapping looks up values, and those values in a row outside any mapper.

A reference is a property's name, or the path `/column` or `/column/member/…` of the row, or `@name` or `@name/member/…`
of a definition, with `~1` for a slash and `~0` for a tilde inside a name. A decimal step can also be a list index.

A plan compares a mapping's references with the names that its coverage counted (`pipeline.plan.statistics.unmatched`),
so that a misspelt column does not silently lose a property of every event. It does not compare those of a shipped
mapping: they name what *any* export of a tool may have, most exports lack many, and cases and samples prove their
spelling. What an operator adds with --set, or in a mapping of their own, is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

import msgspec

from pipeline.extractors.file_rules import INTEGERS
from pipeline.mapper.codegen.runtime import member_at, members_of
from pipeline.mapper.language.kinds import Keys
from pipeline.mapper.language.sections import Call, Mapping, Place, Spread
from pipeline.models import SealedOptions
from pipeline.values import Record, Value

HOLE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|[{}]")
"""A reference in a template, a doubled brace, or a single one, which is an error."""


@lru_cache(4_096)
def path_steps(reference: str) -> tuple[str, ...]:
    """The names in a path, the column first."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in reference.removeprefix("/").split("/"))


def path_of(column: str) -> str:
    return "/" + column.replace("~", "~0").replace("/", "~1")


def definition_of(reference: str, mapping: Mapping) -> str | None:
    """The definition that a reference names; None for any other reference, including a property such as
    `@timestamp`."""
    if not mapping.define or not reference.startswith("@"):
        return None
    name = path_steps(reference)[0][1:]
    return name if name in mapping.define else None


def find(call: Call, record: Record, properties: Record | None = None) -> Value:
    """The value of a reference, or of the first of several that has one; without `properties`, the row itself is the
    properties."""
    if call.verb == "first":
        values = (find(candidate, record, properties) for candidate in call.arguments["first"])
        return next((value for value in values if value is not None), None)
    reference = str(call.arguments.get("ref", ""))
    if not reference.startswith("/"):
        return (record if properties is None else properties).get(reference)
    return value_at(reference, record)


def value_at(path: str, record: Record) -> Value:
    """The value at a path in a row. Raises BadValue."""
    column, *steps = path_steps(path)
    value = record.get(column)
    for step in steps:
        value = member_at(value, step)
    return value


def properties_of(mapping: Mapping, record: Record) -> Record:
    """The properties of a row: the opened object, or the row itself."""
    opened = mapping.properties.open
    return record if opened is None else members_of(find(opened, record))


def calls_in(part: object) -> Iterator[Call]:
    """Every verb in a part of a mapping, except in its cases, outermost first."""
    if isinstance(part, Call):
        yield part
        part = part.arguments
    if isinstance(part, Map):
        part = tuple(part.values())
    elif isinstance(part, Keys):
        part = tuple(getattr(part, name) for name in part.__struct_fields__ if name != "cases")
    for one in part if isinstance(part, tuple) else ():
        yield from calls_in(one)


def references_in(part: object) -> set[str]:
    """The references in a part of a mapping, except those in templates."""
    return {call.arguments["ref"] for call in calls_in(part) if call.verb == "ref"}


def definitions_for(part: object, mapping: Mapping) -> dict[str, Call]:
    """The definitions that a part of a mapping needs, in their order."""

    def named(part: object) -> Iterator[str | None]:
        for call in calls_in(part):
            for text in (call.arguments.get("ref", ""), *holes_of(call.arguments.get("template", ""))):
                yield definition_of(text, mapping)

    needed = {*named(part)}
    for name in reversed([*mapping.define]):  # a definition uses only those above it
        if name in needed:
            needed.update(named(mapping.define[name]))
    return {name: call for name, call in mapping.define.items() if name in needed}


def holes_of(template: str) -> list[str]:
    return [hole.group(1) for hole in HOLE.finditer(template) if hole.group(1)]


CONSTANTS = ("const", "json", "word", "refuse", "opened")
"""Verbs for values that come from no column."""


class Level(NamedTuple):
    """An object of a row: the row itself, or the opened properties (`opened`), or an object inside one of them."""

    opened: bool
    steps: tuple[str, ...]


class Reference(NamedTuple):
    """A name that a mapping reads in an object of the row. `text` is the reference in the mapping, `place` its place.

    The source must have one of the references with the same `slot`; without it no row has an event's name (`event`), a
    person (`distinct_id`), a time (`time`) or a key (`key` and a number). "" if the reference is optional.
    """

    level: Level
    name: str
    text: str
    place: Place | None
    slot: str = ""


def path_to(reference: Reference) -> Iterator[tuple[Level, str]]:
    """The names that lead to a reference's, each with the object that has it, its own name last."""
    level, name = reference.level, reference.name
    for number, step in enumerate(level.steps):
        yield Level(level.opened, level.steps[:number]), step
    yield level, name


def required_references(mapping: Mapping, options: SealedOptions, shipped: Iterable[Mapping]) -> tuple[Reference, ...]:
    """The references that some row of a source should have. `shipped` are the shipped mappings of the same tool, itself
    included."""
    references = _Finder(mapping, options).references
    of_shipped = {
        (reference.level, reference.name)
        for other in shipped
        for reference in _Finder(other, SealedOptions(as_of=0)).references
    }
    # A reference that a shipped mapping has too can replace the others of its slot, so none of them is required.
    optional = {reference.slot for reference in references if (reference.level, reference.name) in of_shipped}
    return tuple(
        reference._replace(slot="") if reference.slot in optional else reference
        for reference in dict.fromkeys(references)
        if (reference.level, reference.name) not in of_shipped
    )


def references_of(mapping: Mapping, options: SealedOptions) -> tuple[Reference, ...]:
    """All references of a mapping, including those to members of properties that are computed."""
    return tuple(dict.fromkeys(_Finder(mapping, options, computed=True).references))


def found_in(references: Iterable[Reference], mapping: Mapping, record: Record) -> list[Reference]:
    """The references whose names are in a row as it was read."""
    properties, found = properties_of(mapping, record), []
    for reference in references:
        members = properties if reference.level.opened else record
        for step in reference.level.steps:
            members = members_of(members.get(step))
        if reference.name in members:
            found.append(reference)
    return found


class _Finder:
    """Walks a mapping once. `references` has all its references, those of one slot together."""

    def __init__(self, mapping: Mapping, options: SealedOptions, *, computed: bool = False) -> None:
        self._mapping = mapping
        self._computed = computed
        self._options = options
        opened = mapping.properties.open
        self._column = (
            path_steps(opened.arguments["ref"])
            if opened is not None and opened.verb == "ref" and definition_of(opened.arguments["ref"], mapping) is None
            else None
        )
        self.references: list[Reference] = []
        self._identity()
        self._changes()
        for section in mapping.__struct_fields__:
            if section not in _APART:
                self._values(getattr(mapping, section))
        self._named()
        if mapping.decoder is not None and mapping.decoder.verb == "each_time":
            columns = (f"/{path.removeprefix('/')}" for path in mapping.decoder.arguments["each_time"].values())
            self._values(tuple(Call("ref", {"ref": column}, mapping.decoder.place) for column in columns))

    # -- references with a slot

    def _identity(self) -> None:
        mapping = self._mapping
        self._slot("event", (mapping.event,))
        self._slot("distinct_id", mapping.distinct_id.first)
        self._slot("time", [clock.source for clock in mapping.time])
        if mapping.key is None:
            self._slot("key 0", () if mapping.uuid is None else (mapping.uuid,))
        else:
            for number, part in enumerate((*mapping.key.of, *mapping.key.needs)):
                self._slot(f"key {number}", (part,))
            self._values((mapping.uuid, mapping.key.posthog))
        self._values(tuple(clock.proof_unless for clock in mapping.time))
        # The unit and the format of a clock are words.
        self._values(tuple((clock.source, clock.proof_unless) for clock in mapping.received))

    def _slot(self, slot: str, calls: Iterable[Call]) -> None:
        """Add references of which one is required, unless a value without a reference can replace them."""
        before = len(self.references)
        always = [self._alternatives(call, slot) for call in calls]
        if any(always):
            self.references[before:] = [reference._replace(slot="") for reference in self.references[before:]]

    def _alternatives(self, call: Call, slot: str) -> bool:
        """Add the references of a value; returns whether it can have a value without any of them."""
        if call.verb in CONSTANTS:
            self._values(tuple(call.arguments.values()))
            return True
        name = definition_of(call.arguments["ref"], self._mapping) if call.verb == "ref" else None
        if name is not None:
            return self._alternatives(self._mapping.define[name], slot)
        if call.verb in ("ref", "setting", "template"):
            # A setting that was left out is not an alternative; a fixed text is.
            return not self._take(call, slot) and (call.verb != "setting" or self._given(call) is not None)
        without: list[bool] = []
        for name, given in call.arguments.items():
            inner = given.values() if isinstance(given, Map) else given if isinstance(given, tuple) else (given,)
            for argument in inner:
                if name == "when":
                    self._values(argument)
                elif isinstance(argument, Call):
                    without.append(self._alternatives(argument, slot))
        return any(without)

    # -- names of properties

    def _changes(self) -> None:
        properties = self._mapping.properties
        rules = list(self._mapping.events.values())
        added = {*properties.set, *properties.fill, *properties.rename.values()}
        for rule in rules:
            added |= {*rule.set, *rule.fill, *rule.rename.values()}
        for old in (*properties.rename, *(name for rule in rules for name in rule.rename)):
            self._property(old)
        for blank in properties.blank:
            for name in blank.within:
                self._property(name)
        if not properties.spread:  # types and hashes apply to properties after the changes
            for name in (*properties.types, *properties.hash):
                if name not in added and not name.startswith(f"{self._mapping.tool}_"):
                    self._property(name)

    def _property(self, name: str) -> None:
        self._add(Level(self._mapping.properties.open is not None, ()), name, name, None, "")

    # -- any value, anywhere

    def _values(self, part: object) -> None:
        for call in calls_in(part):
            self._take(call, "")

    def _named(self) -> None:
        """Add the references that are not verbs."""
        mapping = self._mapping
        person = () if mapping.person is None else (*mapping.person.spread_set, *mapping.person.spread_set_once)
        for spread in (*mapping.properties.spread, *person):
            self._members(spread)
        for profiles in (rule.profiles for rule in mapping.events.values()):
            if profiles is not None and profiles.each is None:
                self._reference(path_of(profiles.id), None, "")
                self._reference(path_of(profiles.properties), None, "")
        setting = "" if mapping.groups is None else mapping.groups.setting
        for name in filter(None, self._options.settings.get(setting, "").split(",")):
            self._reference(name, None, "")

    def _members(self, spread: Spread) -> None:
        """Add the members that a spread names in its object."""
        if spread.source.verb != "ref" or definition_of(spread.source.arguments["ref"], self._mapping) is not None:
            return
        level = self._level(spread.source.arguments["ref"])
        for name in (*spread.only, *spread.leave, *spread.rename):
            if not name.endswith("*"):
                self._add(level, name, f"{spread.source.arguments['ref']}/{name}", spread.source.place, "")

    def _take(self, call: Call, slot: str) -> bool:
        """Add the references of a `ref`, `setting` or `template`; returns whether it has any."""
        if call.verb == "ref":
            self._reference(call.arguments["ref"], call.place, slot)
            return True
        if call.verb == "setting":
            given = self._given(call)
            if given is None or given.startswith("="):
                return False
            self._reference(given, None, slot)
            return True
        if call.verb == "template":
            holes = holes_of(call.arguments["template"])
            for hole in holes:
                self._reference(hole, call.place, slot)
            return bool(holes)
        return False

    def _given(self, call: Call) -> str | None:
        return self._options.settings.get(call.arguments["setting"]) or call.arguments.get("default")

    def _reference(self, text: str, place: Place | None, slot: str) -> None:
        if definition_of(text, self._mapping) is not None:
            return  # its references are those of the section `define`
        path = text
        if text.startswith("/"):
            # An item of a list is compared by the name of the list.
            column, *steps = path_steps(text)
            path = "".join(map(path_of, (column, *takewhile(lambda step: not step.isdecimal(), steps))))
        level = self._level(path, less=1)
        name = path_steps(path)[-1] if path.startswith("/") else path
        self._add(level, name, text, place, slot)

    def _level(self, text: str, less: int = 0) -> Level:
        """The object that a reference refers to, or with `less` the object that contains it."""
        opens = self._mapping.properties.open is not None
        if not text.startswith("/"):
            return Level(opens, () if less else (text,))
        steps = path_steps(text)
        if self._column is not None and len(self._column) == 1 and steps[:1] == self._column and len(steps) > 1:
            return Level(True, steps[1 : len(steps) - less])
        return Level(False, steps[: len(steps) - less])

    def _add(self, level: Level, name: str, text: str, place: Place | None, slot: str) -> None:
        if level.opened and self._column is None and not self._computed:
            return  # the properties are a computed object, whose members are not names of the source
        self.references.append(Reference(level, name, text, place, slot))


_APART = frozenset(
    (
        "tool", "title", "event", "distinct_id", "time", "received", "recognise", "settings", "tables", "decoder",
        "table_from_path", "files", "lookup_files", "unlisted", "uuid", "key", "persons", "python",
        "cases", "file", "text", "code", "verbs",
    )
)  # fmt: skip
"""Sections without references to a column of the export's rows, or whose references are added with a slot."""


class NamedColumns(msgspec.Struct, frozen=True):
    """`all` is setting → column, with an entry `integers=COLUMN` for each column of integers. `needed` are sets of
    columns; each part of an export has one column of each set, because without it no row has an event's name, a person
    or a time."""

    all: dict[str, str]
    needed: tuple[frozenset[str], ...]


def named_columns(mapping: Mapping, options: SealedOptions) -> NamedColumns:
    """The columns that a mapping's settings name; fixed texts (`NAME==TEXT`) are not columns."""
    named: dict[str, str] = {}
    needed: list[frozenset[str]] = []
    clocks = tuple(clock.source for clock in mapping.time)
    for calls in ((mapping.event,), mapping.distinct_id.first, clocks):
        given = [_given(call, options) for call in calls]
        if all(call.verb == "setting" for call in calls) and not any(text.startswith("=") for text in given):
            needed.append(frozenset(filter(None, given)))
    for call in _settings(mapping):
        text = _given(call, options)
        if text and not text.startswith("="):
            named[call.arguments["setting"]] = text
    for column in filter(None, map(str.strip, options.settings.get(INTEGERS, "").split(","))):
        named[f"{INTEGERS}={column}"] = f"/{column}" if "/" in column.strip("/") else column
    return NamedColumns(named, tuple(filter(None, needed)))


def has_column(mapping: Mapping, record: Record, column: str) -> bool:
    """Whether a row has a column, or a property of that name; it may be null."""
    properties = properties_of(mapping, record)
    reference = Call("ref", {"ref": column}, mapping.event.place)
    return column in properties or find(reference, record, properties) is not None


def _given(call: Call, options: SealedOptions) -> str:
    return str(options.settings.get(call.arguments.get("setting", "")) or call.arguments.get("default") or "")


def _settings(mapping: Mapping) -> Iterator[Call]:
    """The settings that name the columns of the event, the ids, the times and the uuid."""
    pair = (mapping.pair.user, *mapping.pair.anonymous) if mapping.pair is not None else ()
    clocks = (clock.source for clock in mapping.time)
    for call in (mapping.event, *mapping.distinct_id.first, *clocks, mapping.uuid, *pair):
        if call is not None and call.verb == "setting":
            yield call
