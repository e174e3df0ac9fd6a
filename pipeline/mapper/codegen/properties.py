"""Writes the Python source of the steps that take properties from a row and change them."""

from __future__ import annotations

from functools import partial

from pipeline.mapper.codegen import row_kinds, runtime
from pipeline.mapper.codegen.values import Emitter
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.expressions import NamedValues


class PropertyEmitter(Emitter):
    def __init__(self, source: program.Program) -> None:
        super().__init__(source)
        (names,) = (step for step in source.steps if isinstance(step, program.RenameProperties))
        self.renamed = partial(row_kinds.renamed, source.tool, names.reserved())
        self.collided = partial(row_kinds.collided, source.tool)
        self._spreads: dict[str, expressions.Spread] = {}

    def open_properties(self, step: program.OpenProperties) -> None:
        opened = self.program.opened
        if step.source is None:
            self.line("p = row")
        else:
            self.line("p = None")
            opener = self.made(
                "properties", lambda kind: kind.properties_opener(frozenset(step.blanks), opened is not None)
            )
            if opened is not None:
                self.line(f"v = row.get({opened!r})")
                self.line(f"p = v if v.__class__ is Members else {opener}(v)")
                self.for_members = not step.shared
            else:
                self.line(f"p = {opener}({self.value(step.source)})")
        self.line(f"if scan is not None: shown(scan, row, p, {step.source is not None and opened is None})")
        if step.shared:
            name = self.remember(("object", step.source), f"m{len(self._objects)}")
            self._objects[step.source] = name
            self.line(f"{name} = p.twin()")

    def leave_out_blanks(self, step: program.LeaveOutBlanks) -> None:
        json, cells, names = frozenset(step.json), frozenset(step.cells), frozenset(step.names)
        opened = self.program.opened
        self.line(f"{self.made('blanks', lambda kind: kind.blanks(json, cells, names, opened))}(row)")
        inside = self.made("blanks inside", lambda kind: kind.blanks(json, cells, names, None))
        self.line(f"if p is not row: {inside}(p)")

    def keep_properties(self, names: tuple[str, ...]) -> None:
        with self.block("for k in [*p]:"):
            self.line(f"if k not in {self.const(frozenset(names))}: del p[k]")

    def rename_properties(self, step: program.RenameProperties) -> None:
        blanks = {name: frozenset(texts) for name, texts in step.blanks}
        self.line(f"w = {self._renames((*step.rare, *step.common), blanks, step.loaders)}(p, w)")

    def _renames(
        self, changes: tuple[program.RenameProperty, ...], blanks: dict[str, frozenset[str]], loaders: bool = False
    ) -> str:
        """The name of what applies all changes in one call, in order."""
        table = tuple((change.old, change.new) for change in changes)
        key = "renames", table, tuple(blanks.items()), loaders
        return self.made(key, lambda kind: kind.renames(table, self.renamed, blanks, loaders))

    def override_properties(self, step: program.OverrideProperties) -> None:
        sets, fills = self._sets(step), self.pairs(step.fill)
        changes = dict.fromkeys(step.drop) | {old: new for old, new in step.rename if old not in step.drop}
        renames = self._renames(tuple(program.RenameProperty(old, new) for old, new in changes.items()), {})
        self.line(f"overrides = ({sets}, {fills}, {renames})")

    def apply_overrides(self) -> None:
        with self.block("if overrides is not None:"):
            self.line("sets, fills, renames = overrides")
            self.line("w = renames(p, w)")
            with self.block("for k, v in fills:"):
                self.line("if v is not None: p.setdefault(k, v)")
            with self.block("for k, v, before in sets:"):
                self.line("if v is not None and before is not None: p[k] = v")
                self.line("elif v is not None and p.setdefault(k, v) is not v: w = collided(k, v, p, w)")

    def keep_columns(self, step: program.KeepColumns) -> None:
        new_name = partial(row_kinds.column_name, frozenset(step.named), step.prefix, step.loaders)
        columns = self.made("columns", lambda kind: kind.columns(new_name))
        self.line(f"if taken := {columns}(row, p, ()): w = keep_taken({step.prefix!r}, taken, p, w)")

    def spreader(self, spread: expressions.Spread) -> str:
        return self.const(runtime.spreader(spread), ("spread", spread))

    def spreading(self, spread: expressions.Spread) -> str:
        """The name of what spreads Members, or a Row."""
        spreader = runtime.spreader(spread)
        return self.made(("spread rows", spread), lambda kind: kind.spread(spreader, self.collided))

    def let_spread(self, variable: str, spread: expressions.Spread) -> str:
        """The variable with the members of an object, or with the dict that they become."""
        self._spreads[variable] = spread
        source, name = self.value(spread.source), self.local("s")
        self.line(f"{name} = {self.opener(spread.source)}({source})")
        self.line(f"if {name} is None: {name} = {self.spreader(spread)}(opened({source}))")
        return name

    def spread_properties(self, variable: expressions.Variable) -> None:
        members = self.value(variable)
        self.line(
            f"if {members}.__class__ is Members: w = {self.spreading(self._spreads[variable.name])}({members}, p, w)"
        )
        with self.block(f"elif {members} is not None:"), self.block(f"for k, v in {members}.items():"):
            self.line("if p.setdefault(k, v) is not v: w = collided(k, v, p, w)")

    def set_property(self, name: str, value: str, how: str) -> None:
        default = f"p.setdefault({name!r}, {value})"
        if how == "set":
            self.line(f"if {value} is not None and {default} is not {value}: w = collided({name!r}, {value}, p, w)")
        else:
            self.line(f"if {value} is not None: {default if how == 'fill' else f'p[{name!r}] = {value}'}")

    def pairs(self, table: NamedValues) -> str:
        return "(" + "".join(f"({name!r}, {self.value(value)}), " for name, value in table) + ")"

    def _sets(self, step: program.OverrideProperties) -> str:
        """What a rule sets: name, value, and the value that the mapping sets for all events, None if it sets none."""
        before = {name: self.value(value) for name, value in step.before}
        each = (f"({name!r}, {self.value(value)}, {before.get(name)}), " for name, value in step.set)
        return "(" + "".join(each) + ")"
