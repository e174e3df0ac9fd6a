"""Values and conditions: the trees inside the steps of a program. Every value reads the row as it came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

# --- values: what a row has, or what is made of it ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Property:
    """A property by its name, with JSON null; missing where the row has none."""

    name: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the row beside its properties, with JSON null."""

    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object inside the row, with JSON null; missing where `of` is no object."""

    of: Value
    name: str


@dataclass(frozen=True, slots=True)
class AllProperties:
    """The properties of the row as one object."""


@dataclass(frozen=True, slots=True)
class RowTime:
    """The time of the row in microseconds since 1970, once `ReadTime` has set it."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The value of an earlier `Let`."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A fixed text, or a fixed argument of a function."""

    value: str | int


@dataclass(frozen=True, slots=True)
class Json:
    """A fixed JSON value, as its text."""

    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Nothing."""


@dataclass(frozen=True, slots=True)
class AsText:
    """A value as text: the digits of a number, `true`, the JSON of an object; missing for JSON null.

    Text that is not Unicode rejects the row (`bad_value`).
    """

    value: Value


@dataclass(frozen=True, slots=True)
class NotNull:
    """A value, but missing where it is JSON null."""

    value: Value


@dataclass(frozen=True, slots=True)
class First:
    """The first of these that is not missing; those after it are not evaluated."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Choose:
    """One value or another; the other one is not evaluated."""

    when: Condition
    then: Value
    otherwise: Value


@dataclass(frozen=True, slots=True)
class Template:
    """Texts one after the other; missing where one of the values is."""

    parts: tuple[str | Value, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """The texts that are not missing, with a separator between them; missing where that gives an empty text."""

    values: tuple[Value, ...]
    separator: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a table of the program has for a text, else `otherwise`. `any_case`: the table's names are in lower case,
    and so is the text when it is looked up."""

    text: Value
    table: str
    any_case: bool
    otherwise: Value


@dataclass(frozen=True, slots=True)
class Convert:
    """The value as another type; one that cannot be converted stays, with the warning `bad_value` where `warn`."""

    value: Value
    type: str
    warn: bool


@dataclass(frozen=True, slots=True)
class Hash:
    """The keyed hash of a text under a purpose. The secret is no part of the program."""

    text: Value
    purpose: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A named function of values."""

    function: str
    arguments: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of what a function gave that has several."""

    of: Value
    name: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The row is rejected (`bad_value`) with a sentence and, after it, the text that shows why."""

    sentence: str
    shown: Value


@dataclass(frozen=True, slots=True)
class Spread:
    """The members of an object under new names; missing without an object. A value that is no object rejects the row.

    `only` and `leave` are names, or beginnings where they end in `*`; members whose text is one of `blank` are left
    out. The new name is that of `rename`, else `strip` is taken off and `prefix` put before.
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
    | First | Choose | Template | Join | Lookup | Convert | Hash | Apply | Part | Refuse | Spread
)  # fmt: skip
NamedValues: TypeAlias = tuple[tuple[str, Value], ...]


# --- conditions; their values are all evaluated, whatever the first ones give -------------------------------


@dataclass(frozen=True, slots=True)
class Present:
    """The value is not missing."""

    value: Value


@dataclass(frozen=True, slots=True)
class Equals:
    """The text is this one."""

    value: Value
    text: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """The text is one of these."""

    value: Value
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The text begins with this one."""

    value: Value
    text: str


@dataclass(frozen=True, slots=True)
class Contains:
    """The text contains this one."""

    value: Value
    text: str


@dataclass(frozen=True, slots=True)
class Same:
    """The texts are equal, and none is missing."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class All:
    """Every condition is true."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Any_:
    """At least one condition is true."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The condition is false."""

    condition: Condition


Condition: TypeAlias = Present | Equals | OneOf | StartsWith | Contains | Same | All | Any_ | Not


def operations(found: object) -> Iterator[Any]:
    """Every operation in an operation or a tuple of them, outermost first."""
    if isinstance(found, tuple):
        for one in found:
            yield from operations(one)
    elif hasattr(found, "__dataclass_fields__"):
        yield found
        for field in fields(found):  # type: ignore[arg-type]
            yield from operations(getattr(found, field.name))


def gives_text(value: Value) -> bool:
    """Whether a value is a text, or missing."""
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
    """A value as text; the choice between several becomes one between texts."""
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
    """A value without JSON null, which only what is read from the row can be."""
    return NotNull(value) if isinstance(value, Property | Column | Member) else value
