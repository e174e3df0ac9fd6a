"""What a mapping does with each field of a row, read from its program: where the field goes, or which rule leaves it
out.

Only a field's whole value is used. Values that only decide something (a `when`, a `skip`, a condition) go nowhere, so
they are not uses. If there are several candidates (`first`, ids, times), each is a use; `backcast mapping check
--against` counts which of them rows used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

from pipeline.mapper.codegen.runtime import Spreader
from pipeline.mapper.inspection.known_names import EventNames, NamePatterns, is_service_property
from pipeline.mapper.language import sections as language
from pipeline.mapper.loader_columns import is_loader_column, leaves_out
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.builder import NO_TABLES, Builder, Tables
from pipeline.mapper.program.operations import Step
from pipeline.mapper.program.references import Level, path_steps, path_to, references_of
from pipeline.mapper.program.references import path_of as reference_to
from pipeline.models import SealedOptions

Path: TypeAlias = tuple[bool, tuple[str, ...]]
"""A field: whether it is one of the opened properties, and the names that lead to it."""

MAPPED, KEPT, DROPPED = "mapped", "kept", "dropped"
ANY_RULE = -1
LOADER = "a loader's column"
"""The rule that leaves out a loader's columns."""
PROPERTIES, MEMBERS = "(properties)", "(its members)"


class Fate(NamedTuple):
    """What becomes of a field in the rows of one outcome. `to` are properties, or places in parentheses; if the field
    is dropped, `by` is the rule."""

    kind: str
    to: tuple[str, ...] = ()
    by: str = ""


