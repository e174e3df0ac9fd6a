"""Writes the Python source of a program's values and conditions.

The source is straight-line: a row costs only what its own mapping needs. `row` is the record, `p` the properties, `w`
the warnings. Rows and the objects in them are one of the `row_kinds`, which read a member as a string or a number in
one call; nothing is removed while it is read. A value that was computed on every path to this point is not computed
again (`computed`); if a row lacks a reference, everything made from it is skipped (`absence`). Nothing in a mapping
file becomes code: it enters as a named constant (`const`) or by `repr`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from pipeline.mapper.codegen import conversions, runtime
from pipeline.mapper.codegen.absence import REFERENCES, Absence
from pipeline.mapper.codegen.row_kinds import PythonRows
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.builder import HASH_KEY
from pipeline.mapper.program.expressions import Condition, Value
from pipeline.mapper.program.functions import FUNCTIONS
from pipeline.mapper.program.operations import Program


class Emitter:
    """The source under construction: lines, named constants, and the values computed at this point."""

    tested: tuple[type, ...] = REFERENCES
    """The kinds of references whose absence one test shows."""

    def __init__(self, source: Program) -> None:
        self.program = source
        self.lines: list[str] = []
        self.depth = 1
        self.constants: dict[str, Any] = {}
        self.makers: dict[str, Callable[[PythonRows], Any]] = {}
        """What makes each constant that depends on the kind of row."""
        self.for_members = True
        """Whether the source can run over Members."""
        self._objects: dict[object, str] = {}
        """The variable of each object whose members are read, None until it is opened."""
        self.numbers = _numbers(source)
        """Values that are read both as text and as a number: the text is derived from the number."""
        self.reference_of = Absence(source).reference_of
        self._present: list[Value] = []  # references that are not missing at this point
        self._scopes: list[dict[object, str]] = [{}]
        self._names: dict[object, str] = {}
        self._count = 0

    # --- text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented block; values computed inside it are not reused after it."""
        self.line(head)
        self.depth += 1
        self._scopes.append({})
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._scopes.pop()
        self.depth -= 1

    @contextmanager
    def when(self, condition: Condition | None) -> Iterator[None]:
        """A block for rows for which a condition is true; no block without a condition."""
        if condition is None:
            yield
            return
        with self.block(f"if {self.test(condition)}:"):
            yield

    def local(self, hint: str = "v") -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def const(self, value: Any, key: object = None) -> str:
        """The name of a constant; with a `key`, of the constant that had this key first."""
        key = ("id", id(value)) if key is None else key
        if key not in self._names:
            self._names[key] = f"_c{len(self.constants)}"
            self.constants[self._names[key]] = value
        return self._names[key]

    def made(self, key: object, make: Callable[[PythonRows], Any]) -> str:
        """The name of a constant that depends on the kind of row."""
        if key not in self._names:
            self._names[key] = f"_r{len(self.makers)}"
            self.makers[self._names[key]] = make
        return self._names[key]

    def keyed_hash(self, purpose: str) -> str:
        """The name of the function that hashes under a purpose."""
        return self.const(runtime.keyed_hash(os.environ[HASH_KEY], purpose), ("hash", purpose))

    # --- values computed before

    def computed(self, key: object) -> str | None:
        """The variable of a value that was computed on every path to this point, else None."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def remember(self, key: object, name: str) -> str:
        self._scopes[-1][key] = name
        return name

    # --- values

    def value(self, value: Value) -> str:
        """Write what computes a value; returns its expression, which is None if the value is missing."""
        name = self.computed(value)
        if name is None:
            reference = self.reference_of(value)
            if (
                reference is not None
                and isinstance(reference, self.tested)
                and reference not in self._present
                and not _is_simple(value)
            ):
                return self._unless_absent(value, reference)
            name = getattr(self, f"write_{expressions.name_of(value)}")(value)
            if expressions.is_reusable(value):
                self.remember(value, name)
        return name

    def _unless_absent(self, value: Value, reference: Value) -> str:
        """Write a value that is missing if a reference is, and whatever else computing it shows about the reference."""
        read = self.value(self.presence_of(reference, value))
        self.line("")
        test = len(self.lines) - 1
        with self.block("else:"):
            self._present.append(reference)
            name = self.value(value)
            self._present.pop()
            computed = self._scopes[-1].copy()
        found: dict[object, str] = {
            key: local for key, local in computed.items() if self.reference_of(_value_of(key)) == reference
        }
        names = " = ".join(dict.fromkeys((*found.values(), name)))
        self.lines[test] = "    " * self.depth + f"if {read} is None: {names} = None"
        for key, local in found.items():
            self.remember(key, local)
        return name

    def presence_of(self, reference: Value, value: Value) -> Value:
        """The operation that tests whether a reference is present: one that is computed anyway, if possible.

        As text, and without null, a JSON null counts as missing, so these serve only if nothing reads the null.
        """
        if reference in self.numbers or isinstance(reference, expressions.Variable):
            return reference
        reads = list(expressions.operations(value))
        text, present = expressions.AsText(reference), expressions.NotNull(reference)
        if reads.count(reference) > reads.count(text) + reads.count(present):
            return reference
        return text if text in reads else present

    def write_property(self, value: expressions.Property | expressions.Column | expressions.Member) -> str:
        owner, name = self.owner(value), self.local()
        method = "number" if value in self.numbers else "get"
        self.line(f"{name} = {owner}.{method}({value.name!r})")
        return name

    write_column = write_member = write_property

    def owner(self, value: Value) -> str:
        """The object that has a property, a column of the row or a member; "" for any other value."""
        match value:
            case expressions.Member(of):
                return self.members_of(of)
            case expressions.Property():
                return "p"
            case expressions.Column(name):
                if name == self.program.opened:
                    self.for_members = False  # it would be the properties, which change
                return "row"
            case _:
                return ""

    def members_of(self, value: Value) -> str:
        """The variable with the members of an object; a row opens each object at most once."""
        name = self._objects.setdefault(value, f"m{len(self._objects)}")
        if self.computed(("object", value)) is None:
            source = self.value(value)
            with self.block(f"if {name} is None:"):
                self.line(f"{name} = {self.opener(value)}({source})")
                self.line(f"if {name} is None: {name} = OddMembers(members_of({source}))")
            self.remember(("object", value), name)
        return name

    def opener(self, value: Value) -> str:
        of = value.value if isinstance(value, expressions.NotNull) else value
        return self.made(("opener", of), lambda kind: kind.opener())

    def write_all_properties(self, value: expressions.AllProperties) -> str:
        name = self.local()
        self.line(f"{name} = {'without_loader_columns(p.as_dict())' if value.loaders else 'p.as_dict()'}")
        return name

    def write_row_time(self, _value: expressions.RowTime) -> str:
        return "time"

    def write_missing(self, _value: expressions.Missing) -> str:
        return "None"

    def write_constant(self, value: expressions.Constant) -> str:
        return self.const(value.value, value)

    def write_json(self, value: expressions.Json) -> str:
        return self.const(msgspec.Raw(value.text.encode()), value)

    def write_not_null(self, value: expressions.NotNull) -> str:
        read = value.value
        if read not in self.numbers and not self.computed(read) and (owner := self.owner(read)):
            name = self.local()
            self.line(f"{name} = {owner}.given({read.name!r})")  # type: ignore[union-attr]
            return name
        source = self.value(value.value)
        name = self.local()
        if text := self.computed(expressions.AsText(value.value)):
            self.line(f"{name} = None if {text} is None else {source}")
        else:
            self.line(f"{name} = {source} if {source} is None or {source} != NULL else None")
        return name

    def write_as_text(self, value: expressions.AsText) -> str:
        read, name = value.value, self.local("t")
        if read in self.numbers:
            source, number = self.value(read), self.remember(("number", read), self.local("n"))  # used for the time
            self.line(f"if {source}.__class__ is int: {number} = {source}; {name} = str({source})")
            with self.block("else:"):
                self.line(f"{number} = None")
                with self.block(f"if {source}.__class__ is Raw:"):
                    self.line(f"try: {number} = decode_int({source}); {name} = str({number})")
                    self.line(f"except MsgspecError: {name} = text_of({source})")
                self.line(f"else: {name} = text_of({source})")
        elif owner := self.owner(read):
            self.line(f"{name} = {owner}.text({read.name!r})")  # type: ignore[union-attr]
        else:
            self.line(f"{name} = text_of({self.value(read)})")
        return name

    def write_first(self, value: expressions.First) -> str:
        name = self.local()
        best, *others = value.values
        self.line(f"{name} = {self.value(best)}")
        for other in others:
            if isinstance(other, expressions.Missing):
                continue
            with self.block(f"if {name} is None:"):
                self.line(f"{name} = {self.value(other)}")
        return name

    def write_choose(self, value: expressions.Choose) -> str:
        name = self.local()
        with self.block(f"if {self.test(value.when)}:"):
            self.line(f"{name} = {self.value(value.then)}")
        with self.block("else:"):
            self.line(f"{name} = {self.value(value.otherwise)}")
        return name

    def write_template(self, value: expressions.Template) -> str:
        pieces = [repr(part) if isinstance(part, str) else self.value(part) for part in value.parts]
        holes = [piece for piece, part in zip(pieces, value.parts, strict=True) if not isinstance(part, str)]
        name = self.local("t")
        whole = " and ".join(f"{hole} is not None" for hole in holes) or "True"
        self.line(f"{name} = ''.join(({''.join(f'{piece}, ' for piece in pieces)})) if {whole} else None")
        return name

    def write_join(self, value: expressions.Join) -> str:
        parts = ", ".join(map(self.value, value.values))
        name = self.local("t")
        self.line(f"{name} = {value.separator!r}.join([x for x in ({parts},) if x is not None]) or None")
        return name

    def write_lookup(self, value: expressions.Lookup) -> str:
        text = self.value(value.text)
        name = self.local("t")
        key = f"({text} or '').lower()" if value.any_case else text
        self.line(f"{name} = {self.const(self.program.tables[value.table])}.get({key})")
        if not isinstance(value.otherwise, expressions.Missing):
            with self.block(f"if {name} is None:"):
                self.line(f"{name} = {self.value(value.otherwise)}")
        return name

    def write_convert(self, value: expressions.Convert) -> str:
        source = self.value(value.value)
        name = self.local()
        self.line(f"{name} = {source}")
        with self.block(f"if {source} is not None:"):
            self.line(f"try: {name} = {self.const(conversions.CONVERT[value.type])}({source})")
            warning = "BadValue as error: w += (('bad_value', str(error)),)" if value.warn else "BadValue: pass"
            self.line(f"except {warning}")
        return name

    def write_hash(self, value: expressions.Hash) -> str:
        source = self.value(value.text)
        name = self.local("t")
        self.line(f"{name} = None if {source} is None else {self.keyed_hash(value.purpose)}({source})")
        return name

    def write_apply(self, value: expressions.Apply) -> str:
        function = FUNCTIONS[value.function]
        arguments = list(map(self.value, value.arguments))
        fixed = expressions.Constant | expressions.Json
        needed = [
            f"{argument} is None"
            for argument, one in zip(arguments[: function.needs], value.arguments, strict=False)
            if not isinstance(one, fixed)
        ]
        callee = self.const(function.call, ("function", value.function))
        call = f"{callee}({', '.join(arguments)})"
        name = self.local()
        line = f"{name} = None if {' or '.join(needed)} else {call}" if needed else f"{name} = {call}"
        self.line(f"try: {line}" if function.warns else line)
        if function.warns:
            self.line(f"except BadValue as error: {name} = None; w += (('bad_value', str(error)),)")
        return name

    def write_part(self, value: expressions.Part) -> str:
        name = self.local()
        self.line(f"{name} = {self.value(value.of)}.{value.name}")
        return name

    def write_spread(self, value: expressions.Spread) -> str:
        source, name = self.opened(value.source), self.local("s")
        spreader = self.const(runtime.spreader(value), ("spread", value))
        self.line(f"{name} = {spreader}({source}) if {source} is not None else None")
        return name

    def opened(self, value: Value) -> str:
        """The members of an object, opened once; None if it is missing. The mapper raises BadValue."""
        source = self.value(value)
        if opened := self.computed(("opened", value)):
            return opened
        name = self.local("o")
        self.line(f"{name} = opened({source})")
        return self.remember(("opened", value), name) if expressions.is_reusable(value) else name

    # --- conditions

    def test(self, condition: Condition) -> str:
        """Write what computes the values of a condition; returns the condition's expression."""
        match condition:
            case expressions.Present(value):
                return f"{self._presence(value)} is not None"
            case expressions.Not(expressions.Present(value)):
                return f"{self._presence(value)} is None"
            case expressions.OneOf(value, (text,)):
                return f"{self.value(value)} == {text!r}"
            case expressions.OneOf(value, texts):
                return f"{self.value(value)} in {self.const(frozenset(texts), ('set', texts))}"
            case expressions.StartsWith(value, text):
                return f"({self.value(value)} or '').startswith({text!r})"
            case expressions.Contains(value, text):
                return f"{text!r} in ({self.value(value)} or '')"
            case expressions.Same(values):
                return f"(None is not {' == '.join(map(self.value, values))})"
            case expressions.All(conditions):
                return "(" + " and ".join(map(self.test, conditions)) + ")"
            case expressions.Any_(conditions):
                return "(" + " or ".join(map(self.test, conditions)) + ")"
            case expressions.Not(inner):
                return f"(not {self.test(inner)})"

    def _presence(self, value: Value) -> str:
        """An expression that is None if the value is missing: its text, if that was computed already."""
        text = self.computed(expressions.AsText(value.value)) if isinstance(value, expressions.NotNull) else None
        return text or self.value(value)


def _is_simple(value: Value) -> bool:
    """Whether a value is a reference, or made from one by a single line that tests it itself."""
    return isinstance(getattr(value, "value", value), REFERENCES)


def _value_of(key: object) -> Value:
    """The value behind a key of `computed`; a constant for an opened object, whose variable is never None."""
    if isinstance(key, tuple):
        return key[1] if key[0] != "object" else expressions.Constant("")
    return key  # type: ignore[return-value]


def _numbers(source: Program) -> frozenset[Value]:
    return frozenset(
        clock.source
        for step in source.steps
        if isinstance(step, program.ReadTime)
        for clock in step.clocks
        if clock.unit not in ("iso", "format")
        and isinstance(clock.source, expressions.Property | expressions.Column | expressions.Member)
    )
