"""Builds the program of a mapping: the steps of its sections, in the order in which they run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from types import MappingProxyType
from typing import TypeAlias

from pipeline import uuids
from pipeline.errors import UsageError
from pipeline.mapper.language import sections as language
from pipeline.mapper.language.kinds import FAMILIES
from pipeline.mapper.language.sections import Call, EventRule, LinkRule, Mapping
from pipeline.mapper.loader_columns import leaves_out
from pipeline.mapper.namespace import is_importer_key
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.blanks import blanks_of_opened, leave_out_blanks
from pipeline.mapper.program.expressions import Condition, Missing, NamedValues, Value, Variable
from pipeline.mapper.program.lookup_table import AskedTable, StoredTable, in_memory
from pipeline.mapper.program.operations import Let, Program, Step
from pipeline.mapper.program.references import definition_of, path_steps, references_in
from pipeline.mapper.program.renaming import in_order, kept_properties, opened_object, rename_properties, unread_columns
from pipeline.models import SealedOptions
from pipeline.validator.codes import OUT_OF_SCOPE

HASH_KEY = "BACKCAST_HASH_KEY"
"""The environment variable with the secret of keyed hashes; it is in no mapping, program, plan or report."""
Tables: TypeAlias = Map[str, Map[str, str]]  # entries of lookup tables, by the table's name
NO_TABLES: Tables = MappingProxyType({})


class Builder:
    """Builds the operations of a mapping for the settings of a plan. `lookups` are the tables of its lookup files.

    Raises UsageError if a setting or a secret is missing, and MappingError for errors that the loader cannot detect,
    such as the name of a table that does not exist.
    """

    def __init__(self, mapping: Mapping, options: SealedOptions, lookups: Tables = NO_TABLES) -> None:
        self.tool, self.options = mapping.tool, options
        self.junk = tuple(sorted({word.lower() for word in mapping.distinct_id.junk}))
        self.allowed = mapping.distinct_id.allow
        self.time_is_set = False
        self.loaders = leaves_out(options.settings)
        self.tables: dict[str, Map[str, str]] = {}
        self._mapping = mapping
        self._tables = {**mapping.tables}
        for name, lookup in mapping.lookup_files.items():
            entries = lookups.get(name, {})
            self._tables[name] = AskedTable(name, entries) if lookup.is_joined else entries
        self.flat = mapping.properties.open is None
        self._variables = 0
        self._blanks = leave_out_blanks(mapping)
        self._defined: dict[str, Value] = {}
        for name, call in mapping.define.items():
            self._defined[name] = self.present(call)
        for call in (call for lookup in mapping.lookup_files.values() for call in lookup.value):
            self.value(call)  # only for its errors: it reads other rows

    # --- values and conditions

    def value(self, call: Call) -> Value:
        built: Value = FAMILIES["value"][call.verb].build(self, call)
        return built

    def present(self, call: Call) -> Value:
        """The operation for a value that is missing if it is JSON null."""
        return expressions.not_null(self.value(call))

    def text(self, call: Call) -> Value:
        """The operation for a value as text."""
        return expressions.as_text(self.value(call))

    def condition(self, call: Call) -> Condition:
        built: Condition = FAMILIES["condition"][call.verb].build(self, call)
        return built

    def reference(self, text: str) -> Value:
        """A property by its name, `/column` and `/column/member/…` of the row, or `@name/member/…` of a definition."""
        name = definition_of(text, self._mapping)
        if name is not None:
            if name not in self._defined:
                raise self._mapping.define[name].place.error(
                    f"@{name} is used before it is defined", "move its definition up: one may use those above it"
                )
            return self.member(self._defined[name], path_steps(text)[1:])
        if not text.startswith("/"):
            return expressions.Property(text)
        column, *steps = path_steps(text)
        return self.member(expressions.Property(column) if self.flat else expressions.Column(column), steps)

    def member(self, value: Value, steps: Sequence[str]) -> Value:
        """The operation for a path inside a value: members of objects, and items of lists by their index from 0."""
        for step in steps:
            if step.isascii() and step.isdecimal():
                value = expressions.Apply("member_at", (value, expressions.Constant(step)))
            else:
                value = expressions.Member(value, step)
        blanks = self._blanks
        if blanks is not None and blanks.json and steps and (not blanks.names or steps[-1] in blanks.names):
            blank = expressions.OneOf(expressions.as_text(value), blanks.json)
            return expressions.Choose(blank, Missing(), expressions.not_null(value))
        return value

    def setting(self, call: Call) -> str | None:
        """The value of a `setting`; None if it is optional and was left out."""
        name = call.arguments["setting"]
        value: str | None = self.options.settings.get(name) or call.arguments.get("default")
        if value is None and call.arguments.get("optional") != "yes":
            raise UsageError(
                f"this mapping needs the setting {name!r}",
                hint=f"add --set {name}=COLUMN, or --set {name}==TEXT for a fixed text",
            )
        return value

    def table(self, call: Call, any_case: bool) -> str:
        """The program's name for the table of a lookup; with `any_case`, for the copy in lower case."""
        name, table = str(call.arguments.get("table")), call.arguments.get("in")
        if table is None:
            if (table := self._tables.get(name)) is None:
                known = f"use one of: {', '.join(self._tables)}" if self._tables else "define it under `tables`"
                raise call.place.error(f"unknown table {name!r}", known)
        else:
            name = f"line {call.place.line}, column {call.place.column}"
        if any_case and isinstance(table, AskedTable):
            raise call.place.error("joined rows have exact keys, so `case: any` does nothing", "leave `case` out")
        if any_case:
            name, table = f"{name} in lower case", {old.lower(): new for old, new in in_memory(table, name).items()}
        self.tables[name] = table if isinstance(table, StoredTable | AskedTable) else dict(table)
        return name

    def purpose(self, purpose: str) -> str:
        """The purpose itself. Raises UsageError if there is no secret to hash with."""
        if not os.environ.get(HASH_KEY, ""):
            raise UsageError(
                f"this mapping hashes personal data, and {HASH_KEY} is not set",
                hint=f"set {HASH_KEY} to a long random text, and keep it: a different one gives different hashes",
            )
        return purpose

    def _presents(self, table: Map[str, Call]) -> NamedValues:
        return tuple((name, self.present(call)) for name, call in table.items())

    def _optional(self, call: Call | None) -> Condition | None:
        return self.condition(call) if call is not None else None

    def _let(self, steps: list[Step], hint: str, value: Value) -> Variable:
        self._variables += 1
        variable = Variable(f"{hint}{self._variables}")
        steps.append(Let(variable.name, value))
        return variable

    # --- the program

    def build(self) -> Program:
        mapping = self._mapping
        source = self.value(mapping.properties.open) if mapping.properties.open is not None else None
        opened_column = source.name if isinstance(source, expressions.Column) else None
        opening = program.OpenProperties(source, blanks=blanks_of_opened(mapping, source))
        steps: list[Step] = [opening, self._blanks] if self._blanks is not None else [opening]
        # Computed first, so that every use of a definition finds its value.
        steps += (Let(f"@{name}", value) for name, value in self._defined.items())
        steps += (program.SkipRow(self.condition(rule.when), rule.code, rule.warn) for rule in mapping.skip)
        steps += (program.WarnRow(rule.code, self.text(rule.of)) for rule in mapping.warn)
        for part in mapping.key.of if mapping.key is not None else ():
            # Read before the times, so that a number that is both is decoded once.
            self._let(steps, "key", self.text(part))
        steps.append(program.SetEvent(self.text(mapping.event)))
        if cases := _event_cases(mapping, self.options):
            steps.append(program.MatchEvent(cases, mapping.unlisted == "reject"))
        steps.append(program.ReadTime("received", tuple(self._clock(clock, False) for clock in mapping.received)))
        steps.append(program.ReadTime("time", tuple(self._clock(clock, True) for clock in mapping.time)))
        self.time_is_set = True
        steps += self._keys()
        steps.append(program.SetDistinctId(tuple(map(self.text, mapping.distinct_id.first)), self.junk, self.allowed))
        steps += (program.AddLinks(self._merge(rule), self._optional(rule.when)) for rule in mapping.links)
        changes = self._changes(steps)
        steps += self._by_rule(self._merges(rule) for rule in mapping.events.values())
        steps += self._observed()
        steps += self._by_rule(self._updates(rule) for rule in mapping.events.values())
        for number, extra in enumerate(mapping.also, 1):
            when = self._optional(extra.when)
            name, properties = self.text(extra.event), self._presents(extra.properties)
            steps.append(program.ReadExtraEvent(f"{uuids.SEPARATOR}also{number}", name, properties, when))
        names = rename_properties(mapping, self.dropped(mapping.properties.drop), tuple(steps), self.loaders)
        if self.flat and mapping.properties.rest == "drop":
            steps.append(program.KeepProperties(tuple(sorted(kept_properties(mapping)))))
        steps += [names, *changes]
        steps += [*self._columns(steps), program.GiveEvent()]
        opened, steps[0] = opened_object(opening, opened_column, tuple(steps[1:]))
        decode = self.decode()
        unread = unread_columns(self._dropped_references(mapping.properties.drop), self.flat, tuple(steps))
        return Program(mapping.tool, decode, None if decode else opened, tuple(steps), self.tables, unread)

    def decode(self) -> program.Decode | None:
        """The decoder of the mapping, with its arguments; None if it has none."""
        call = self._mapping.decoder
        return FAMILIES["decoder"][call.verb].build(self, call) if call is not None else None

    def dropped(self, drop: Sequence[Call]) -> tuple[str, ...]:
        """The properties that a `drop` names, without its other columns."""
        return tuple(
            name.removeprefix("/")
            for name in self._dropped_references(drop)
            if not name.startswith("=") and (self.flat or not name.startswith("/"))
        )

    def _dropped_references(self, drop: Sequence[Call]) -> Iterator[str]:
        names = (self.setting(call) if call.verb == "setting" else call.arguments.get("ref") for call in drop)
        return (name for name in names if name is not None)

    def _columns(self, steps: Sequence[Step]) -> Iterator[Step]:
        """The step for the columns outside the properties that no other step and no `drop` names."""
        mapping, rest = self._mapping, self._mapping.properties.rest
        if self.flat or rest == "drop":
            return
        drops = [*mapping.properties.drop, *(call for rule in mapping.events.values() for call in rule.drop)]
        used = {name[1:] for name in self._dropped_references(drops) if name.startswith("/")}
        for operation in expressions.operations(tuple(steps)):
            if isinstance(operation, expressions.Column):
                used.add(operation.name)
        yield program.KeepColumns(tuple(sorted(used)), {"keep": "", "": f"{self.tool}_"}.get(rest, rest), self.loaders)

    def _clock(self, clock: language.Clock, is_time: bool) -> program.Clock:
        unit, form = self._word(clock.unit) or "iso", None
        if unit not in language.UNITS:
            raise UsageError(f"{unit!r} is not a unit of time", hint=f"use one of {', '.join(language.UNITS)}")
        if clock.form is not None and (form := self._word(clock.form)) is not None:
            unit = "format"
        elif unit == "format":
            raise UsageError("the unit `format` needs a time format", hint="for example %d/%m/%Y %H:%M")
        zone = "utc"
        if clock.zone == "project" or (clock.zone == "local" and unit in ("iso", "format")):
            # The zone of a local clock is never assumed: if no zone is named, the row cannot be sent.
            zone = "converted" if self.options.zones else "required" if clock.zone == "local" else "observed"
        is_evidence = is_time and zone in ("converted", "observed")
        return program.Clock(
            source=self.text(clock.source) if unit in ("iso", "format") else self.value(clock.source),
            unit=unit,
            form=form,
            space=clock.space == "yes",
            date=clock.date == "yes",
            zone=zone,
            no_evidence=self._optional(clock.proof_unless) if is_evidence else None,
        )

    def _word(self, call: Call | str) -> str | None:
        """A word of the mapping, or the setting that it names."""
        if not isinstance(call, Call):
            return call
        if call.verb == "setting":
            return self.setting(call)
        return str(call.arguments[call.verb])

    def _keys(self) -> Iterator[Step]:
        key = self._mapping.key
        if self._mapping.uuid is not None:
            yield program.SetUuid(self.text(self._mapping.uuid))
        if key is None:
            return
        if key.posthog is not None and is_importer_key(self._mapping, self.options):
            whole = self.text(key.posthog)
            yield program.SetKey((whole,), (whole,))
        else:
            yield program.SetKey(tuple(map(self.text, key.of)), tuple(map(self.text, key.needs)))

    # --- people

    def _merge(self, rule: LinkRule) -> program.Merge:
        return program.Merge(
            kind=rule.kind,
            into=tuple(map(self.text, rule.distinct_id)),
            other=tuple(map(self.text, rule.other)),
            version=self.text(rule.version) if rule.version is not None else None,
            of=self.value(rule.of) if rule.of is not None else None,
        )

    def _merges(self, rule: EventRule) -> tuple[Step, ...]:
        if rule.link is None:
            return ()
        merge, when = self._merge(rule.link), self._optional(rule.link.when)
        if rule.update == "person":
            return (program.AddLinks(merge, when, warn_incomplete=when is not None),)
        return (program.GiveLinks(merge, when),)

    def _observed(self) -> Iterator[Step]:
        pair, person, groups = self._mapping.pair, self._mapping.person, self._mapping.groups
        if pair is not None or person is not None:
            person = person or language.Person()
            yield program.ObservePerson(
                user=self.text(pair.user) if pair is not None else None,
                anonymous=tuple(map(self.text, pair.anonymous)) if pair is not None else (),
                set=self._presents(person.set),
                spread_set=tuple(map(self._spread, person.spread_set)),
                set_once=self._presents(person.set_once),
                spread_set_once=tuple(map(self._spread, person.spread_set_once)),
                unset=self.present(person.unset) if person.unset is not None else None,
            )
        if groups is not None and groups.set is not None:
            yield program.ObserveGroups(self.present(groups.set))

    def _updates(self, rule: EventRule) -> tuple[Step, ...]:
        if rule.update:
            return (program.GivePersonUpdate(),)
        if rule.profiles is not None:
            return (self._profiles(rule.profiles),)
        if rule.group is None:
            return ()
        group = rule.group
        if group.open is not None:
            return (program.GiveGroupUpdates(self.present(group.open), Missing(), Missing(), Missing()),)
        kind = self.text(group.type) if group.type is not None else Missing()
        key, properties = (self.present(call) if call is not None else Missing() for call in (group.key, group.set))
        return (program.GiveGroupUpdates(None, kind, key, properties),)

    def _profiles(self, profiles: language.Profiles) -> Step:
        column = expressions.Property if self.flat else expressions.Column
        return program.GiveProfiles(
            each=self.present(profiles.each) if profiles.each is not None else Missing(),
            id=expressions.NotNull(column(profiles.id)),
            properties=expressions.NotNull(column(profiles.properties)),
            id_member=profiles.id,
            properties_member=profiles.properties,
            leave=profiles.leave,
            rename=tuple(profiles.rename.items()),
        )

    def _by_rule(self, steps_by_rule: Iterator[tuple[Step, ...]]) -> Iterator[Step]:
        """The steps of single event rules, as one step, if any rule has steps; rules are numbered from 1."""
        rules = tuple(program.RuleSteps(number, steps) for number, steps in enumerate(steps_by_rule, 1) if steps)
        if rules:
            yield program.ByRule(rules)

    # --- properties

    def _spread(self, spread: language.Spread) -> expressions.Spread:
        return expressions.Spread(
            source=self.present(spread.source),
            only=spread.only,
            leave=spread.leave,
            rename=tuple(spread.rename.items()),
            strip=spread.strip,
            prefix=spread.prefix,
            blank=spread.blank if self._blanks is None or self._blanks.names else (*spread.blank, *self._blanks.json),
        )

    def _changes(self, steps: list[Step]) -> list[Step]:
        """Add the steps that evaluate the values of the changes; returns the steps that make the changes, except
        renames."""
        properties, groups = self._mapping.properties, self._mapping.groups
        sets: list[Step] = []
        values: dict[str, Variable] = {}
        for name, call in properties.set.items():
            value = self.present(call)
            if not isinstance(value, Missing):
                values[name] = self._let(steps, "set", value)
                how = "replace" if name in references_in(call) else "set"
                sets.append(program.SetProperty(name, values[name], how))
        fills = [
            program.SetProperty(name, self._let(steps, "fill", self.present(call)), "fill")
            for name, call in properties.fill.items()
        ]
        spreads = [
            program.SpreadProperties(self._let(steps, "spread", self._spread(spread))) for spread in properties.spread
        ]
        grouped = self._groups(steps, groups) if groups is not None else []
        rules = tuple(self._by_rule(self._overrides(rule, values) for rule in self._mapping.events.values()))
        steps += rules
        return [
            *spreads,
            *fills,
            *sets,
            *(program.ApplyOverrides() for _ in rules),
            *(program.ConvertProperty(name, one.kind, one.otherwise) for name, one in properties.types.items()),
            *(program.HashProperty(name, self.purpose(purpose)) for name, purpose in properties.hash.items()),
            *grouped,
        ]

    def _groups(self, steps: list[Step], groups: language.Groups) -> list[Step]:
        types = [(name, self._let(steps, "group", self.present(call))) for name, call in groups.types.items()]
        for name in filter(None, self.options.settings.get(groups.setting, "").split(",")):
            types.append((name, self._let(steps, "group", expressions.not_null(self.reference(name)))))
        chosen = self.options.group_types
        if groups.open is not None and groups.open.arguments.get("ref") == "$groups":
            return [program.KeepGroups(chosen)]
        opened = self._let(steps, "groups", self.present(groups.open)) if groups.open is not None else None
        return [program.SetGroups(opened, tuple(dict(types).items()), chosen)] if types or opened else []

    def _overrides(self, rule: EventRule, before: Map[str, Variable]) -> tuple[Step, ...]:
        if not (rule.set or rule.fill or rule.rename or rule.drop):
            return ()
        return (
            program.OverrideProperties(
                set=self._presents(rule.set),
                fill=self._presents(rule.fill),
                drop=self.dropped(rule.drop),
                rename=tuple((old, rule.rename[old]) for old in in_order(rule.rename)[0]),
                before=tuple((name, before[name]) for name in rule.set if name in before),
            ),
        )


def _event_cases(mapping: Mapping, options: SealedOptions) -> tuple[program.EventCase, ...]:
    """The cases of event names: those with a rule, and those that are out of the plan's scope."""
    cases = {
        name: program.EventCase(name, rule.name or name, number, rule.skip, rule.warn)
        for number, (name, rule) in enumerate(mapping.events.items(), 1)
    }
    for name, keep in (options.scope or {}).items():
        if not keep:
            cases[name] = program.EventCase(name, name, 0, OUT_OF_SCOPE)
    return tuple(cases.values())
