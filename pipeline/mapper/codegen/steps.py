"""Writes the Python source of a program's steps; `Emitter` writes the values in them."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import uuids
from pipeline.mapper.codegen import conversions, runtime
from pipeline.mapper.codegen.clocks import write_time
from pipeline.mapper.codegen.properties import PropertyEmitter
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.expressions import NamedValues, Value
from pipeline.mapper.program.operations import Step
from pipeline.models import Skip
from pipeline.validator.codes import NULLED, UNCONVERTED

MOST_TESTED = 8
"""Up to this many rules are tested in turn. More are halved first, so that many rules cost a row little more."""


class StepEmitter(PropertyEmitter):
    def __init__(self, source: program.Program) -> None:
        super().__init__(source)
        self._condenses = any(
            isinstance(step, program.ObservePerson) and step.unset is not None for step in source.steps
        )
        self._observes_groups = any(isinstance(step, program.ObserveGroups) for step in source.steps)
        self._extra_events: list[tuple[str, str]] = []

    def source(self) -> str:
        """The source of the function `map_row`; `scan` sees the row, its opened properties and its event's name as they
        came."""
        self.lines = ["def map_row(row, scan=None):", "    w = ()", "    try:"]
        self.depth = 2
        self.write(self.program.steps)
        self.lines.append("    except (BadValue, MsgspecError) as error:")
        if not any(isinstance(step, program.OpenProperties) and step.source is None for step in self.program.steps):
            self.lines.append("        if p is None and row.__class__ is not Row:")
            self.lines.append("            return map_dict(row.as_dict(), scan)")
        self.lines += ["        return RejectReason('bad_value', str(error))", ""]
        names = "".join(f"{name} = " for name in self._objects.values())
        self.lines[1] = f"    {names}None; w = ()" if names else self.lines[1]
        return "\n".join(self.lines)

    def write(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        match step:
            case program.OpenProperties():
                self.open_properties(step)
                self._set_registers()
            case program.LeaveOutBlanks():
                self.leave_out_blanks(step)
            case program.Let(name, expressions.Spread() as spread):
                self.remember(expressions.Variable(name), self.let_spread(name, spread))
            case program.Let(name, value):
                self.remember(expressions.Variable(name), self.value(value))
            case program.SkipRow(when, code, warning):
                with self.when(when):
                    self.line(f"return {self.const(Skip(code, warning), ('skip', code, warning))}")
            case program.WarnRow(code, text):
                self.line(f"if {(shown := self.value(text))} is not None: w += (({code!r}, {shown}),)")
            case program.SetEvent(value):
                self.line(f"event = {self.value(value)}")
                self.line("if scan is not None: scan.event = event")
            case program.MatchEvent():
                self._match_event(step)
            case program.ReadTime():
                write_time(self, step)
            case program.SetUuid(text):
                self.line(f"uuid = clean_uuid({self.value(text)})")
            case program.SetKey(parts, needs):
                whole = (
                    uuids.SEPARATOR.encode("unicode_escape")
                    .decode()
                    .join("{" + self.value(part) + " or ''}" for part in parts)
                )
                tests = [f"{need} and not {need}.isspace()" for need in map(self.value, needs)]
                self.line(f'key = f"{whole}" if {" and ".join(tests) or True} else None')
            case program.SetDistinctId():
                self._set_distinct_id(step)
            case program.AddLinks(merge, when, warn):
                with self.when(when):
                    links, incomplete = self._links(merge)
                    self.line(f"if {links}: further = {links} if further is None else [*further, *{links}]")
                    if warn:
                        self.line(f"else: w += ({incomplete},)")
            case program.GiveLinks(merge, when):
                with self.when(when):
                    links, incomplete = self._links(merge)
                    both = f"[*(further or ()), *{links}]"
                    self.line(f"if {links}: return {links}[0] if further is None and len({links}) == 1 else {both}")
                    self.line(f"return {incomplete} if further is None else [*further, {incomplete}]")
            case program.ByRule(rules):
                with self.block("if rule:"):
                    self._by_rule(rules)
            case program.ObservePerson():
                self._observe_person(step)
            case program.ObserveGroups(groups):
                self._observe_groups(groups)
            case program.GivePersonUpdate():
                self.line("update = PersonUpdate(distinct_id, time, note, received, placeholder, w, uuid or key)")
                if self._observes_groups:
                    self.line("if group_updates: return [update, *(further or ()), *group_updates]")
                self.line("return update if further is None else [update, *further]")
            case program.GiveGroupUpdates():
                self._give_group_updates(step)
            case program.GiveProfiles():
                reader = runtime.Profiles(step.id_member, step.properties_member, step.leave, dict(step.rename))
                values = ", ".join(map(self.value, (step.each, step.id, step.properties)))
                self.line(f"return {self.const(reader, step)}({values}, time, received)")
            case program.ReadExtraEvent():
                self._read_extra_event(step)
            case program.OverrideProperties():
                self.override_properties(step)
            case program.KeepProperties(names):
                self.keep_properties(names)
            case program.RenameProperties():
                self.rename_properties(step)
            case program.SpreadProperties(members):
                self.spread_properties(members)
            case program.SetProperty(name, variable, how):
                self.set_property(name, self.value(variable), how)
            case program.ApplyOverrides():
                self.apply_overrides()
            case program.ConvertProperty(name, kind, otherwise):
                with self.block(f"if (v := p.get({name!r})) is not None and v != NULL:"):
                    self.line(f"try: p[{name!r}] = {self.const(conversions.CONVERT[kind])}(v)")
                    self.line(f"except BadValue as error: {_unconverted(name, otherwise)}")
            case program.HashProperty(name, purpose):
                hashed = self.keyed_hash(purpose)
                self.line(f"if (v := text_of(p.get({name!r}))) is not None: p[{name!r}] = {hashed}(v)")
            case program.KeepGroups(chosen):
                with self.block("if '$groups' in p:"):
                    self._warn_of_groups(f"own_groups(p, {self._types(chosen)})")
            case program.SetGroups():
                self._set_groups(step)
            case program.KeepColumns():
                self.keep_columns(step)
            case program.GiveEvent():
                self._give_event()

    def _match_event(self, step: program.MatchEvent) -> None:
        cases = {
            case.event: Skip(case.skip, case.warning) if case.skip else (case.rename, case.rule) for case in step.cases
        }
        self.line(f"case = {self.const(cases)}.get(event)")
        with self.block("if case is None:"):
            if step.reject_others:
                self.line("if event is not None: return RejectReason('unmapped_event', event)")
            self.line("rule = 0")
        with self.block("else:"):
            if any(case.skip for case in step.cases):
                self.line("if case.__class__ is Skip: return case")
            self.line("event, rule = case")

    def _by_rule(self, rules: Sequence[program.RuleSteps]) -> None:
        """Find the steps of an event's rule by its number; the rules are in the order of their numbers."""
        if len(rules) > MOST_TESTED:
            middle = len(rules) // 2
            with self.block(f"if rule < {rules[middle].rule}:"):
                self._by_rule(rules[:middle])
            with self.block("else:"):
                self._by_rule(rules[middle:])
            return
        for rule in rules:
            with self.block(f"if rule == {rule.rule}:"):
                self.write(rule.steps)

    def _set_registers(self) -> None:
        """Set the registers that no step sets for every row."""
        kinds = set(map(type, self.program.steps))
        names = ["further", "note", *["overrides"] * (program.ApplyOverrides in kinds)]
        names += ["uuid"] * (program.SetUuid not in kinds) + ["key"] * (program.SetKey not in kinds)
        self.line(f"{' = '.join(names)} = None")
        if self._observes_groups:
            self.line("group_updates = ()")

    def _set_distinct_id(self, step: program.SetDistinctId) -> None:
        allowed = f"distinct_id not in {self.const(frozenset(step.allowed))} and " if step.allowed else ""
        bad = f"distinct_id is None or {allowed}is_placeholder(distinct_id)"
        if step.placeholders:
            bad += f" or distinct_id.lower() in {self.const(frozenset(step.placeholders))}"
        self.line("placeholder = ''")
        self.line("ignored = None")
        self._candidate(step.candidates, bad)
        with self.block("if ignored is not None:"):
            self.line("if distinct_id is None: placeholder = ignored")
            self.line("else: w += (('junk_distinct_id', ignored),)")

    def _candidate(self, candidates: Sequence[Value], bad: str, number: int = 0) -> None:
        self.line(f"distinct_id = {self.value(candidates[0])}")
        with self.block(f"if {bad}:"):
            self.line("if distinct_id and ignored is None and not distinct_id.isspace(): ignored = distinct_id")
            if len(candidates) > 1:
                self._candidate(candidates[1:], bad, number + 1)
            else:
                self.line("distinct_id = None")
                if counted := self._id_taken(number + 1):
                    self.line(counted)
        if counted := self._id_taken(number):
            self.line(f"else: {counted}")

    def _id_taken(self, number: int) -> str:
        """A statement for rows whose id is the candidate with this number, or, for one number more, none of them."""
        return ""

    def _links(self, merge: program.Merge) -> tuple[str, str]:
        """The variable with the links of a merge, empty or None if it has none, and the expression for the skip of a
        row without two ids."""
        name = self.local("l")
        time = "time if time.__class__ is int else None"
        if merge.of is not None:
            value = self.value(merge.of)
            self.line(f"{name} = links_of({merge.kind!r}, {value}, {time}, received, uuid or key)")
            return name, f"incomplete_list({value})"
        into = self._first_id(merge.into)
        other = self._first_id(merge.other, into)
        incomplete = f"incomplete({into}, {other})"
        if merge.kind == "person":
            into = f"person_number({into}, {self.value(merge.version) if merge.version is not None else None})"
            complete = f"{other} and not is_placeholder({other}) and {into}"
        else:
            complete = f"{into} and {other} and {into} != {other}"
            complete += f" and ({into} == distinct_id or not is_placeholder({into})) and not is_placeholder({other})"
        link = f"Link({merge.kind!r}, {into}, {other}, {time}, received, uuid or key)"
        self.line(f"{name} = [{link}] if {complete} else None")
        return name, incomplete

    def _first_id(self, candidates: Sequence[Value], other: str = "") -> str:
        """The variable with the first candidate that is not a placeholder and not `other`; if there is none, the
        last."""
        if len(candidates) == 1:
            return self.value(candidates[0])
        name = self.local("i")
        self._write_first_id(name, candidates, f" or {name} == {other}" if other else "")
        return name

    def _write_first_id(self, name: str, candidates: Sequence[Value], or_same: str) -> None:
        self.line(f"{name} = {self.value(candidates[0])}")
        if len(candidates) > 1:
            with self.block(f"if not {name} or is_placeholder({name}){or_same}:"):
                self._write_first_id(name, candidates[1:], or_same)

    def _observe_person(self, step: program.ObservePerson) -> None:
        with self.block("try:"):
            parts = ["None", "None"]
            if step.user is not None:
                parts = [self.local("u"), self.local("a")]
                self.line(f"{parts[0]} = {self.value(step.user)} or None")
                self.line(f"{parts[1]} = None")
                with self.block(f"if {parts[0]} is not None:"):
                    self._anonymous(step.anonymous, *parts)
            parts += [self._person(step.set, step.spread_set), self._person(step.set_once, step.spread_set_once)]
            if step.unset is not None:
                parts.append(self.local("g"))
                self.line(f"{parts[-1]} = names_of({self.value(step.unset)})")
            present = [part for part in parts if part != "None"]
            self.line(f"if {' or '.join(present) or False}: note = Note({', '.join(parts)})")
        self.line("except (BadValue, MsgspecError) as error: w += (('bad_value', 'of a person: ' + str(error)),)")

    def _anonymous(self, candidates: Sequence[Value], user: str, name: str) -> None:
        if not candidates:
            return
        candidate = self.value(candidates[0])
        self.line(f"if {candidate} and {candidate} != {user}: {name} = {candidate}")
        if len(candidates) > 1:
            with self.block("else:"):
                self._anonymous(candidates[1:], user, name)

    def _person(self, table: NamedValues, spreads: Sequence[expressions.Spread]) -> str:
        """The variable with a dict of person properties; "None" if the mapping sets none."""
        if not table and not spreads:
            return "None"
        source = spreads[0].source if len(spreads) == 1 and not table and not self._condenses else None
        column = source.value if isinstance(source, expressions.NotNull) else None
        if source is not None and isinstance(column, expressions.Column) and column.name != self.program.opened:
            return self._members_of_person(source, column, spreads[0])
        values = [(name, self.value(value)) for name, value in table]
        members = [self.value(spread) for spread in spreads]
        properties = self.local("d")
        self.line(f"{properties} = {{}}" if values or not members else f"{properties} = {members.pop(0)} or {{}}")
        for spread in members:
            self.line(f"if {spread}: {properties}.update({spread})")
        for name, value in values:
            self.line(f"if {value} is not None: {properties}[{name!r}] = {value}")
        return properties

    def _members_of_person(self, source: Value, column: Value, spread: expressions.Spread) -> str:
        """The members of one object stay Members, unless updates are condensed, which compares them as dicts."""
        value, members, properties = self.value(source), self.members_of(column), self.local("d")
        plain = f"{members}.__class__ is Members and {value}.__class__ is not dict"
        self.line(f"{properties} = {self.spreading(spread)}({members}) if {plain} else None")
        self.line(f"if {properties} is None: {properties} = {self.spreader(spread)}(opened({value}))")
        return properties

    def _observe_groups(self, groups: Value) -> None:
        with self.block("try:"):
            value = self.value(groups)
            given = f"{value}, time, received, w, distinct_id"
            self.line(f"if {value} is not None: group_updates, w = observed_groups({given})")
        self.line("except (BadValue, MsgspecError) as error: w += (('bad_value', 'of a group: ' + str(error)),)")

    def _give_group_updates(self, step: program.GiveGroupUpdates) -> None:
        function = "update_of_group" if step.open is None else "updates_of_groups"
        values = ", ".join(map(self.value, (step.type, step.key, step.set) if step.open is None else (step.open,)))
        self.line(f"updates = {function}({values}, time, received, w, distinct_id, uuid or key)")
        self.line("if note is not None: updates = with_pair(updates, distinct_id, note, time, received)")
        self.line("return updates if further is None else [*updates, *further]")

    def _read_extra_event(self, step: program.ReadExtraEvent) -> None:
        extra = self.local("x")
        self.line(f"{extra} = None")
        with self.when(step.when):
            name, pairs = self.value(step.event), self.pairs(step.properties)
            self.line(f"{extra} = {name}, {{k: v for k, v in {pairs} if v is not None}}")
        self._extra_events.append((extra, step.suffix))

    def _types(self, chosen: tuple[str, ...]) -> str:
        return self.const(frozenset(chosen), ("set", chosen))

    def _set_groups(self, step: program.SetGroups) -> None:
        self.line("d = {}")
        if step.open is not None:
            groups = self.value(step.open)
            self.line(f"if {groups} is not None: d.update(opened({groups}) or {{}})")
        for name, variable in step.types:
            key = self.value(variable)
            self.line(f"if {key} is not None: d[{name!r}] = {key}")
        with self.block("if d:"):
            self._warn_of_groups(f"add_groups(d, p, {self._types(step.chosen)})")

    def _warn_of_groups(self, left_out: str) -> None:
        self.line(f"left_out = {left_out}")
        self.line("if left_out: w += (('left_out_group', 'of no type that was chosen: ' + left_out),)")

    def _give_event(self) -> None:
        values = "event, distinct_id, time, p, key, uuid, received, wall, placeholder, w, note"
        if any(isinstance(step, program.MatchEvent) for step in self.program.steps):
            values += ", rule"
        self.line(f"result = UnvalidatedEvent({values})")
        for extra, suffix in self._extra_events:
            values = f"{extra}[0], distinct_id, time, {extra}[1], key and key + {suffix!r}"
            event = f"UnvalidatedEvent({values}, None, received, None, placeholder)"
            self.line(f"if {extra} is not None: further = [*(further or ()), {event}]")
        if self._observes_groups:
            self.line("if group_updates: return [result, *(further or ()), *group_updates]")
        self.line("return result if further is None else [result, *further]")


def _unconverted(name: str, otherwise: str) -> str:
    """The statement for a property that cannot be converted."""
    detail = f"{name + ': '!r} + str(error)"
    if otherwise == "reject":
        return f"return RejectReason('bad_value', {detail})"
    code = {"null": NULLED, "stop": UNCONVERTED + name}.get(otherwise, "bad_value")
    return f"w += (({code!r}, {detail}),)" + (f"; p[{name!r}] = NULL" if otherwise == "null" else "")
