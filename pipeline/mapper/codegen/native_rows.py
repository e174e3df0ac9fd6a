"""Writes the source of the same program for rows that are `pipeline.native` Members.

One call reads a member as a text or a number, instead of a lookup, a test and a decoding, and nothing is removed while
it is read: `native.Renames` changes all properties at once. The outcomes are the same, to the byte; a row whose
properties are no Members goes to the function for dicts. What a decoder makes of a row becomes Members first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from pipeline.mapper.codegen import conversions, runtime, taken_names
from pipeline.mapper.codegen.steps import StepEmitter
from pipeline.mapper.loader_columns import is_loader_column
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.native import native
from pipeline.values import NULL

MOST_RENAMES = 30_000
"""The limit of `native.Renames`; a mapping with more is not compiled for Members."""


_AS_DICT = "return map_dict(row.as_dict(), observe, scan)"


def _blanks_of(renamed: taken_names.Renamed, blanks: dict[str, frozenset[str]]) -> Callable[[Any, Any], Any]:
    """A function of properties and warnings that leaves out the blank ones. `native.Blanks` compare no text with a dict
    or a list, as which a reader may pass an object."""
    if any(text[:1] in ("{", "[") for texts in blanks.values() for text in texts):
        return partial(taken_names.rename_present, renamed, {}, blanks)
    names_of: dict[frozenset[str], list[str]] = {}
    for name, texts in blanks.items():
        names_of.setdefault(texts, []).append(name)
    each = [native.Blanks(texts, texts, frozenset(names)) for texts, names in names_of.items()]

    def leave_out(properties: Any, warnings: Any) -> Any:
        for remove in each:
            remove(properties)
        return warnings

    return leave_out


class NotNative(Exception):
    """The program cannot run over Members."""


def _one_call(step: program.Step) -> str:
    """The method that writes such steps, one after the other, as one call; "" where each is written by itself."""
    if isinstance(step, program.FillProperty | program.CopyColumn):
        return "_set_properties"
    if isinstance(step, program.SetProperty) and not step.replace:
        return "_set_properties"
    return "_convert_numbers" if isinstance(step, program.ConvertProperty) and step.type == "number" else ""


class OddMembers(dict[str, Any]):
    """The members of an object that is not plain, read like `pipeline.native` Members."""

    def text(self, name: str) -> str | None:
        return runtime.text_of(self.get(name))

    def given(self, name: str) -> Any:
        value = self.get(name)
        return None if value == NULL else value

    def number(self, name: str) -> Any:
        return self.get(name)


def spread_slowly(
    spreader: runtime.Spreader, collided: Callable[..., Any], members: Any, properties: Any, warnings: Any
) -> Any:
    """Add the members of an object to the properties, as they are spread."""
    for name, value in spreader(members.as_dict()).items():
        if properties.setdefault(name, value) is not value:
            warnings = collided(name, value, properties, warnings)
    return warnings


class NativeEmitter(StepEmitter):
    """The source of a program over Members. Its methods raise NotNative."""

    decodes_numbers = True
    copied = "p.as_dict()"

    def __init__(self, source: program.Program) -> None:
        super().__init__(source)
        self._objects: dict[object, str] = {}
        """The variable of each object that members are read of, None until it is opened."""
        self._spreads: dict[str, expressions.Spread] = {}

    def source(self) -> str:
        head, rest = super().source().split("\n", 1)
        names = "".join(f"{name} = " for name in self._objects.values())
        return f"{head}\n    {names}None\n{rest}" if names else f"{head}\n{rest}"

    @property
    def _opens(self) -> bool:
        """Whether the properties are members of an object in the row."""
        return any(isinstance(step, program.OpenProperties) and step.source is not None for step in self.program.steps)

    def open_properties(self, step: program.OpenProperties) -> None:
        scanned = "row"
        if step.source is None:
            self.line("p = row")
        elif self.program.opened is not None:
            self.line(f"p = row.get({self.program.opened!r})")
            self.line(f"if p.__class__ is not Members: {_AS_DICT}")
        else:
            self._open(step, step.source)
            scanned = "row, p"
        self.line(f"if scan is not None: scan.members({scanned}); scan.event = None")
        self._set_registers()

    def _open(self, step: program.OpenProperties, value: expressions.Value) -> None:
        """Open a computed object; a row where that fails goes on as a dict, and has not been scanned yet."""
        self.line("try:")
        self.depth += 1
        source = self.value(value)
        self.line(f"p = {self.const(native.Opener(), 'opener')}({source})")
        self.depth -= 1
        self.line(f"except (BadValue, MsgspecError): {_AS_DICT}")
        self.line(f"if p is None: {_AS_DICT}")
        if step.shared:
            self.line(f"{self._object(value)} = p.twin()")
            self.remember(("object", value), self._object(value))

    def presence_of(self, reference: expressions.Value, value: expressions.Value) -> expressions.Value:
        """The text or the value that is read anyhow; null is missing there, too, so only where nothing reads it."""
        if reference in self.numbers or isinstance(reference, expressions.Variable):
            return reference
        reads = list(expressions.operations(value))
        text, present = expressions.AsText(reference), expressions.NotNull(reference)
        if reads.count(reference) > reads.count(text) + reads.count(present):
            return reference
        return text if text in reads else present

    def _object(self, value: expressions.Value) -> str:
        return self._objects.setdefault(value, f"m{len(self._objects)}")

    def _opened(self, value: expressions.Value) -> str:
        """The variable with the members of an object, of which each row opens each once."""
        name = self._object(value)
        if self.computed(("object", value)) is None:
            source = self.value(value)
            opener = self._opener(value)
            with self.block(f"if {name} is None:"):
                self.line(f"{name} = {opener}({source})")
                self.line(f"if {name} is None: {name} = OddMembers(members_of({source}))")
            self.remember(("object", value), name)
        return name

    def _opener(self, value: expressions.Value) -> str:
        """The opener of an object that is only read: the items of a row share values, which it opens once."""
        of = value.value if isinstance(value, expressions.NotNull) else value
        return self.const(native.Opener(again=True), ("opener", of))

    def _owner(self, value: expressions.Value) -> str:
        """The object that has a property, a column of the row or a member; "" for any other value."""
        match value:
            case expressions.Member():
                return self._opened(value.of)
            case expressions.Property():
                return "p"
            case expressions.Column(name) if name != self.program.opened:
                return "row"
            case expressions.Column():
                raise NotNative
            case _:
                return ""

    def write(self, steps: Sequence[program.Step]) -> None:
        """The steps, of which those that set properties, one after the other, are one call, as are those that make
        numbers of them."""
        for method, together in groupby(steps, _one_call):
            if method:
                getattr(self, method)(tuple(together))
            else:
                super().write(tuple(together))

    def _set_properties(self, steps: Sequence[Any]) -> None:
        names = tuple((one.name, isinstance(one, program.FillProperty), getattr(one, "column", None)) for one in steps)
        values = "".join(f", {self.value(one.value)}" for one in steps if not isinstance(one, program.CopyColumn))
        call = self.const(native.Sets(names, partial(taken_names.collided, self.program.tool)))
        self.line(f"w = {call}(p, w, row{values})")

    def _convert_numbers(self, steps: Sequence[Any]) -> None:
        call = self.const(native.Numbers(tuple(step.name for step in steps), conversions.convert_number))
        self.line(f"w = {call}(p, w)")

    def step(self, step: program.Step) -> None:
        match step:
            case program.Let(name, expressions.Spread() as spread):
                self.remember(expressions.Variable(name), self._members_to_spread(spread))
                self._spreads[name] = spread
            case program.SpreadProperties(expressions.Variable(name) as variable) if name in self._spreads:
                members = self.value(variable)
                native_spread = self._native_spread(self._spreads[name])
                self.line(f"if {members}.__class__ is Members: w = {native_spread}({members}, p, w)")
                with self.block(f"elif {members} is not None:"):
                    super().step(step)
            case _:
                super().step(step)

    def _members_to_spread(self, spread: expressions.Spread) -> str:
        """The variable with the Members of an object, or with the dict of what they become."""
        source = self.value(spread.source)
        opener = self._opener(spread.source)
        name = self.local("s")
        self.line(f"{name} = {opener}({source})")
        with self.block(f"if {name} is None:"):
            self.line(f"{name} = {self.const(runtime.spreader(spread), ('spread', spread))}(opened({source}))")
        return name

    def _native_spread(self, spread: expressions.Spread) -> str:
        spreader = runtime.spreader(spread)
        texts = frozenset(spread.blank)
        blanks = native.Blanks(texts, texts, frozenset()) if texts else None
        collided = partial(taken_names.collided, self.program.tool)
        slow = partial(spread_slowly, spreader, collided)
        return self.const(native.Spread(spreader.new_name, blanks, collided, slow), ("native spread", spread))

    def _person(self, table: expressions.NamedValues, spreads: Sequence[expressions.Spread]) -> str:
        """The members of one object stay Members, unless updates are condensed, which compares them as dicts."""
        source = spreads[0].source if len(spreads) == 1 and not table else None
        column = source.value if isinstance(source, expressions.NotNull) else None
        if source is None or not isinstance(column, expressions.Column) or column.name == self.program.opened:
            return super()._person(table, spreads)
        if any(isinstance(step, program.ObservePerson) and step.unset is not None for step in self.program.steps):
            return super()._person(table, spreads)
        spread = spreads[0]
        value, members, properties = self.value(source), self._opened(column), self.local("d")
        plain = f"{members}.__class__ is Members and {value}.__class__ is not dict"
        self.line(f"{properties} = {self._native_spread(spread)}({members}) if {plain} else None")
        spreader = self.const(runtime.spreader(spread), ("spread", spread))
        self.line(f"if {properties} is None: {properties} = {spreader}(opened({value}))")
        return properties

    def text(self, value: expressions.AsText) -> str:
        owner = self._owner(value.value)
        if not owner or value.value in self.numbers:
            return super().text(value)
        name = self.local("t")
        self.line(f"{name} = {owner}.text({value.value.name!r})")  # type: ignore[union-attr]
        return name

    def not_null(self, value: expressions.NotNull) -> str:
        source = value.value
        if (
            not isinstance(source, expressions.Property | expressions.Column | expressions.Member)
            or source in self.numbers
            or self.computed(source)
        ):
            return super().not_null(value)
        owner, name = self._owner(source), self.local()
        self.line(f"{name} = {owner}.given({source.name!r})")
        return name

    def read_property(self, value: expressions.Property) -> str:
        return self._read(value)

    def read_column(self, value: expressions.Column) -> str:
        return self._read(value)

    def member(self, value: expressions.Member) -> str:
        return self._read(value)

    def _read(self, value: expressions.Property | expressions.Column | expressions.Member) -> str:
        owner, name = self._owner(value), self.local()
        method = "number" if value in self.numbers else "get"
        self.line(f"{name} = {owner}.{method}({value.name!r})")
        return name

    def write_text(self, name: str, source: str, number: str) -> None:
        if not number:
            super().write_text(name, source, number)
            return
        self.line(f"if {source}.__class__ is int: {number} = {source}; {name} = str({source})")
        with self.block("else:"):
            super().write_text(name, source, number)

    def leave_out_blanks(self, step: program.LeaveOutBlanks) -> None:
        json, cells, names = frozenset(step.json), frozenset(step.cells), frozenset(step.names)
        self.line(f"{self.const(native.Blanks(json, cells, names, self.program.opened))}(row)")
        if self._opens:
            self.line(f"{self.const(native.Blanks(json, cells, names))}(p)")

    def keep_properties(self, names: tuple[str, ...]) -> None:
        with self.block("for k in p.keys():"):
            self.line(f"if k not in {self.const(frozenset(names))}: del p[k]")

    def rename_properties(self, step: program.RenameProperties) -> None:
        blanks = {name: frozenset(texts) for name, texts in step.blanks}
        self.line(f"w = {self._renames((*step.rare, *step.common), blanks, step.loaders)}(p, w)")

    def _renames(
        self, changes: tuple[program.RenameProperty, ...], blanks: dict[str, frozenset[str]], loaders: bool = False
    ) -> str:
        """The name of the `native.Renames` that applies all changes in one call, in the order that a dict would."""
        if len(changes) > MOST_RENAMES:
            raise NotNative
        table = tuple((change.old, change.new, change.read or change.first) for change in changes)
        leaves = is_loader_column if loaders else None
        return self.const(
            native.Renames(table, self.renamed, frozenset(blanks), _blanks_of(self.renamed, blanks), leaves)
        )

    def override_properties(self, step: program.OverrideProperties) -> None:
        sets, fills = self._sets(step), self._pairs(step.fill)
        changes = dict.fromkeys(step.drop) | {old: new for old, new in step.rename if old not in step.drop}
        renames = self._renames(tuple(program.RenameProperty(old, new, first=True) for old, new in changes.items()), {})
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
        leaves = is_loader_column if step.loaders else None
        call = f"{self.const(native.Columns(frozenset(step.named), step.prefix, leaves))}(row, p)"
        self.line(f"if taken := {call}: w = keep_taken({step.prefix!r}, taken, p, w)")
