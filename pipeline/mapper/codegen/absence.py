"""Which values are missing whenever one reference of the row is. Most alternatives of a mapping are absent in most
rows, so one test skips everything that is made from them."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.mapper.program import expressions
from pipeline.mapper.program.expressions import Operation, Value, children
from pipeline.mapper.program.functions import FUNCTIONS
from pipeline.mapper.program.operations import Program

REFERENCES = (expressions.Property, expressions.Column, expressions.Member, expressions.Variable)


class Absence:
    def __init__(self, program: Program) -> None:
        self._tables = program.tables
        self._found: dict[int, tuple[Operation, Value | None]] = {}

    def reference_of(self, value: Operation) -> Value | None:
        """The only reference from which a value is made, if the value is missing without it and computing it then does
        nothing else; otherwise None. Constants next to the reference do not count."""
        # By identity, because a value's hash walks the whole tree; the entry keeps the value, and so its id, alive.
        known = self._found.get(id(value))
        if known is None:
            known = self._found[id(value)] = value, self._reference_of(value)
        return known[1]

    def _reference_of(self, value: Operation) -> Value | None:
        match value:
            case expressions.Property() | expressions.Column() | expressions.Member() | expressions.Variable():
                return value
            case _ if isinstance(value, _OTHERS):
                return None
            case expressions.Lookup(any_case=True, table=table) if "" in self._tables[table]:
                return None
            case expressions.Apply(function, arguments):
                if all(isinstance(argument, _FIXED) for argument in arguments[: FUNCTIONS[function].needs]):
                    return None
                return self._only(argument for argument in arguments if not isinstance(argument, _FIXED))
            case _:
                return self._only(children(value))

    def _only(self, values: Iterable[Operation]) -> Value | None:
        """The reference from which all of these are made; values that are always missing do not count."""
        found: Value | None = None
        for value in values:
            if isinstance(value, expressions.Missing):
                continue
            reference = self.reference_of(value)
            if reference is None or (found is not None and reference != found):
                return None
            found = reference
        return found


_FIXED = (expressions.Constant, expressions.Json, expressions.Missing)
_OTHERS = (*_FIXED, expressions.AllProperties, expressions.RowTime, expressions.Part, expressions.Spread)
"""Values that do not depend on references, or not only on their presence."""
