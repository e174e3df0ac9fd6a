"""The functions that a program calls by name, and the decoders: each declared once, beside the verb that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from pipeline.mapper.program import operations as program
from pipeline.models import Layout, RejectReason
from pipeline.values import Record

F = TypeVar("F", bound=Callable[..., Any])


class Function(msgspec.Struct, frozen=True):
    """A pure function of values. `needs`: without one of so many first arguments it is not called, and its value is
    missing. `warns`: where it raises BadValue, its value is missing, with the warning `bad_value`; of any other
    function the row is rejected."""

    call: Callable[..., Any]
    needs: int = 0
    warns: bool = False


FUNCTIONS: dict[str, Function] = {}
"""By name: what `expressions.Apply` may call."""
MOST_OBJECTS = 16
"""The limit of `native.Cells`."""
DECODERS: dict[str, Callable[..., list[Record | RejectReason]]] = {}
"""By name: what `program.Decode` may call, with a row and the decoder's arguments. It may change the row."""
LAYOUTS: dict[str, Callable[..., Layout | None]] = {}
"""By name of a decoder: what it makes of every row of a table, by the table's columns and the decoder's arguments."""


def function(needs: int = 0, warns: bool = False) -> Callable[[F], F]:
    def declare(call: F) -> F:
        FUNCTIONS[call.__name__] = Function(call, needs, warns)
        return call

    return declare


def decode_row(decode: program.Decode, row: Record) -> list[Record | RejectReason]:
    """The plain rows of a row, which may be changed, and a reject for each item that is none. Raises BadValue."""
    return DECODERS[decode.decoder](row, *decode.arguments)


def decoding(call: F) -> F:
    DECODERS[call.__name__] = call
    return call


def of_table(layout: Callable[..., Layout | None]) -> Callable[[F], F]:
    """Declare what a decoder makes of the rows of a table with some columns, whichever of its cells are blank: a layout
    without places for rows that it returns as they are, None where each row has to be decoded by itself."""

    def declare(call: F) -> F:
        LAYOUTS[call.__name__] = layout
        return call

    return declare


def only_with(named: Callable[..., Iterable[str]]) -> Callable[[F], F]:
    """Declare that a decoder returns every row without these columns, which depend on its arguments, as it is."""
    return of_table(lambda columns, *words: Layout() if set(columns).isdisjoint(named(*words)) else None)


@lru_cache(64)
def layout_of(decode: program.Decode, columns: tuple[str, ...]) -> Layout | None:
    """What a decoder makes of the rows of a table; None where each row has to be decoded by itself."""
    layout = LAYOUTS[decode.decoder](columns, *decode.arguments)
    return None if layout is None or len(layout.objects) > MOST_OBJECTS else layout
