"""The references of a mapping: the names that it reads in a row, and the objects of the row that have them.

A plan compares them with the names that its coverage counted (`pipeline.plan.statistics.unmatched`), so that a misspelt
column does not lose a property of every event in silence. Those of a shipped mapping are not compared: they name what
*any* export of a tool may have, most exports lack many, and cases and samples prove their spelling. References that an
operator adds with --set, or in a mapping of their own, are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map
from itertools import takewhile
from typing import NamedTuple

from msgspec.structs import astuple

from pipeline.mapper.codegen.runtime import members_of
from pipeline.mapper.language import sections as language
from pipeline.mapper.language.sections import Call, Clock, EventRule, Place, Profiles, Spread
from pipeline.mapper.program.references import definition_of, path_of, path_steps, properties_of
from pipeline.mapper.verbs.values import HOLE
from pipeline.models import SealedOptions
from pipeline.values import Record

CONSTANTS = ("const", "json", "word", "refuse", "opened")
"""Verbs of values that come from no column."""


class Level(NamedTuple):
    """An object of a row: the row itself, or the opened properties (`opened`), or an object inside one of them."""

    opened: bool
    steps: tuple[str, ...]


class Reference(NamedTuple):
    """A name that a mapping reads in an object of the row. `text` is the reference in the mapping, `place` its place.

    Of the references with one `slot` the source must have one, for without it no row has an event's name (`event`), a
    person (`distinct_id`), a time (`time`) or a key (`key` and a number); "" for optional ones.
    """

    level: Level
    name: str
    text: str
    place: Place | None
    slot: str = ""


def path_to(reference: Reference) -> Iterator[tuple[Level, str]]:
    """The names on the way to a reference's, each with the object that has it, its own last."""
    level, name = reference.level, reference.name
    for number, step in enumerate(level.steps):
        yield Level(level.opened, level.steps[:number]), step
    yield level, name


def required_references(
    mapping: language.Mapping, options: SealedOptions, shipped: Iterable[language.Mapping]
) -> tuple[Reference, ...]:
    """The references that some row of a source should have. `shipped` are the shipped mappings of the same tool, also
    itself."""
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


def references_of(mapping: language.Mapping, options: SealedOptions) -> tuple[Reference, ...]:
    """All references of a mapping, also those to members of properties that are computed."""
    return tuple(dict.fromkeys(_Finder(mapping, options, computed=True).references))


def found_in(references: Iterable[Reference], mapping: language.Mapping, record: Record) -> list[Reference]:
    """The references whose name is in a row as it was read."""
    properties, found = properties_of(mapping, record), []
    for reference in references:
        members = properties if reference.level.opened else record
        for step in reference.level.steps:
            members = members_of(members.get(step))
        if reference.name in members:
            found.append(reference)
    return found


class _Finder:
    """Walks a mapping once. `references` are all of its references, those of one slot together."""

    def __init__(self, mapping: language.Mapping, options: SealedOptions, *, computed: bool = False) -> None:
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
        self._values([clock.proof_unless for clock in mapping.time])

    def _slot(self, slot: str, calls: Iterable[Call]) -> None:
        """References of which one is required, unless a value without a reference can replace them."""
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
            # A setting that was left out is no alternative; a fixed text is.
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

    def _values(self, given: object) -> None:
        """Add every reference in a part of the mapping, at any depth."""
        match given:
            case Call():
                if not self._take(given, ""):
                    for one in given.arguments.values():
                        self._values(one)
            case Spread():
                self._values(given.source)
                self._members(given)
            case Profiles():
                self._values(given.each)
                for name in () if given.each is not None else (given.id, given.properties):
                    self._reference(path_of(name), None, "")
            case language.Groups():
                self._values((given.types, given.open, given.set))
                for name in filter(None, self._options.settings.get(given.setting, "").split(",")):
                    self._reference(name, None, "")
            case Clock():  # unit and format are words
                self._values((given.source, given.proof_unless))
            case EventRule() | language.GroupUpdate() | language.LinkRule() | language.PairRule():
                self._values(astuple(given))
            case language.SkipRule() | language.Extra() | language.Person() | language.Properties():
                self._values(astuple(given))
            case language.WarnRule():
                self._values(given.of)
            case Map():
                self._values(tuple(given.values()))
            case list() | tuple():
                for one in given:
                    self._values(one)

    def _members(self, spread: Spread) -> None:
        """The members that a spread names of its object."""
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
            holes = [hole.group(1) for hole in HOLE.finditer(call.arguments["template"]) if hole.group(1)]
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
        """The object that a reference refers to, or with `less` the object that it is a member of."""
        opens = self._mapping.properties.open is not None
        if not text.startswith("/"):
            return Level(opens, () if less else (text,))
        steps = path_steps(text)
        if self._column is not None and len(self._column) == 1 and steps[:1] == self._column and len(steps) > 1:
            return Level(True, steps[1 : len(steps) - less])
        return Level(False, steps[: len(steps) - less])

    def _add(self, level: Level, name: str, text: str, place: Place | None, slot: str) -> None:
        if level.opened and self._column is None and not self._computed:
            return  # the properties are a computed object, whose members are no names of the source
        self.references.append(Reference(level, name, text, place, slot))


_APART = frozenset(
    (
        "tool", "title", "event", "distinct_id", "time", "recognise", "settings", "tables", "decoder",
        "table_from_path", "files", "unlisted", "uuid", "key", "persons", "python", "cases",
        "file", "text", "code", "verbs",
    )
)  # fmt: skip
"""Sections without references to a column, or whose references are added with a slot."""
