"""The references of a mapping: which names it looks for in a row, and where in the row.

A plan compares them with the names that the source has (`pipeline.transform.field_names`,
`pipeline.plan.unmatched`), so that a misspelt column does not lose a property of every event in silence. Those of a
shipped mapping are not compared: they name what *any* export of a tool may have, most exports lack many, and cases and
samples prove how they are spelt. What an operator adds with --set, or writes in a mapping of their own beside what
the shipped one of that tool has, is.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Map
from dataclasses import dataclass, fields
from typing import NamedTuple

from pipeline.mapper import language
from pipeline.mapper.builder import Builder
from pipeline.mapper.language import Call, Clock, EventRule, Place, Profiles, Spread
from pipeline.mapper.program import Decode
from pipeline.mapper.references import path_of, path_steps
from pipeline.mapper.verbs.values import HOLE
from pipeline.models import SealedOptions

MADE = ("const", "json", "word", "refuse", "opened")
"""Values that come from no column."""


class Level(NamedTuple):
    """An object of a row: the row itself, or the opened properties (`opened`), or what lies below it by these steps."""

    opened: bool
    steps: tuple[str, ...]


class Reference(NamedTuple):
    """A name that a mapping looks for in an object of the row. `text` is how the mapping writes it, `place` where.

    Of several with one `slot` one has to be there, for without it no row has an event's name (`event`), a person
    (`distinct_id`), a time (`time`) or a key (`key` and a number); "" for all that rows can do without.
    """

    level: Level
    name: str
    text: str
    place: Place | None
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for in the rows of a source. `open` is the object of the properties, None for the row itself, and
    `decode` makes of a row as it was read the ones that the mapping sees."""

    references: tuple[Reference, ...]
    open: Call | None
    decode: Decode | None


def wanted_references(
    mapping: language.Mapping, options: SealedOptions, shipped: Iterable[language.Mapping]
) -> Wanted | None:
    """What to look for, None for nothing. `shipped` are the shipped mappings of the same tool, itself among them."""
    found = _Finder(mapping, options)
    known = {
        (reference.level, reference.name)
        for one in shipped
        for reference in _Finder(one, SealedOptions(as_of=0)).references
    }
    # What a shipped mapping looks for as well may stand in for the others: then none of them has to be there.
    optional = {one.slot for one in found.references if (one.level, one.name) in known}
    own = tuple(
        one._replace(slot="") if one.slot in optional else one
        for one in dict.fromkeys(found.references)
        if (one.level, one.name) not in known
    )
    return Wanted(own, mapping.properties.open, Builder(mapping, options).decode()) if own else None


