"""Which values are missing whenever one reference of the row is: most alternatives of a mapping are absent in most
rows, and what is made of them is skipped by one test."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.mapper.program import expressions
from pipeline.mapper.program.expressions import Condition, Value
from pipeline.mapper.program.functions import FUNCTIONS
from pipeline.mapper.program.operations import Program

REFERENCES = (expressions.Property, expressions.Column, expressions.Member, expressions.Variable)


class Absence:
    """Finds the references of one program's values."""

    def __init__(self, program: Program) -> None:
        self._tables = program.tables
        self._found: dict[int, tuple[Value, Value | None]] = {}

    def reference_of(self, value: Value) -> Value | None:
        """The one reference from which a value is made, if the value is missing without it and computing it then does
        nothing else; else None. Constants beside the reference do not count."""
        # By identity, because a value's hash walks the whole tree; the entry keeps the value, and so its id, alive.
        known = self._found.get(id(value))
        if known is None:
            known = self._found[id(value)] = value, self._reference_of(value)
        return known[1]

    def _reference_of(self, value: Value) -> Value | None:
        match value:
            case expressions.Property() | expressions.Column() | expressions.Member() | expressions.Variable():
                return value
            case expressions.AsText(inner) | expressions.NotNull(inner) | expressions.Convert(inner):
                return self.reference_of(inner)
            case expressions.Hash(text):
                return self.reference_of(text)
            case expressions.Lookup(text, table, any_case, otherwise):
                blank = any_case and "" in self._tables[table]
                return None if blank else self._only((text, otherwise))
            case expressions.Template(parts):
                return self._only(part for part in parts if not isinstance(part, str))
            case expressions.Join(values) | expressions.First(values):
                return self._only(values)
            case expressions.Choose(when, then, otherwise):
                return self._only((*_values(when), then, otherwise))
            case expressions.Apply(function, arguments):
                needed = arguments[: FUNCTIONS[function].needs]
                fixed = expressions.Constant | expressions.Json | expressions.Missing
                if all(isinstance(argument, fixed) for argument in needed):
                    return None
                return self._only(argument for argument in arguments if not isinstance(argument, fixed))
            case _:
                return None

    def _only(self, values: Iterator[Value] | tuple[Value, ...]) -> Value | None:
        """The reference that all of these are made of; those that are always missing do not count."""
        found: Value | None = None
        for value in values:
            if isinstance(value, expressions.Missing):
                continue
            reference = self.reference_of(value)
            if reference is None or (found is not None and reference != found):
                return None
            found = reference
        return found


def _values(condition: Condition) -> Iterator[Value]:
    """The values in a condition."""
    match condition:
        case expressions.All(conditions) | expressions.Any_(conditions):
            for one in conditions:
                yield from _values(one)
        case expressions.Not(inner):
            yield from _values(inner)
        case expressions.Same(values):
            yield from values
        case _:
            yield condition.value