class FieldUses:
    def __init__(self, mapping: language.Mapping, options: SealedOptions, lookups: Tables = NO_TABLES) -> None:
        compiled = Builder(mapping, options, lookups).build()
        self.is_named_event = EventNames(mapping, lookups).is_named
        self._mapping = mapping
        self._loaders = leaves_out(options.settings)
        self._flat = mapping.properties.open is None
        self._opened = compiled.opened
        self._lets: dict[str, Any] = {}
        self._uses: dict[tuple[int, bool], dict[Path, list[str]]] = {}
        self._spreads: dict[Path, list[tuple[str, Spreader]]] = {}
        self._decides: set[Path] = set()
        self._columns: program.KeepColumns | None = None
        self._kept: frozenset[str] | None = None
        self._renames: dict[str, str | None] = {}
        self._overrides: dict[int, program.OverrideProperties] = {}
        self._rule_names = tuple(mapping.events)
        self._rule_numbers = {name: number for number, name in enumerate(mapping.events, 1)}
        for step in compiled.steps:
            self._step(step, ANY_RULE)
        self._references = references_of(mapping, options)
        self._named = self._named_fields()
        self._known = NamePatterns(mapping.known.fields)
        self._ways_in = cache(self._find_ways_in)
        self._own = cache(self._find_own)
        self.fate = lru_cache(maxsize=20_000)(self._fate)

    # -- reading the program

    def _step(self, step: Step, rule: int) -> None:
        match step:
            case program.OpenProperties(source) if source is not None:
                self._use(source, PROPERTIES, rule, other=True)
            case program.Let(name, value):
                self._lets[name] = value
            case program.SkipRow(when):
                self._decide(when)
            case program.WarnRow(_, text):
                self._use(text, "(warning)", rule)
            case program.SetEvent(value):
                self._use(value, "(event)", rule)
            case program.ReadTime(register, clocks):
                for clock in clocks:
                    self._use(clock.source, "(time)" if register == "time" else "(receive time)", rule)
                    self._decide(clock.no_evidence)
            case program.SetUuid(text):
                self._use(text, "(uuid)", rule)
            case program.SetKey(parts, needs):
                self._use((parts, needs), "(uuid)", rule)
            case program.SetDistinctId(candidates):
                self._use(candidates, "(distinct_id)", rule)
            case program.AddLinks(merge, when) | program.GiveLinks(merge, when):
                self._use((merge.into, merge.other, merge.version, merge.of), "(merge)", rule, other=True)
                self._decide(when)
            case program.ByRule(rules):
                for one in rules:
                    for inner in one.steps:
                        self._step(inner, one.rule)
            case program.OverrideProperties():
                self._overrides[rule] = step
                for name, value in (*step.set, *step.fill):
                    self._use(value, name, rule)
            case program.ObservePerson():
                self._use((step.user, step.anonymous), "(person)", rule, other=True)
                for name, value in (*step.set, *step.set_once):
                    self._use(value, f"(person) {name}", rule, other=True)
                for spread in (*step.spread_set, *step.spread_set_once):
                    self._spread(spread, "(person) ", rule)
                self._use(step.unset, "(person)", rule, other=True)
            case program.ObserveGroups(groups):
                self._use(groups, "(groups)", rule, other=True)
            case program.GiveGroupUpdates():
                self._use((step.open, step.type, step.key, step.set), "(groups)", rule, other=True)
            case program.GiveProfiles():
                self._use((step.each, step.id, step.properties), "(person)", rule, other=True)
            case program.ReadExtraEvent():
                self._use(step.event, "(further event)", rule)
                for name, value in step.properties:
                    self._use(value, f"(further event) {name}", rule)
                self._decide(step.when)
            case program.KeepProperties(names):
                self._kept = frozenset(names)
            case program.RenameProperties(_, rare, common):
                self._renames = {one.old: one.new for one in (*rare, *common)}
            case program.SpreadProperties(members):
                self._spread(self._lets[members.name], "", rule)
            case program.SetProperty(name, value):
                self._use(value, name, rule)
            case program.HashProperty(name, _):
                self._use(expressions.Property(name), f"{name} (hashed)", rule)
            case program.KeepGroups():
                self._use(expressions.Property("$groups"), "(groups)", rule)
            case program.SetGroups(opened, types):
                self._use((opened, *(value for _, value in types)), "(groups)", rule)
            case program.KeepColumns():
                self._columns = step

    def _use(self, value: Any, to: str, rule: int, *, other: bool = False) -> None:
        """Note that a value goes somewhere; with `other` also that of a row that is not an event."""
        for path in self._reads(value):
            for no_event in (False, True) if other or to in _IDENTITY else (False,):
                uses = self._uses.setdefault((rule, no_event), {}).setdefault(path, [])
                if to not in uses:
                    uses.append(to)

    def _spread(self, spread: expressions.Spread, to: str, rule: int) -> None:
        spreader = Spreader(spread.only, spread.leave, spread.rename, spread.strip, spread.prefix, spread.blank)
        path = self._path(spread.source)
        if path is None:
            self._use(spread.source, MEMBERS, rule, other=bool(to))
        else:
            self._spreads.setdefault(path, []).append((to, spreader))

    def _decide(self, condition: Any) -> None:
        self._decides.update(self._reads((condition,)))

    def _reads(self, value: Any) -> Iterator[Path]:
        """The fields whose whole values make up a value; fields in conditions are noted as deciding."""
        path = self._path(value)
        if path is not None:
            yield path
            return
        match value:
            case expressions.Variable(name):
                yield from self._reads(self._lets.get(name))
            case expressions.Choose(when, then, otherwise):
                self._decide(when)
                yield from self._reads((then, otherwise))
            case expressions.Spread(source):
                yield from self._reads(source)
            case tuple():
                for one in value:
                    yield from self._reads(one)
            case expressions.Operation():
                for name in value.__struct_fields__:
                    yield from self._reads(getattr(value, name))
            case _:
                return

    def _path(self, value: Any) -> Path | None:
        """The field that a value is, perhaps without its blank texts; None for any other value."""
        match value:
            case expressions.Property(name):
                return not self._flat, (name,)
            case expressions.Column(name):
                return False, (name,)
            case expressions.Member(of, name) | expressions.Apply("member_at", (of, expressions.Constant(str(name)))):
                outer = self._path(of)
                if outer is None:
                    return None
                if name.isdecimal() and isinstance(value, expressions.Apply):
                    return outer
                if outer == (False, (self._opened,)):
                    return True, (name,)
                return outer[0], (*outer[1], name)
            case expressions.NotNull(inner) | expressions.AsText(inner):
                return self._path(inner)
            case expressions.Choose(expressions.OneOf(text), expressions.Missing(), otherwise):
                path = self._path(otherwise)
                return path if path is not None and path == self._path(text) else None
            case _:
                return None

    # -- what becomes of a field

    def _fate(self, level: Level, name: str, rule: int, event: str | None) -> Fate:
        """What becomes of a field: in rows that are events by the rule with a number, or, if `event` is a name, in rows
        that this name's rule keeps from being events."""
        path = level.opened, (*level.steps, name)
        if event is not None:
            number = self._rule_numbers.get(event, 0)
            to = self._to(path, number, True)
            if to:
                return Fate(MAPPED, to)
            if self._is_read_inside(path, number, True):
                return Fate(MAPPED, (MEMBERS,))
            if self._loaders and not level.opened and not level.steps and is_loader_column(name):
                return Fate(DROPPED, by=LOADER)
            return Fate(DROPPED, by=f"events: {event}: no event" if event else "no event")
        to = self._to(path, rule, False)
        kept, by = self._kept_as(path, rule)
        root = path[1][0]
        if to:
            return Fate(MAPPED, tuple(dict.fromkeys((*to, *([kept] if kept else [])))))
        if kept:
            moved = len(path[1]) == 1 and kept != root and self._is_renamed(root, kept, rule)
            return Fate(MAPPED if moved else KEPT, (kept,))
        if self._is_read_inside(path, rule, False):
            return Fate(MAPPED, (MEMBERS,))
        return Fate(DROPPED, by=by)

    def _to(self, path: Path, rule: int, no_event: bool) -> tuple[str, ...]:
        """Where a field goes by rules other than those that keep it."""
        to: list[str] = []
        opened, steps = path
        for number in dict.fromkeys((ANY_RULE, rule)):
            uses = self._uses.get((number, no_event), {})
            for length in range(len(steps), 0, -1):
                to += uses.get((opened, steps[:length]), ())
        for prefix, spreader in self._spreads.get((opened, steps[:-1]), ()) if len(steps) > 1 else ():
            if (new := spreader.new_name(steps[-1])) is not None:
                to.append(prefix + new)
        return tuple(dict.fromkeys(one for one in to if not (opened and one == PROPERTIES)))

    def _is_read_inside(self, path: Path, rule: int, no_event: bool) -> bool:
        """Whether a member of an object goes somewhere."""
        return any(path in self._ways_in(number, no_event) for number in (ANY_RULE, rule))

    def _find_ways_in(self, rule: int, no_event: bool) -> set[Path]:
        """The fields that a rule uses, and the objects that they are in."""
        used = (*self._uses.get((rule, no_event), ()), *(self._spreads if rule == ANY_RULE else ()))
        return {(opened, steps[:length]) for opened, steps in used for length in range(1, len(steps) + 1)}

    def _kept_as(self, path: Path, rule: int) -> tuple[str, str]:
        """The property that keeps a field or the object it is in; otherwise "" and the rule that drops it."""
        opened, steps = path
        root = steps[0]
        if opened or self._flat:
            return self._property(root, rule)
        if len(steps) > 1 and (opened, steps[:-1]) in self._spreads:
            return "", "spread"
        left_out = self._loaders and is_loader_column(root)
        if self._columns is None:
            return "", LOADER if left_out else "rest: drop"
        if root not in self._named_columns:
            return ("", LOADER) if left_out else (self._columns.prefix + root, "")
        if f"/{root}" in self._dropped:
            return "", "drop"
        if any((False, steps[:length]) in self._decides for length in range(1, len(steps) + 1)):
            return "", "read by conditions alone"
        if len(steps) > 1 or root in self._deciding_columns:
            return "", f"other members of {reference_to(root)} are read"
        return "", "the mapping reads the column for other rows"

    def _property(self, name: str, rule: int) -> tuple[str, str]:
        if self._kept is not None and name not in self._kept:
            return "", "rest: drop"
        if self._loaders and self._flat and name not in self._renames and is_loader_column(name):
            return "", LOADER
        new = self._renames.get(name, name)
        if new is None:
            return "", "drop"
        final = self._own(rule).get(new, new)
        return (final, "") if final is not None else ("", f"events: {self._rule_names[rule - 1]}: drop")

    def _find_own(self, rule: int) -> dict[str, str | None]:
        """The properties that an event's own rule renames; None as the new name if it drops them."""
        override = self._overrides.get(rule)
        return {} if override is None else {**dict(override.rename), **dict.fromkeys(override.drop)}

    def _is_renamed(self, old: str, new: str, rule: int) -> bool:
        """Whether the mapping itself gives a property its new name."""
        renames = self._mapping.properties.rename
        return old in renames or renames.get(old, old) in self._own(rule)

    # -- what the mapping names

    @cached_property
    def _deciding_columns(self) -> set[str]:
        return {steps[0] for opened, steps in self._decides if not opened}

    @cached_property
    def _named_columns(self) -> frozenset[str]:
        return frozenset(self._columns.named if self._columns is not None else ())

    @cached_property
    def _dropped(self) -> set[str]:
        drops = (*self._mapping.properties.drop, *(call for one in self._mapping.events.values() for call in one.drop))
        return {call.arguments["ref"] for call in drops if call.verb == "ref"}

    def _named_fields(self) -> set[Path]:
        mapping = self._mapping
        named = {(one.level.opened, (*one.level.steps, one.name)) for one in self._references}
        for uses in self._uses.values():
            named.update(uses)
        named |= self._decides | self._spreads.keys()
        properties = not self._flat
        for changes in (mapping.properties, *mapping.events.values()):
            named |= {(properties, (name,)) for name in (*changes.rename, *changes.set, *changes.fill)}
            for call in changes.drop:
                text = call.arguments.get("ref", "")
                named.add((properties and text[:1] != "/", (text.removeprefix("/"),)))
        section = mapping.properties
        for name in (*section.types, *section.hash, *(section.reserved or ())):
            named.add((properties, (name,)))
        return named

    def is_named(self, level: Level, name: str) -> bool:
        """Whether the mapping names a field or an object that it is in, or the service gives the name a meaning."""
        if not level.steps and (level.opened or self._flat) and is_service_property(name):
            return True
        path = level.opened, (*level.steps, name)
        if any((path[0], path[1][:length]) in self._named for length in range(1, len(path[1]) + 1)):
            return True
        return self._known.match(self.reference(level, name))

    def reference(self, level: Level, name: str) -> str:
        if level.opened or self._flat:
            if not level.steps:
                return name
            column = reference_to(self._opened) if self._opened is not None and level.opened else ""
            return column + "".join(map(reference_to, (*level.steps, name)))
        return "".join(map(reference_to, (*level.steps, name)))

    def missing(self, occurring: Iterable[tuple[Level, str]]) -> list[str]:
        """The references of the mapping that no row has, as it spells them."""
        found = set(occurring)
        missing = (one.text for one in self._references if (one.level, one.name) not in found)
        return sorted(dict.fromkeys(missing))

    def refers_to(self, level: Level, name: str) -> bool:
        return (level.opened, (*level.steps, name)) in self._named

    # -- events

    def is_ruled_event(self, name: str) -> bool:
        return name in self._mapping.events

    def missing_events(self, met: set[str]) -> list[str]:
        return [name for name in self._mapping.events if name not in met]


_IDENTITY = frozenset(("(distinct_id)", "(time)", "(receive time)"))
"""What rows that are not events also have."""


def nested_levels(mapping: language.Mapping, options: SealedOptions) -> tuple[Level, ...]:
    """The objects inside rows that a mapping reads into, including those on the way to others, sorted."""
    levels = {level for one in references_of(mapping, options) for level, _ in path_to(one) if level.steps}
    for spread in mapping.properties.spread:
        if spread.source.verb == "ref" and spread.source.arguments["ref"].startswith("/"):
            levels.add(Level(False, path_steps(spread.source.arguments["ref"])))
    opened = mapping.properties.open
    column = opened.arguments.get("ref", "") if opened is not None else ""
    if len(steps := path_steps(column)) == 1:
        levels.discard(Level(False, steps))  # its members are the opened properties
    return tuple(sorted(levels))
