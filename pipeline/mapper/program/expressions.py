"""Values and conditions: the trees inside the steps of a program. Every value reads the row as it came."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec


class Operation(msgspec.Struct, frozen=True):
    """One operation of a program. (Dataclasses would add some tenths of a second to every start.)"""


# --- values: what a row has, or what is made of it ----------------------------------------------------------


class Property(Operation, frozen=True):
    """A property by its name, including JSON null; missing if the row has none."""

    name: str


class Column(Operation, frozen=True):
    """A column of the row that is not a property, including JSON null."""

    name: str


class Member(Operation, frozen=True):
    """A member of an object inside the row, including JSON null; missing if `of` is not an object."""

    of: Value
    name: str


class AllProperties(Operation, frozen=True):
    """The properties of the row as one object; with `loaders`, without a loader's columns."""

    loaders: bool = False


class RowTime(Operation, frozen=True):
    """The time of the row in microseconds since 1970, once `ReadTime` has set it."""


class Variable(Operation, frozen=True):
    """The value of an earlier `Let`."""

    name: str


class Constant(Operation, frozen=True):
    """A fixed text, or a fixed argument of a function."""

    value: str | int


class Json(Operation, frozen=True):
    """A fixed JSON value, as its text."""

    text: str


class Missing(Operation, frozen=True):
    """Nothing."""


class AsText(Operation, frozen=True):
    """A value as text: the digits of a number, `true`, the JSON of an object; missing for JSON null.

    Text that is not Unicode rejects the row (`bad_value`).
    """

    value: Value


class NotNull(Operation, frozen=True):
    """A value, but missing if it is JSON null."""

    value: Value


class First(Operation, frozen=True):
    """The first of these that is not missing; those after it are not evaluated."""

    values: tuple[Value, ...]


class Choose(Operation, frozen=True):
    """One value or another; the other one is not evaluated."""

    when: Condition
    then: Value
    otherwise: Value


class Template(Operation, frozen=True):
    """Strings joined one after the other; missing if one of the values is."""

    parts: tuple[str | Value, ...]


class Join(Operation, frozen=True):
    """The strings that are not missing, joined with a separator; missing if the result is empty."""

    values: tuple[Value, ...]
    separator: str


class Lookup(Operation, frozen=True):
    """The entry of a table of the program for a string, or `otherwise`. `any_case`: the table's names are in lower
    case, and so is the string when it is looked up."""

    text: Value
    table: str
    any_case: bool
    otherwise: Value


class Convert(Operation, frozen=True):
    """The value as another type; one that cannot be converted stays, with the warning `bad_value` if `warn`."""

    value: Value
    type: str
    warn: bool


class Hash(Operation, frozen=True):
    """The keyed hash of a string for a purpose. The secret is not part of the program."""

    text: Value
    purpose: str


class Apply(Operation, frozen=True):
    """A named function of values."""

    function: str
    arguments: tuple[Value, ...]


class Part(Operation, frozen=True):
    """One part of a function's result that has several."""

    of: Value
    name: str


class Spread(Operation, frozen=True):
    """The members of an object under new names; missing without an object. A value that is not an object rejects the
    row.

    `only` and `leave` are names, or beginnings if they end in `*`; members whose text is one of `blank` are left out.
    The new name is the one in `rename`; otherwise `strip` is removed and `prefix` added in front.
    """

    source: Value
    only: tuple[str, ...]
    leave: tuple[str, ...]
    rename: tuple[tuple[str, str], ...]
    strip: str
    prefix: str
    blank: tuple[str, ...]


Value: TypeAlias = (
    Property | Column | Member | AllProperties | RowTime | Variable | Constant | Json | Missing | AsText | NotNull
    | First | Choose | Template | Join | Lookup | Convert | Hash | Apply | Part | Spread
)  # fmt: skip
NamedValues: TypeAlias = tuple[tuple[str, Value], ...]


# --- conditions; all their values are evaluated, whatever the first ones give --------------------------------


class Present(Operation, frozen=True):
    """The value is not missing."""

    value: Value


class OneOf(Operation, frozen=True):
    value: Value
    texts: tuple[str, ...]


class StartsWith(Operation, frozen=True):
    value: Value
    text: str


class Contains(Operation, frozen=True):
    value: Value
    text: str


class Same(Operation, frozen=True):
    """The strings are equal, and none is missing."""

    values: tuple[Value, ...]


class All(Operation, frozen=True):
    conditions: tuple[Condition, ...]


class Any_(Operation, frozen=True):
    conditions: tuple[Condition, ...]


class Not(Operation, frozen=True):
    condition: Condition


Condition: TypeAlias = Present | OneOf | StartsWith | Contains | Same | All | Any_ | Not


def children(operation: Operation) -> Iterator[Operation]:
    """The values and conditions directly inside a value or a condition."""
    for name in operation.__struct_fields__:
        inside = getattr(operation, name)
        for one in inside if isinstance(inside, tuple) else (inside,):
            if isinstance(one, Operation):
                yield one


def operations(found: object) -> Iterator[Any]:
    """Every operation in an operation or a tuple of them, outermost first."""
    left = [found]
    while left:
        one = left.pop()
        if isinstance(one, tuple):
            left += one[::-1]
        elif isinstance(one, Operation):
            yield one
            left += [getattr(one, name) for name in one.__struct_fields__[::-1]]


def name_of(operation: Operation) -> str:
    """The name of a kind of operation: `skip_row` for SkipRow."""
    return _name_of(type(operation))


@lru_cache
def _name_of(kind: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower().strip("_")


@lru_cache(8_192)
def is_reusable(value: Value) -> bool:
    """Whether a value may be computed once for all its uses. Not so if a conversion can fail, since each use warns; for
    a spread, whose dict its user changes; and for `AllProperties`, which depends on the properties removed before.

    Cached, because it is called wherever a value is used, and all tables of an export have the same mapping.
    """
    once = Convert | AllProperties | Spread
    return not any(isinstance(operation, once) for operation in operations(value))


def gives_text(value: Value) -> bool:
    """Whether a value is a string, or missing."""
    match value:
        case AsText() | Template() | Join() | Hash() | Lookup() | Missing():
            return True
        case Constant(fixed):
            return isinstance(fixed, str)
        case First(values):
            return all(map(gives_text, values))
        case Choose(_, then, otherwise):
            return gives_text(then) and gives_text(otherwise)
        case _:
            return False


def as_text(value: Value) -> Value:
    """A value as a string; a choice between values becomes a choice between strings."""
    match value:
        case First(values):
            return First(tuple(map(as_text, values)))
        case Choose(when, then, otherwise):
            return Choose(when, as_text(then), as_text(otherwise))
        case NotNull(inner):
            return as_text(inner)
        case _:
            return value if gives_text(value) else AsText(value)


def not_null(value: Value) -> Value:
    """A value without JSON null; only a value read from the row can be null."""
    return NotNull(value) if isinstance(value, Property | Column | Member) else value
