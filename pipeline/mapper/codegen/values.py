"""Writes the Python source of a program's values and conditions, for rows that are dicts.

The source is straight-line: a row costs only what its own mapping needs. `row` is the record, `p` the properties, `w`
the warnings. A value that was computed on every path to this point is not computed again (`computed`); what is made of
one reference is skipped where a row does not have it (`absence`). No text of a mapping file becomes code: it enters as
a named constant (`const`) or by `repr`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from pipeline.mapper.codegen import conversions, runtime
from pipeline.mapper.codegen.absence import REFERENCES, Absence
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.builder import HASH_KEY
from pipeline.mapper.program.expressions import Condition, Value
from pipeline.mapper.program.functions import FUNCTIONS
from pipeline.mapper.program.operations import Program


class Emitter:
    """The source under construction: lines, named constants, and the values computed at this point."""

    copied = "dict(p)"
    """A copy of the properties, as a dict."""
    decodes_numbers = False
    """Whether reading one of `numbers` returns an int where it is one."""
    tested: tuple[type, ...] = REFERENCES
    """The kinds of references of which one test shows that they are absent."""

    def __init__(self, source: Program) -> None:
        self.program = source
        self.lines: list[str] = []
        self.depth = 1
        self.constants: dict[str, Any] = {}
        self.taken = _taken(source)  # properties that every row loses: reading them removes them
        self.numbers = _numbers(source)
        """Values that are read as a text and as a number: the text is derived from the number."""
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

    @property
    def at_top(self) -> bool:
        """Whether the next line runs for every row that was not ended before."""
        return len(self._scopes) == 1

    def local(self, hint: str = "v") -> str:
        """A fresh name."""
        self._count += 1
        return f"{hint}{self._count}"

    def const(self, value: Any, key: object = None) -> str:
        """The name of a constant; with a `key`, of the constant that had this key first."""
        key = ("id", id(value)) if key is None else key
        if key not in self._names:
            self._names[key] = f"_c{len(self.constants)}"
            self.constants[self._names[key]] = value
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
        """Write what computes a value; returns its expression, which is None where the value is missing."""
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
            name = getattr(self, _WRITERS[type(value)])(value)
            if expressions.is_reusable(value):
                self.remember(value, name)
        return name

    def _unless_absent(self, value: Value, reference: Value) -> str:
        """Write a value that is missing where a reference is, and what else that finds out about the reference."""
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

    def presence_of(self, reference: Value, _value: Value) -> Value:  # what is missing where a reference is
        return reference

    def read_property(self, value: expressions.Property) -> str:
        name = self.local()
        if self.at_top and value.name in self.taken:
            self.line(f"{name} = pop({value.name!r}, None)")
        else:
            self.line(f"{name} = get({value.name!r})")
        return name

    def read_column(self, value: expressions.Column) -> str:
        name = self.local()
        self.line(f"{name} = row.pop({value.name!r}, None)" if self.at_top else f"{name} = row.get({value.name!r})")
        return name

    def member(self, value: expressions.Member) -> str:
        outer = self.value(value.of)
        members = self.computed(("members", value.of))
        if members is None:
            members = self.remember(("members", value.of), self.local("o"))
            self.line(f"{members} = {outer} if {outer}.__class__ is dict else members_of({outer})")
        name = self.local()
        self.line(f"{name} = {members}.get({value.name!r})")
        return name

    def all_properties(self, value: expressions.AllProperties) -> str:
        name = self.local()
        self.line(f"{name} = {f'without_loader_columns({self.copied})' if value.loaders else self.copied}")
        return name

    def row_time(self, _value: expressions.RowTime) -> str:
        return "time"

    def missing(self, _value: expressions.Missing) -> str:
        return "None"

    def constant(self, value: expressions.Constant) -> str:
        return self.const(value.value, value)

    def fixed_json(self, value: expressions.Json) -> str:
        return self.const(msgspec.Raw(value.text.encode()), value)

    def not_null(self, value: expressions.NotNull) -> str:
        source = self.value(value.value)
        name = self.local()
        if text := self.computed(expressions.AsText(value.value)):
            self.line(f"{name} = None if {text} is None else {source}")
        else:
            self.line(f"{name} = {source} if {source} is None or {source} != NULL else None")
        return name

    def text(self, value: expressions.AsText) -> str:
        source = self.value(value.value)
        name, number = self.local("t"), ""
        if value.value in self.numbers:
            number = self.remember(("number", value.value), self.local("n"))  # used again for the time
            self.line(f"{number} = None")
        self.write_text(name, source, number)
        return name

    def write_text(self, name: str, source: str, number: str) -> None:
        """Set `name` to the text of a value, and `number`, unless that is "", to the whole number it is."""
        test = "if"
        if source not in map(self.computed, self._present):
            self.line(f"if {source} is None: {name} = None")
            test = "elif"
        with self.block(f"{test} {source}.__class__ is Raw:"):
            if number:
                self.line(f"try: {number} = decode_int({source}); {name} = str({number})")
            else:
                self.line(f"try: {name} = decode_text({source})")
            self.line(f"except MsgspecError: {name} = text_of({source})")
        self.line(f"elif {source}.__class__ is str: {name} = {source}")
        self.line(f"else: {name} = text_of({source})")

    def first(self, value: expressions.First) -> str:
        name = self.local()
        best, *others = value.values
        self.line(f"{name} = {self.value(best)}")
        for other in others:
            if isinstance(other, expressions.Missing):
                continue
            with self.block(f"if {name} is None:"):
                self.line(f"{name} = {self.value(other)}")
        return name

    def choose(self, value: expressions.Choose) -> str:
        name = self.local()
        with self.block(f"if {self.test(value.when)}:"):
            self.line(f"{name} = {self.value(value.then)}")
        with self.block("else:"):
            self.line(f"{name} = {self.value(value.otherwise)}")
        return name

    def template(self, value: expressions.Template) -> str:
        pieces = [repr(part) if isinstance(part, str) else self.value(part) for part in value.parts]
        holes = [piece for piece, part in zip(pieces, value.parts, strict=True) if not isinstance(part, str)]
        name = self.local("t")
        whole = " and ".join(f"{hole} is not None" for hole in holes) or "True"
        self.line(f"{name} = ''.join(({''.join(f'{piece}, ' for piece in pieces)})) if {whole} else None")
        return name

    def join(self, value: expressions.Join) -> str:
        parts = ", ".join(map(self.value, value.values))
        name = self.local("t")
        self.line(f"{name} = {value.separator!r}.join([x for x in ({parts},) if x is not None]) or None")
        return name

    def lookup(self, value: expressions.Lookup) -> str:
        text = self.value(value.text)
        name = self.local("t")
        key = f"({text} or '').lower()" if value.any_case else text
        self.line(f"{name} = {self.const(self.program.tables[value.table])}.get({key})")
        if not isinstance(value.otherwise, expressions.Missing):
            with self.block(f"if {name} is None:"):
                self.line(f"{name} = {self.value(value.otherwise)}")
        return name

    def convert(self, value: expressions.Convert) -> str:
        source = self.value(value.value)
        name = self.local()
        self.line(f"{name} = {source}")
        with self.block(f"if {source} is not None:"):
            self.line(f"try: {name} = {self.const(conversions.CONVERT[value.type])}({source})")
            warning = "BadValue as error: w += (('bad_value', str(error)),)" if value.warn else "BadValue: pass"
            self.line(f"except {warning}")
        return name

    def hashed(self, value: expressions.Hash) -> str:
        source = self.value(value.text)
        name = self.local("t")
        self.line(f"{name} = None if {source} is None else {self.keyed_hash(value.purpose)}({source})")
        return name

    def apply(self, value: expressions.Apply) -> str:
        function = FUNCTIONS[value.function]
        arguments = list(map(self.value, value.arguments))
        fixed = expressions.Constant | expressions.Json
        needed = [
            f"{argument} is None"
            for argument, one in zip(arguments[: function.needs], value.arguments, strict=False)
            if not isinstance(one, fixed)
        ]
        callee = self.const(function.call() if function.prepared else function.call, ("function", value.function))
        call = f"{callee}({', '.join(arguments)})"
        name = self.local()
        line = f"{name} = None if {' or '.join(needed)} else {call}" if needed else f"{name} = {call}"
        self.line(f"try: {line}" if function.warns else line)
        if function.warns:
            self.line(f"except BadValue as error: {name} = None; w += (('bad_value', str(error)),)")
        return name

    def part(self, value: expressions.Part) -> str:
        name = self.local()
        self.line(f"{name} = {self.value(value.of)}.{value.name}")
        return name

    def refuse(self, value: expressions.Refuse) -> str:
        self.line(f"raise BadValue(sentence({value.sentence!r}, {self.value(value.shown)}))")
        return "None"

    def spread(self, value: expressions.Spread) -> str:
        source, name = self.opened(value.source), self.local("s")
        spreader = self.const(runtime.spreader(value), ("spread", value))
        self.line(f"{name} = {spreader}({source}) if {source} is not None else None")
        return name

    def opened(self, value: Value) -> str:
        """The members of an object, opened once; None where it is missing. The mapper raises BadValue."""
        source = self.value(value)
        if opened := self.computed(("opened", value)):
            return opened
        members = self.computed(("members", value.value)) if isinstance(value, expressions.NotNull) else None
        name = self.local("o")
        self.line(f"{name} = {members} or opened({source})" if members else f"{name} = opened({source})")
        return self.remember(("opened", value), name) if expressions.is_reusable(value) else name

    # --- conditions

    def test(self, condition: Condition) -> str:
        """Write what computes the values of a condition; returns the expression of the condition."""
        match condition:
            case expressions.Present(value):
                return f"{self._presence(value)} is not None"
            case expressions.Not(expressions.Present(value)):
                return f"{self._presence(value)} is None"
            case expressions.Equals(value, text):
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
        """An expression that is None when the value is missing: its text, where that was computed already."""
        text = self.computed(expressions.AsText(value.value)) if isinstance(value, expressions.NotNull) else None
        return text or self.value(value)


_WRITERS: dict[type, str] = {
    expressions.Property: "read_property",
    expressions.Column: "read_column",
    expressions.Member: "member",
    expressions.AllProperties: "all_properties",
    expressions.RowTime: "row_time",
    expressions.Constant: "constant",
    expressions.Json: "fixed_json",
    expressions.Missing: "missing",
    expressions.AsText: "text",
    expressions.NotNull: "not_null",
    expressions.First: "first",
    expressions.Choose: "choose",
    expressions.Template: "template",
    expressions.Join: "join",
    expressions.Lookup: "lookup",
    expressions.Convert: "convert",
    expressions.Hash: "hashed",
    expressions.Apply: "apply",
    expressions.Part: "part",
    expressions.Refuse: "refuse",
    expressions.Spread: "spread",
}
"""The method that writes each kind of value."""


def _is_simple(value: Value) -> bool:
    """Whether a value is a reference, or made of it by one line, which tests it itself."""
    return isinstance(getattr(value, "value", value), REFERENCES)


def _value_of(key: object) -> Value:
    """The value that something computed is, or that it was made of; for what is never missing, a value that is not."""
    if isinstance(key, tuple):
        return key[1] if key[0] != "members" else expressions.Constant("")
    return key  # type: ignore[return-value]


def _taken(source: Program) -> frozenset[str]:
    for step in source.steps:
        if isinstance(step, program.RenameProperties):
            return frozenset(rename.old for rename in step.common if rename.read)
    return frozenset()


def _numbers(source: Program) -> frozenset[Value]:
    return frozenset(
        clock.source
        for step in source.steps
        if isinstance(step, program.ReadTime)
        for clock in step.clocks
        if clock.unit not in ("iso", "format")
        and isinstance(clock.source, expressions.Property | expressions.Column | expressions.Member)
    )
