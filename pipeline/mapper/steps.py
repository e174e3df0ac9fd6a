"""Writes the Python source of a program's steps, with what `Emitter` writes of the values in them."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import uuids
from pipeline.mapper import conversions, expressions, program, runtime
from pipeline.mapper.clocks import write_time
from pipeline.mapper.emitter import Emitter
from pipeline.mapper.expressions import NamedValues, Value
from pipeline.mapper.program import Step
from pipeline.models import Skip


class StepEmitter(Emitter):
    """The source of a whole program for rows that are dicts."""

    def __init__(self, source: program.Program) -> None:
        super().__init__(source)
        steps = list(expressions.operations(source.steps))
        self._observes_groups = any(isinstance(one, program.ObserveGroups) for one in steps)
        self._extra_events: list[tuple[str, str]] = []

    def source(self) -> str:
        """The function `map_row`, as source. With `observe` it also gives what only a plan asks for."""
        self.lines = ["def map_row(row, observe=False):", "    w = ()", "    try:"]
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
            case program.Let(name, value):
                self.remember(expressions.Variable(name), self.value(value))
            case program.SkipRow(when, code, warning):
                with self.when(when):
                    self.line(f"return {self.const(Skip(code, warning), ('skip', code, warning))}")
            case program.SetEvent(value):
                self.line(f"event = {self.value(value)}")
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
                    self.line(f"if {links}: more = {links} if more is None else [*more, *{links}]")
                    if warn:
                        self.line(f"else: w += ({incomplete},)")
            case program.GiveLinks(merge, when):
                with self.when(when):
                    links, incomplete = self._links(merge)
                    both = f"[*(more or ()), *{links}]"
                    self.line(f"if {links}: return {links}[0] if more is None and len({links}) == 1 else {both}")
                    self.line(f"return {incomplete} if more is None else [*more, {incomplete}]")
            case program.ByRule(rules):
                with self.block("if rule:"):
                    for one in rules:
                        with self.block(f"if rule == {one.rule}:"):
                            self.write(one.steps)
            case program.ObservePerson():
                self._observe_person(step)
            case program.ObserveGroups(groups):
                self._observe_groups(groups)
            case program.GivePersonUpdate():
                self.line("update = PersonUpdate(who, time, note, received, placeholder, w)")
                if self._observes_groups:
                    self.line("if of_groups: return [update, *(more or ()), *of_groups]")
                self.line("return update if more is None else [update, *more]")
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
            case program.RenameProperties():
                self.rename_properties(step)
            case program.SpreadProperties(members):
                spread = self.value(members)
                with self.block(f"if {spread} is not None:"), self.block(f"for k, v in {spread}.items():"):
                    self.line("if p.setdefault(k, v) is not v: w = collided(k, v, p, w)")
            case program.FillProperty(name, variable):
                held = self.value(variable)
                self.line(f"if {held} is not None: p.setdefault({name!r}, {held})")
            case program.SetProperty(name, variable, replace):
                self.set_property(name, self.value(variable), replace)
            case program.CopyColumn(name, column):
                self.copy_column(name, column)
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
                    self._left_out_groups(f"own_groups(p, {self._types(chosen)})")
            case program.SetGroups():
                self._set_groups(step)
            case program.KeepColumns():
                self.keep_columns(step)
            case program.GiveEvent():
                self._give_event()

    # --- steps that native rows do in another way (`pipeline.mapper.native_rows`)

    def open_properties(self, step: program.OpenProperties) -> None:
        if step.source is None:
            self.line("p = row")
            with self.block("if None in p.values():"):
                self.line("p = {k: v for k, v in p.items() if v is not None}")
        else:
            held = self.value(step.source)
            self.line(f"if {held}.__class__ is dict: p = {held}")
            with self.block(f"elif {held}.__class__ is Raw:"):
                self.line(f"try: p = decode_object({held})")
                self.line(f"except MsgspecError: p = opened({held}) or {{}}")
            with self.block("else:"):
                self.line(f"p = opened({held}) or {{}}")
        self.line("pop = p.pop")
        self.line("get = p.get")
        self._set_registers()

    def rename_properties(self, step: program.RenameProperties) -> None:
        changes = {one.old: one.new for one in step.rare}
        blanks = {name: frozenset(texts) for name, texts in step.blanks}
        if changes or blanks:
            names = self.const(frozenset(changes) | frozenset(blanks))
            renames = self.const(runtime.RenameMap(changes, blanks))
            self.line(f"if not {names}.isdisjoint(p): w = {renames}(p, w)")
        for one in step.common:
            if not one.read and one.new is None:
                self.line(f"pop({one.old!r}, None)")
            elif not one.read:
                self.line(f"if (v := pop({one.old!r}, None)) is not None: {_renaming(one, 'v')}")
            elif one.new is not None:
                held = self.value(expressions.Property(one.old))
                self.line(f"if {held} is not None: {_renaming(one, held)}")

    def override_properties(self, step: program.OverrideProperties) -> None:
        sets, fills = self._pairs(step.set), self._pairs(step.fill)
        self.line(f"late = ({sets}, {fills}, {self.const(dict(step.rename))}, {self.const(step.drop)})")

    def apply_overrides(self) -> None:
        overrides = self.const(runtime.EventOverrides(self.program.tool))
        self.line(f"if late is not None: w = {overrides}(p, late, w)")

    def copy_column(self, name: str, column: str) -> None:
        self.set_property(name, self.value(expressions.NotNull(expressions.Column(column))), False)

    def keep_columns(self, step: program.KeepColumns) -> None:
        self.line(f"if row: {self.const(runtime.ExtraColumns(set(step.named), step.prefix))}(row, p)")

    # --- steps that are the same for both

    def _set_registers(self) -> None:
        """Set the registers that no later step sets for every row."""
        later = {program.SetUuid: "uuid", program.SetKey: "key"}
        kinds = set(map(type, self.program.steps))
        names = ["more", "note", *(name for kind, name in later.items() if kind not in kinds)]
        names += ["late"] * (program.ApplyOverrides in kinds)
        self.line(f"{' = '.join(names)} = None")
        if self._observes_groups:
            self.line("of_groups = ()")

    def set_property(self, name: str, held: str, replace: bool) -> None:
        if replace:
            self.line(f"if {held} is not None: p[{name!r}] = {held}")
            return
        setting = f"p.setdefault({name!r}, {held})"
        self.line(f"if {held} is not None and {setting} is not {held}: w = collided({name!r}, {held}, p, w)")

    def _match_event(self, step: program.MatchEvent) -> None:
        cases = {one.event: Skip(one.skip, one.warning) if one.skip else (one.rename, one.rule) for one in step.cases}
        self.line(f"case = {self.const(cases)}.get(event)")
        with self.block("if case is None:"):
            if step.reject_others:
                self.line("if event is not None: return RejectReason('unmapped_event', event)")
            self.line("rule = 0")
        with self.block("else:"):
            if any(one.skip for one in step.cases):
                self.line("if case.__class__ is Skip: return case")
            self.line("event, rule = case")

    def _set_distinct_id(self, step: program.SetDistinctId) -> None:
        bad = "who is None or is_placeholder(who)"
        if step.placeholders:
            bad += f" or who.lower() in {self.const(frozenset(step.placeholders))}"
        self.line("placeholder = False")
        self.line("passed = None")
        self._candidate(step.candidates, bad)
        with self.block("if passed is not None:"):
            self.line("if who is None: placeholder = True")
            self.line("else: w += (('junk_distinct_id', passed),)")

    def _candidate(self, candidates: Sequence[Value], bad: str) -> None:
        self.line(f"who = {self.value(candidates[0])}")
        with self.block(f"if {bad}:"):
            self.line("if who and passed is None and not who.isspace(): passed = who")
            if len(candidates) > 1:
                self._candidate(candidates[1:], bad)
            else:
                self.line("who = None")

    def _links(self, merge: program.Merge) -> tuple[str, str]:
        """The name of the links of a merge, empty or None where it has none, and the skip that says what it lacks."""
        name = self.local("l")
        time = "time if time.__class__ is int else None"
        if merge.of is not None:
            value = self.value(merge.of)
            self.line(f"{name} = links_of({merge.kind!r}, {value}, {time})")
            return name, f"incomplete_list({value})"
        into = self._first_sound(merge.into)
        other = self._first_sound(merge.other, into)
        incomplete = f"incomplete({into}, {other})"
        if merge.kind == "person":
            into = f"person_number({into}, {self.value(merge.version) if merge.version is not None else None})"
            sound = f"{other} and not is_placeholder({other}) and {into}"
        else:
            sound = f"{into} and {other} and {into} != {other}"
            sound += f" and ({into} == who or not is_placeholder({into})) and not is_placeholder({other})"
        self.line(f"{name} = [Link({merge.kind!r}, {into}, {other}, {time})] if {sound} else None")
        return name, incomplete

    def _first_sound(self, candidates: Sequence[Value], beside: str = "") -> str:
        """The first candidate that names somebody, and somebody else than `beside`; the last where none does."""
        if len(candidates) == 1:
            return self.value(candidates[0])
        name = self.local("i")
        self._write_sound(name, candidates, f" or {name} == {beside}" if beside else "")
        return name

    def _write_sound(self, name: str, candidates: Sequence[Value], same: str) -> None:
        self.line(f"{name} = {self.value(candidates[0])}")
        if len(candidates) > 1:
            with self.block(f"if not {name} or is_placeholder({name}){same}:"):
                self._write_sound(name, candidates[1:], same)

    def _observe_person(self, step: program.ObservePerson) -> None:
        with self.block("if observe:"), self.block("try:"):
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
            found = [part for part in parts if part != "None"]
            self.line(f"if {' or '.join(found) or False}: note = Note({', '.join(parts)})")
            self.depth -= 1
            self.line("except (BadValue, MsgspecError) as error: w += (('bad_value', 'of a person: ' + str(error)),)")
            self.depth += 1

    def _anonymous(self, candidates: Sequence[Value], user: str, name: str) -> None:
        if not candidates:
            return
        found = self.value(candidates[0])
        self.line(f"if {found} and {found} != {user}: {name} = {found}")
        if len(candidates) > 1:
            with self.block("else:"):
                self._anonymous(candidates[1:], user, name)

    def _person(self, table: NamedValues, spreads: Sequence[expressions.Spread]) -> str:
        """The name of a dict of person properties; "None" where nothing makes one."""
        if not table and not spreads:
            return "None"
        values = [(name, self.value(value)) for name, value in table]
        members = [self.value(spread) for spread in spreads]
        made = self.local("d")
        self.line(f"{made} = {{}}" if values or not members else f"{made} = {members.pop(0)} or {{}}")
        for one in members:
            self.line(f"if {one}: {made}.update({one})")
        for name, held in values:
            self.line(f"if {held} is not None: {made}[{name!r}] = {held}")
        return made

    def _observe_groups(self, groups: Value) -> None:
        with self.block("if observe:"), self.block("try:"):
            held = self.value(groups)
            self.line(f"if {held} is not None: of_groups, w = group_notes({held}, time, received, w)")
            self.depth -= 1
            self.line("except (BadValue, MsgspecError) as error: w += (('bad_value', 'of a group: ' + str(error)),)")
            self.depth += 1

    def _give_group_updates(self, step: program.GiveGroupUpdates) -> None:
        if step.open is not None:
            self.line(f"updates = group_updates({self.value(step.open)}, time, received, w)")
        else:
            values = ", ".join(map(self.value, (step.type, step.key, step.set)))
            self.line(f"updates = group_update({values}, time, received, w)")
        self.line("if note is not None: updates = with_pair(updates, who, note, time, received)")
        self.line("return updates if more is None else [*updates, *more]")

    def _read_extra_event(self, step: program.ReadExtraEvent) -> None:
        held = self.local("x")
        self.line(f"{held} = None")
        with self.when(step.when):
            name, pairs = self.value(step.event), self._pairs(step.properties)
            self.line(f"{held} = {name}, {{k: v for k, v in {pairs} if v is not None}}")
        self._extra_events.append((held, step.suffix))

    def _pairs(self, table: NamedValues) -> str:
        return "(" + "".join(f"({name!r}, {self.value(value)}), " for name, value in table) + ")"

    def _types(self, chosen: tuple[str, ...]) -> str:
        return self.const(frozenset(chosen), ("set", chosen))

    def _set_groups(self, step: program.SetGroups) -> None:
        self.line("d = {}")
        if step.open is not None:
            held = self.value(step.open)
            self.line(f"if {held} is not None: d.update(opened({held}) or {{}})")
        for name, variable in step.types:
            held = self.value(variable)
            self.line(f"if {held} is not None: d[{name!r}] = {held}")
        with self.block("if d:"):
            self._left_out_groups(f"add_groups(d, p, {self._types(step.chosen)})")

    def _left_out_groups(self, left: str) -> None:
        self.line(f"left = {left}")
        self.line("if left and observe: w += (('left_out_group', 'of no type that was chosen: ' + left),)")

    def _give_event(self) -> None:
        self.line("result = UnvalidatedEvent(event, who, time, p, key, uuid, received, wall, placeholder, w, note)")
        for held, suffix in self._extra_events:
            values = f"{held}[0], who, time, {held}[1], key and key + {suffix!r}, None, received, None, placeholder"
            self.line(f"if {held} is not None: more = [*(more or ()), UnvalidatedEvent({values})]")
        # Groups come last: the events of a row are numbered by their places, here as in an apply.
        if self._observes_groups:
            self.line("if of_groups: return [result, *(more or ()), *of_groups]")
        self.line("return result if more is None else [result, *more]")


def _renaming(one: program.RenameProperty, held: str) -> str:
    setting = f"p.setdefault({one.new!r}, {held})"
    return f"w = w if {setting} is {held} else renamed({one.old!r}, {one.new!r}, {held}, p, w)"
