"""The functions that a program calls by name, and the decoders: each declared once, beside the verb that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline.mapper.program import operations as program
from pipeline.models import RejectReason
from pipeline.values import Record

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Function:
    """A pure function of values. `needs`: without one of so many first arguments it is not called, and its value is
    missing. `prepared`: `call` returns the function itself, when a program first needs it. `warns`: where it raises
    BadValue, its value is missing, with the warning `bad_value`; of any other function the row is rejected."""

    call: Callable[..., Any]
    needs: int = 0
    prepared: bool = False
    warns: bool = False


FUNCTIONS: dict[str, Function] = {}
"""By name: what `expressions.Apply` may call."""
DECODERS: dict[str, Callable[..., list[Record | RejectReason]]] = {}
"""By name: what `program.Decode` may call, with a row and the decoder's arguments. It may change the row."""
COLUMNS: dict[str, Callable[..., Iterable[str]]] = {}
"""By name of a decoder: the columns of which a row that it changes has at least one, by the decoder's arguments."""


def function(needs: int = 0, prepared: bool = False, warns: bool = False) -> Callable[[F], F]:
    """Declare a function of a program under its own name."""

    def declare(call: F) -> F:
        FUNCTIONS[call.__name__] = Function(call, needs, prepared, warns)
        return call

    return declare


def decode_row(decode: program.Decode, row: Record) -> list[Record | RejectReason]:
    """The plain rows of a row, which may be changed, and a reject for each item that is none. Raises BadValue."""
    return DECODERS[decode.decoder](row, *decode.arguments)


def decoding(call: F) -> F:
    """Declare the function of a decoder under its own name."""
    DECODERS[call.__name__] = call
    return call


def only_with(columns: Callable[..., Iterable[str]]) -> Callable[[F], F]:
    """Declare that a decoder returns every row without these columns, which depend on its arguments, as it is."""

    def declare(call: F) -> F:
        COLUMNS[call.__name__] = columns
        return call

    return declare


def decoded_columns(decode: program.Decode | None) -> frozenset[str] | None:
    """The columns without which a row is plain, whatever else it has; None where any row may have to be decoded."""
    if decode is None:
        return frozenset()
    columns = COLUMNS.get(decode.decoder)
    return None if columns is None else frozenset(columns(*decode.arguments))
