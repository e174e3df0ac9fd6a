"""The functions that a program calls by name, and the decoders: each is declared once, next to the verb that needs
it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from pipeline.mapper.language.kinds import YES, Call, Field, ListOf, decoder, value
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.expressions import Apply, Constant, Value
from pipeline.models import Layout, RejectReason, Skip
from pipeline.values import Record

F = TypeVar("F", bound=Callable[..., Any])


class Function(msgspec.Struct, frozen=True):
    """A pure function of values. `needs`: if one of this many first arguments is missing, it is not called, and its
    value is missing. `warns`: if it raises BadValue, its value is missing, with the warning `bad_value`; with any other
    function the row is rejected."""

    call: Callable[..., Any]
    needs: int = 0
    warns: bool = False


FUNCTIONS: dict[str, Function] = {}
"""By name: the functions that `expressions.Apply` may call."""
MOST_OBJECTS = 16
"""The limit of `native.Cells`."""
DECODERS: dict[str, Callable[..., list[Record | RejectReason | Skip]]] = {}
"""By name: the decoders that `program.Decode` may call, with a row and the arguments. They may change the row."""
LAYOUTS: dict[str, Callable[..., Layout | None]] = {}
"""By a decoder's name: the layout that it gives every row of a table, from the table's columns and its arguments."""


def function(needs: int = 0, warns: bool = False) -> Callable[[F], F]:
    def declare(call: F) -> F:
        FUNCTIONS[call.__name__] = Function(call, needs, warns)
        return call

    return declare


def computed(
    name: str, help: str, read: str, *, needs: int = 1, warns: bool = False, **arguments: Field
) -> Callable[[F], F]:
    """Declare a verb for a value, and the function that makes the value from the verb's arguments, in their order: a
    word or its default, and values as `read` says, as strings (`text`) or as they are (`present`). Each value of a list
    is an argument."""

    def declare(call: F) -> F:
        def build(builder: Any, given: Call) -> Value:
            operands: list[Value] = []
            for argument, field in arguments.items():
                one = given.arguments.get(argument, field.default)
                for each in one if isinstance(field.kind, ListOf) else (one,):
                    operands.append(getattr(builder, read)(each) if isinstance(each, Call) else Constant(each))
            return Apply(call.__name__, tuple(operands))

        value(name, help, **arguments)(build)
        return function(needs, warns)(call)

    return declare


def decode_row(decode: program.Decode, row: Record) -> list[Record | RejectReason | Skip]:
    """The plain rows made from a row, which may be changed, a reject for each bad item, and a skip for each that is
    left out. Raises BadValue."""
    return DECODERS[decode.decoder](row, *decode.arguments)


def decoding(call: F) -> F:
    DECODERS[call.__name__] = call
    return call


def decodes(name: str, help: str, **arguments: Field) -> Callable[[F], F]:
    """Declare a verb for a decoder on the decoder itself, which gets a row and the verb's arguments in their order, or
    their defaults; an argument that can only be `yes` is left out."""

    def declare(call: F) -> F:
        given = {argument: field for argument, field in arguments.items() if field.kind != YES}

        def build(_builder: Any, verb: Call) -> program.Decode:
            values = (verb.arguments.get(argument, field.default) for argument, field in given.items())
            arguments = tuple(tuple(one.items()) if isinstance(one, Mapping) else one for one in values)
            return program.Decode(call.__name__, arguments)

        decoder(name, help, **arguments)(build)
        return decoding(call)

    return declare


def of_table(layout: Callable[..., Layout | None]) -> Callable[[F], F]:
    """Declare what a decoder makes of a table's rows, given its columns, whichever cells are blank: a layout, without
    places if it returns the rows unchanged, or None if each row has to be decoded by itself."""

    def declare(call: F) -> F:
        LAYOUTS[call.__name__] = layout
        return call

    return declare


def only_with(named: Callable[..., Iterable[str]]) -> Callable[[F], F]:
    """Declare that a decoder returns every row without these columns unchanged; they depend on its arguments."""
    return of_table(lambda columns, *words: Layout() if set(columns).isdisjoint(named(*words)) else None)


@lru_cache(64)
def layout_of(decode: program.Decode, columns: tuple[str, ...]) -> Layout | None:
    """What a decoder makes of the rows of a table; None if each row has to be decoded by itself."""
    layout = LAYOUTS[decode.decoder](columns, *decode.arguments)
    return None if layout is None or len(layout.objects) > MOST_OBJECTS else layout
