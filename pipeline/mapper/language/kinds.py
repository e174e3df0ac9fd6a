"""The kinds of value in a mapping file, how sections and verbs are declared with them, and the table of verbs.

The keys of sections are declared in `pipeline.mapper.language.sections`, the verbs in `pipeline.mapper.verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias, dataclass_transform

import msgspec

from pipeline.errors import MappingError

Factory: TypeAlias = Callable[..., Any]


class Place(NamedTuple):
    """A place in a mapping file; line and column count from 1."""

    file: str
    line: int
    column: int

    def error(self, message: str, hint: str = "") -> MappingError:
        """The error about what is written here."""
        return MappingError(message, file=self.file, line=self.line, column=self.column, hint=hint)


class Call(msgspec.Struct, frozen=True):
    """One verb and its arguments: nested calls, strings, lists and tables, as declared."""

    verb: str
    arguments: Mapping[str, Any]
    place: Place


class Text(msgspec.Struct, frozen=True):
    """Any scalar, always as its text in the file."""


class Choice(msgspec.Struct, frozen=True):
    words: tuple[str, ...]


class Character(msgspec.Struct, frozen=True):
    """One ASCII character that a line of text can have, or the word in `none` for no character."""

    none: str = ""


class Json(msgspec.Struct, frozen=True):
    """JSON text, checked; digits stay exact."""


class ListOf(msgspec.Struct, frozen=True):
    """A list of `least` to `most` items, or any number if `most` is 0; a single item needs no list."""

    item: Kind
    most: int = 0
    least: int = 0


class TableOf(msgspec.Struct, frozen=True):
    """A table of names, in the order of the file."""

    item: Kind


class Verbs(msgspec.Struct, frozen=True):
    """One verb of a family: `value` (bare text is a reference) or `condition`. `numbers`: a bare number is itself."""

    family: str
    numbers: bool = False


class Either(msgspec.Struct, frozen=True):
    """A choice of words, or a verb."""

    words: tuple[str, ...]
    family: str = "value"


class Field(msgspec.Struct, frozen=True):
    """One key of a section, or one argument of a verb. A section's key also has a `default`, which may be a factory,
    and `into`, the name of its Python field."""

    kind: Kind
    help: str
    required: bool = False
    default: Any = None
    into: str = ""

    @property
    def empty(self) -> Any:
        """What the field has if the file does not have the key."""
        return self.default() if callable(self.default) else self.default


class Section(msgspec.Struct, frozen=True):
    """A table with a closed set of keys."""

    name: str
    factory: Factory
    fields: Mapping[str, Field]
    short: str = ""
    """The key that bare text stands for, if a section is written as bare text."""
    placed: bool = False
    """Whether the factory takes the place in the file."""
    either: tuple[tuple[str, ...], ...] = ()
    """Groups of keys: a section has all keys of one group, and none of the others."""


Kind: TypeAlias = "Text | Choice | Character | Json | ListOf | TableOf | Verbs | Either | Section"


def entry(kind: Kind, help: str, default: Any = msgspec.UNSET, *, name: str = "") -> Any:
    """One key of a section, as a field of its class. Without a default, which may be a factory, the key is required.

    `name` is the key in the file, if it differs from the field's name.
    """
    return Field(kind, help, default is msgspec.UNSET, default, name)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(entry,))
class _Declared(msgspec.StructMeta):
    """Takes the entries of a class. A msgspec Struct is created thirty times as fast as a dataclass."""

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        entries: dict[str, Field] = {}
        for field, one in [(field, one) for field, one in members.items() if isinstance(one, Field)]:
            entries[one.into or field] = msgspec.structs.replace(one, into=field)
            if callable(one.default):
                members[field] = msgspec.field(default_factory=one.default)
            else:
                members[field] = msgspec.field() if one.required else one.default
        inherited = {key: one for base in bases for key, one in getattr(base, "entries", {}).items()}
        members["entries"] = entries | inherited
        return super().__new__(cls, name, bases, members, frozen=True, kw_only=True)


class Keys(msgspec.Struct, metaclass=_Declared):
    """The keys of a section: each field is an `entry`. `entries` has them by key, own ones before inherited ones."""

    entries: ClassVar[dict[str, Field]]


def section(name: str, factory: type[Keys], *, short: str = "", either: tuple[tuple[str, ...], ...] = ()) -> Section:
    return Section(name, factory, factory.entries, short, "place" in factory.__struct_fields__, either)


class Verb(msgspec.Struct, frozen=True):
    """One verb of the language: its arguments, and the function that builds its operation (`mapper.verbs`).

    The argument with the verb's own name distinguishes it from other verbs.
    """

    name: str
    help: str
    arguments: Mapping[str, Field]
    build: Factory


FAMILIES: dict[str, dict[str, Verb]] = {"value": {}, "condition": {}, "decoder": {}}
"""Every verb, by family and name; the modules that declare verbs fill it."""


def verb(family: str, name: str, help: str, **arguments: Field) -> Callable[[Factory], Factory]:
    """Declare a verb. This alone adds it to the language, the schema and the help.

    An argument whose name Python reserves is written with a trailing underscore.
    """

    def declare(build: Factory) -> Factory:
        named = {argument.rstrip("_"): field for argument, field in arguments.items()}
        FAMILIES[family][name] = Verb(name, help, named, build)
        return build

    return declare


value = partial(verb, "value")
condition = partial(verb, "condition")
decoder = partial(verb, "decoder")

TEXT = Text()
NAMES = ListOf(TEXT)
TEXTS = TableOf(TEXT)
VALUE = Verbs("value")
VALUES = ListOf(VALUE, least=1)
MOST_CANDIDATES = 32
"""Each is tried if those before it fail: one level deeper in the source of a mapper."""
CANDIDATES = ListOf(VALUE, MOST_CANDIDATES, least=1)
NUMBER = Verbs("value", numbers=True)
NUMBERS = ListOf(NUMBER, least=1)
VALUE_TABLE = TableOf(VALUE)
CONDITION = Verbs("condition")
CONDITIONS = ListOf(CONDITION, least=1)
YES = Choice(("yes", "no"))
