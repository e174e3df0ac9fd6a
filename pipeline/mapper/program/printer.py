"""Prints a program for people: one line per step, indented if that would be long.

`[name]` is a property, `/name` a column of the row, `of/name` a member of an object; everything else has the name of
its operation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.operations import Program

LONGEST_LINE = 110


def printed(found: Program) -> str:
    """The whole program, with its tables; the same for the same mapping and settings."""
    lines = [f"program {found.tool}"]
    if found.decode is not None:
        arguments = ", ".join(json.dumps(one) for one in found.decode.arguments)
        lines.append(f"decode rows by {found.decode.decoder}({arguments})")
    for step in found.steps:
        lines += _lines(step, "")
    for name, table in sorted(found.tables.items()):
        lines.append(f"table {_quoted(name)}")
        lines += (f"  {_quoted(old)} -> {_quoted(new)}" for old, new in table.items())
    return "\n".join(lines) + "\n"


def _lines(operation: Any, indent: str) -> Iterator[str]:
    if isinstance(operation, program.ByRule):
        for rule in operation.rules:
            yield f"{indent}rule {rule.rule}"
            for step in rule.steps:
                yield from _lines(step, indent + "  ")
        return
    if isinstance(operation, program.Let):
        yield f"{indent}let {operation.name} = {spelt(operation.value)}"
        return
    parts = [(name, getattr(operation, name)) for name in operation.__struct_fields__]
    line = " ".join(
        [
            expressions.name_of(operation),
            *(f"{name}={spelt(value)}" for name, value in parts if not _is_left_out(value)),
        ]
    )
    if len(indent + line) <= LONGEST_LINE:
        yield indent + line
        return
    yield indent + expressions.name_of(operation)
    for name, value in parts:
        if isinstance(value, tuple) and value:
            yield f"{indent}  {name}"
            yield from (f"{indent}    {spelt(one)}" for one in value)
        elif not _is_left_out(value):
            yield f"{indent}  {name}={spelt(value)}"


def _is_left_out(value: Any) -> bool:
    return value is None or value is False or value in ("", ())


def spelt(value: Any) -> str:
    """A value or a condition in one line."""
    match value:
        case str():
            return _quoted(value)
        case expressions.Property(name):
            return f"[{name}]"
        case expressions.Column(name):
            return f"/{name}"
        case expressions.Member(of, name):
            return f"{spelt(of)}/{name}"
        case expressions.Variable(name):
            return name
        case expressions.Constant(fixed):
            return spelt(fixed)
        case expressions.AsText(inner):
            return f"text({spelt(inner)})"
        case expressions.Missing():
            return "missing"
        case expressions.Present(expressions.NotNull(inner)):
            return f"present({spelt(inner)})"
        case expressions.Apply(function, arguments):
            return f"{function}({', '.join(map(spelt, arguments))})"
        case program.RenameProperty(old, new):
            return f"{_quoted(old)} -> {_quoted(new) if new is not None else 'nothing'}"
        case program.EventCase(event, _, _, skip, warning) if skip:
            return f"{_quoted(event)} -> skip {_quoted(skip)}{' with a warning' if warning else ''}"
        case program.EventCase(event, rename, rule):
            return f"{_quoted(event)} -> {_quoted(rename)} rule {rule}"
        case (str(name), inner) if not isinstance(inner, str):
            return f"{_quoted(name)} = {spelt(inner)}"
        case (str(old), str(new)):
            return f"({_quoted(old)}, {_quoted(new)})"
        case tuple():
            return f"({', '.join(map(spelt, value))})"
        case bool() | int() | None:
            return json.dumps(value)
        case _:
            return f"{expressions.name_of(value)}({', '.join(_arguments(value))})"


def _arguments(operation: Any) -> Iterator[str]:
    parts = [(name, getattr(operation, name)) for name in operation.__struct_fields__]
    if len(parts) > 2:
        yield from (f"{name}={spelt(value)}" for name, value in parts if not _is_left_out(value))
    elif len(parts) == 1 and isinstance(parts[0][1], tuple):
        yield from map(spelt, parts[0][1])
    else:
        yield from (spelt(value) for _, value in parts)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