class _Finder:
    """Walks a mapping once. `references` are all of its references, those of one slot together."""

    def __init__(self, mapping: language.Mapping, options: SealedOptions) -> None:
        self._mapping = mapping
        self._options = options
        held = mapping.properties.open
        self._column = path_steps(held.given["ref"]) if held is not None and held.verb == "ref" else None
        self.references: list[Reference] = []
        self._identity()
        self._changes()
        for section in fields(mapping):
            if section.name not in _APART:
                self._values(getattr(mapping, section.name))

    # -- by what they are for

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
        self._values([(clock.unit, clock.form, clock.proof_unless) for clock in mapping.time])

    def _slot(self, slot: str, calls: Iterable[Call]) -> None:
        """References of which one has to be there. Where something else may stand in for all of them, none has to."""
        before = len(self.references)
        always = [self._alternatives(call, slot) for call in calls]
        if any(always):
            self.references[before:] = [one._replace(slot="") for one in self.references[before:]]

    def _alternatives(self, call: Call, slot: str) -> bool:
        """Take the references of a value; whether it may be there without any."""
        if call.verb in MADE:
            self._values(tuple(call.given.values()))
            return True
        if call.verb in ("ref", "setting", "template"):
            # A setting that was left out is no alternative; a fixed text is.
            return not self._take(call, slot) and (call.verb != "setting" or self._given(call) is not None)
        found = []
        for name, given in call.given.items():
            for one in given if isinstance(given, tuple) else (given,):
                if name == "when":
                    self._values(one)
                elif isinstance(one, Call):
                    found.append(self._alternatives(one, slot))
        return any(found)

    # -- names of properties

    def _changes(self) -> None:
        properties = self._mapping.properties
        rules = list(self._mapping.events.values())
        made = {*properties.set, *properties.fill, *properties.rename.values()}
        for rule in rules:
            made |= {*rule.set, *rule.fill, *rule.rename.values()}
        for old in (*properties.rename, *(name for rule in rules for name in rule.rename)):
            self._property(old)
        for blank in properties.blank:
            for name in blank.within:
                self._property(name)
        if not properties.spread:  # these look at what the changes made
            for name in (*properties.types, *properties.hash):
                if name not in made and not name.startswith(f"{self._mapping.tool}_"):
                    self._property(name)

    def _property(self, name: str) -> None:
        self._add(Level(self._mapping.properties.open is not None, ()), name, name, None, "")

    # -- any value, anywhere

    def _values(self, given: object) -> None:
        """Take every reference in a part of the mapping, however deep it stands."""
        match given:
            case Call():
                if not self._take(given, ""):
                    for one in given.given.values():
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
            case Clock() | EventRule() | language.GroupUpdate() | language.LinkRule() | language.PairRule():
                self._values([getattr(given, one.name) for one in fields(given)])
            case language.SkipRule() | language.Extra() | language.Person() | language.Properties():
                self._values([getattr(given, one.name) for one in fields(given)])
            case Map():
                self._values(tuple(given.values()))
            case list() | tuple():
                for one in given:
                    self._values(one)

    def _members(self, spread: Spread) -> None:
        """The members that a spread names of its object."""
        if spread.source.verb != "ref":
            return
        level = self._level(spread.source.given["ref"])
        for name in (*spread.only, *spread.leave, *spread.rename):
            if not name.endswith("*"):
                self._add(level, name, f"{spread.source.given['ref']}/{name}", spread.source.place, "")

    def _take(self, call: Call, slot: str) -> bool:
        """Take the references that a value itself is; whether it is one that names any."""
        if call.verb == "ref":
            self._reference(call.given["ref"], call.place, slot)
            return True
        if call.verb == "setting":
            given = self._given(call)
            if given is None or given.startswith("="):
                return False
            self._reference(given, None, slot)
            return True
        if call.verb == "template":
            holes = [hole.group(1) for hole in HOLE.finditer(call.given["template"]) if hole.group(1)]
            for hole in holes:
                self._reference(hole, call.place, slot)
            return bool(holes)
        return False

    def _given(self, call: Call) -> str | None:
        return self._options.settings.get(call.given["setting"]) or call.given.get("default")

    def _reference(self, text: str, place: Place | None, slot: str) -> None:
        level = self._level(text, less=1)
        name = path_steps(text)[-1] if text.startswith("/") else text
        self._add(level, name, text, place, slot)

    def _level(self, text: str, less: int = 0) -> Level:
        """The object that a reference refers to, or with `less` the one it is a member of."""
        opens = self._mapping.properties.open is not None
        if not text.startswith("/"):
            return Level(opens, () if less else (text,))
        steps = path_steps(text)
        if self._column is not None and len(self._column) == 1 and steps[:1] == self._column and len(steps) > 1:
            return Level(True, steps[1 : len(steps) - less])
        return Level(False, steps[: len(steps) - less])

    def _add(self, level: Level, name: str, text: str, place: Place | None, slot: str) -> None:
        self.references.append(Reference(level, name, text, place, slot))


_APART = frozenset(
    (
        "tool", "title", "event", "distinct_id", "time", "recognise", "settings", "tables", "decoder",
        "table_from_path", "unlisted", "uuid", "key", "persons", "cases", "file", "text",
    )
)  # fmt: skip
"""Sections that refer to no column of a row, or were looked at for what they are for."""
