"""Writes the Python source of a program's steps; `Emitter` writes the values in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pipeline import uuids
from pipeline.mapper.codegen import conversions, runtime, taken_names
from pipeline.mapper.codegen.by_rule import write_by_rule
from pipeline.mapper.codegen.clocks import write_time
from pipeline.mapper.codegen.values import Emitter
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.blanks import BlankRemover
from pipeline.mapper.program.expressions import NamedValues, Value
from pipeline.mapper.program.operations import Step
from pipeline.models import Skip


class StepEmitter(Emitter):
    """The source of a whole program for rows that are dicts."""

    def __init__(self, source: program.Program) -> None:
        super().__init__(source)
        self._observes_groups = any(isinstance(step, program.ObserveGroups) for step in source.steps)
        self._extra_events: list[tuple[str, str]] = []
        (names,) = (step for step in source.steps if isinstance(step, program.RenameProperties))
        self.renamed = partial(taken_names.renamed, source.tool, names.reserved())

    def source(self) -> str:
        """The source of the function `map_row`. With `observe` it also returns the updates and notes for a plan, and
        `scan` sees the row, its opened properties and its event's name as they came (`RowScan`)."""
        self.lines = ["def map_row(row, observe=False, scan=None):", "    w = ()", "    try:"]
        self.depth = 2
        self.write(self.program.steps)
        self.lines += [
            "    except (BadValue, MsgspecError) as error:",
            "        return RejectReason('bad_value', str(error))",
            "",
        ]
        return "\n".join(self.lines)

    def write(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        match step:
            case program.OpenProperties():
                self.open_properties(step)
            case program.LeaveOutBlanks():
                self.leave_out_blanks(step)
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
                    write_by_rule(self, rules, self.write)
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
                spread = self.value(members)
                with self.block(f"if {spread} is not None:"), self.block(f"for k, v in {spread}.items():"):
                    self.line("if p.setdefault(k, v) is not v: w = collided(k, v, p, w)")
            case program.FillProperty(name, variable):
                filled = self.value(variable)
                self.line(f"if {filled} is not None: p.setdefault({name!r}, {filled})")
            case program.SetProperty(name, variable, replace):
                self.set_property(name, self.value(variable), replace)
            case program.CopyColumn(name, column):
                self.set_property(name, self.value(expressions.NotNull(expressions.Column(column))), False)
            case program.ApplyOverrides():
                self.apply_overrides()
            case program.ConvertProperty(name, kind):
                with self.block(f"if (v := p.get({name!r})) is not None and v != NULL:"):
                    self.line(f"try: p[{name!r}] = {self.const(conversions.CONVERT[kind])}(v)")
                    self.line(f"except BadValue as error: w += (('bad_value', {name + ': '!r} + str(error)),)")
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

    # --- steps that `pipeline.mapper.codegen.native_rows` overrides

    def open_properties(self, step: program.OpenProperties) -> None:
        self.line("if scan is not None: scan.row(row)")
        if step.source is None:
            self.line("p = row")
            with self.block("if None in p.values():"):
                self.line("p = {k: v for k, v in p.items() if v is not None}")
        else:
            source = self.value(step.source)
            opened = f"opened({source}) or {{}}"
            if step.blanks:
                opened = f"{{}} if text_of({source}) in {self.const(frozenset(step.blanks))} else {opened}"
            self.line(f"if {source}.__class__ is dict: p = {f'dict({source})' if step.shared else source}")
            with self.block(f"elif {source}.__class__ is Raw:"):
                self.line(f"try: p = decode_object({source})")
                self.line(f"except MsgspecError: p = {opened}")
            with self.block("else:"):
                self.line(f"p = {opened}")
            reads = (one for one in expressions.operations(self.program.steps) if isinstance(one, expressions.Member))
            if step.shared and any(one.of == step.source for one in reads):
                members = self.remember(("members", step.source), self.local("o"))
                self.line(f"{members} = p.copy()")
            self.line("if scan is not None: scan.opened(p)")
        self.line("pop = p.pop")
        self.line("get = p.get")
        self._set_registers()

    def leave_out_blanks(self, step: program.LeaveOutBlanks) -> None:
        remove = self.const(BlankRemover(step), step)
        self.line(f"{remove}(row)")
        self.line(f"if p is not row: {remove}(p)")

    def keep_properties(self, names: tuple[str, ...]) -> None:
        self.line(f"p = {{k: v for k, v in p.items() if k in {self.const(frozenset(names))}}}")
        self.line("pop = p.pop")

    def rename_properties(self, step: program.RenameProperties) -> None:
        if step.loaders:
            self.line(f"without_loader_columns(p, {self.const(step.old_names())})")
        changes = {rename.old: rename.new for rename in step.rare}
        blanks = {name: frozenset(texts) for name, texts in step.blanks}
        if changes or blanks:
            names = self.const(frozenset(changes) | frozenset(blanks))
            arguments = f"renamed, {self.const(changes)}, {self.const(blanks)}, p, w"
            self.line(f"if not {names}.isdisjoint(p): w = rename_present({arguments})")
        removed = {rename.old: self.local("r") for rename in step.common if rename.first}
        for old, name in removed.items():
            self.line(f"{name} = pop({old!r}, None)")
        for rename in step.common:
            if not rename.read and rename.new is None:
                self.line(f"pop({rename.old!r}, None)")
            elif rename.new is not None:
                taken = self.value(expressions.Property(rename.old)) if rename.read else removed.get(rename.old)
                value = taken or "v"
                with self.block(f"if {taken or f'(v := pop({rename.old!r}, None))'} is not None:"):
                    self.line(f"if {rename.new!r} in p: w = renamed({rename.old!r}, {rename.new!r}, {value}, p, w)")
                    self.line(f"else: p[{rename.new!r}] = {value}")

    def override_properties(self, step: program.OverrideProperties) -> None:
        sets, fills = self._sets(step), self._pairs(step.fill)
        self.line(f"overrides = ({sets}, {fills}, {self.const(dict(step.rename))}, {self.const(step.drop)})")

    def apply_overrides(self) -> None:
        self.line(f"if overrides is not None: w = apply_overrides({self.program.tool!r}, renamed, overrides, p, w)")

    def keep_columns(self, step: program.KeepColumns) -> None:
        call = f"keep_columns({self.const(frozenset(step.named))}, {step.prefix!r}, row, p, {step.loaders})"
        self.line(f"if row and (taken := {call}): w = keep_taken({step.prefix!r}, taken, p, w)")

    # --- steps that are the same for both

    def _set_registers(self) -> None:
        """Set the registers that no step sets for every row."""
        kinds = set(map(type, self.program.steps))
        names = ["further", "note", *["overrides"] * (program.ApplyOverrides in kinds)]
        names += ["uuid"] * (program.SetUuid not in kinds) + ["key"] * (program.SetKey not in kinds)
        self.line(f"{' = '.join(names)} = None")
        if self._observes_groups:
            self.line("group_updates = ()")

    def set_property(self, name: str, value: str, replace: bool) -> None:
        if replace:
            self.line(f"if {value} is not None: p[{name!r}] = {value}")
            return
        setting = f"p.setdefault({name!r}, {value})"
        self.line(f"if {value} is not None and {setting} is not {value}: w = collided({name!r}, {value}, p, w)")

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

    def _set_distinct_id(self, step: program.SetDistinctId) -> None:
        allowed = f"distinct_id not in {self.const(frozenset(step.allowed))} and " if step.allowed else ""
        bad = f"distinct_id is None or {allowed}is_placeholder(distinct_id)"
        if step.placeholders:
            bad += f" or distinct_id.lower() in {self.const(frozenset(step.placeholders))}"
        self.line("placeholder = False")
        self.line("ignored = None")
        self._candidate(step.candidates, bad)
        with self.block("if ignored is not None:"):
            self.line("if distinct_id is None: placeholder = True")
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
        """A statement for rows whose id is the candidate of this number, or where it is one more, none of them."""
        return ""

    def _links(self, merge: program.Merge) -> tuple[str, str]:
        """The variable with the links of a merge, empty or None where it has none, and the expression of the skip of a
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
        """The variable with the first candidate that is no placeholder and not `other`; the last where none is."""
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
        with self.block("if observe:"):
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
        """The variable with a dict of person properties; "None" where the mapping sets none."""
        if not table and not spreads:
            return "None"
        values = [(name, self.value(value)) for name, value in table]
        members = [self.value(spread) for spread in spreads]
        properties = self.local("d")
        self.line(f"{properties} = {{}}" if values or not members else f"{properties} = {members.pop(0)} or {{}}")
        for spread in members:
            self.line(f"if {spread}: {properties}.update({spread})")
        for name, value in values:
            self.line(f"if {value} is not None: {properties}[{name!r}] = {value}")
        return properties

    def _observe_groups(self, groups: Value) -> None:
        with self.block("if observe:"):
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
            name, pairs = self.value(step.event), self._pairs(step.properties)
            self.line(f"{extra} = {name}, {{k: v for k, v in {pairs} if v is not None}}")
        self._extra_events.append((extra, step.suffix))

    def _pairs(self, table: NamedValues) -> str:
        return "(" + "".join(f"({name!r}, {self.value(value)}), " for name, value in table) + ")"

    def _sets(self, step: program.OverrideProperties) -> str:
        """What a rule sets: name, value, and the value that the mapping sets for all events, None without one."""
        before = {name: self.value(value) for name, value in step.before}
        each = (f"({name!r}, {self.value(value)}, {before.get(name)}), " for name, value in step.set)
        return "(" + "".join(each) + ")"

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
        self.line("if left_out and observe: w += (('left_out_group', 'of no type that was chosen: ' + left_out),)")

    def _give_event(self) -> None:
        values = "event, distinct_id, time, p, key, uuid, received, wall, placeholder, w, note"
        if any(isinstance(step, program.MatchEvent) for step in self.program.steps):
            values += ", rule"
        self.line(f"result = UnvalidatedEvent({values})")
        for extra, suffix in self._extra_events:
            values = f"{extra}[0], distinct_id, time, {extra}[1], key and key + {suffix!r}"
            event = f"UnvalidatedEvent({values}, None, received, None, placeholder)"
            self.line(f"if {extra} is not None: further = [*(further or ()), {event}]")
        # Groups come last, so that the events of a row have the same positions in a plan and in an apply.
        if self._observes_groups:
            self.line("if group_updates: return [result, *(further or ()), *group_updates]")
        self.line("return result if further is None else [result, *further]")
