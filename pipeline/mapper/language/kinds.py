"""The kinds of value in a mapping file, how sections and verbs are declared with them, and the table of verbs.

The keys of sections are declared in `pipeline.mapper.language.sections`, the verbs in `pipeline.mapper.verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeAlias

Factory: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Text:
    """Any scalar, always as its text in the file."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Character:
    """One character of ASCII that a line of text can have, or the word that stands for none where there is one."""

    none: str = ""


@dataclass(frozen=True, slots=True)
class Json:
    """JSON text, checked; digits stay exact."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of `least` to `most` items, of any number where `most` is 0; a single item needs no list."""

    item: Kind
    most: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class TableOf:
    """A table of names, in the order of the file."""

    item: Kind


@dataclass(frozen=True, slots=True)
class Verbs:
    """One verb of a family: `value` (a bare text is a reference) or `condition`. `numbers`: a bare number is itself."""

    family: str
    numbers: bool = False


@dataclass(frozen=True, slots=True)
class Either:
    """A choice of words, or a verb."""

    words: tuple[str, ...]
    family: str = "value"


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a section, or one argument of a verb."""

    kind: Kind
    help: str
    required: bool = False
    into: str = ""
    """The name of the Python field, where it is not the key."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table with a closed set of keys."""

    name: str
    factory: Factory
    fields: Mapping[str, Field]
    short: str = ""
    """The key that is meant where a section is a bare text."""
    placed: bool = False
    """Whether the factory takes the place in the file."""
    either: tuple[tuple[str, ...], ...] = ()
    """Groups of keys: a section has all keys of one group, and none of another."""


Kind: TypeAlias = "Text | Choice | Character | Json | ListOf | TableOf | Verbs | Either | Section"


def entry(kind: Kind, help: str, default: Any = MISSING, *, name: str = "") -> Any:
    """One key of a section, as a field of its dataclass; required without a default, which may be a factory.

    `name` is the key in the file, where it is not the field's name.
    """
    metadata = {"kind": kind, "help": help, "name": name}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def section(name: str, factory: type, *, short: str = "", either: tuple[tuple[str, ...], ...] = ()) -> Section:
    """The section that a dataclass of `entry` fields declares: its own keys, then inherited ones."""
    declared = sorted(fields(factory), key=lambda one: one.name not in factory.__annotations__)
    keys = {
        one.metadata["name"] or one.name: Field(
            one.metadata["kind"],
            one.metadata["help"],
            one.default is MISSING and one.default_factory is MISSING,
            one.name,
        )
        for one in declared
        if one.metadata
    }
    return Section(name, factory, keys, short, any(one.name == "place" for one in declared), either)


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of the language: its arguments, and the function that builds its operation (`mapper.verbs`).

    The argument with the verb's own name distinguishes it from other verbs.
    """

    name: str
    help: str
    arguments: Mapping[str, Field]
    build: Factory


FAMILIES: dict[str, dict[str, Verb]] = {"value": {}, "condition": {}, "decoder": {}}
"""Every verb, by family and name; filled by the modules that declare them."""


def verb(family: str, name: str, help: str, **arguments: Field) -> Callable[[Factory], Factory]:
    """Declare a verb: the one step that adds it to the language, the schema and the help.

    An argument whose name Python reserves is written with an underscore after it.
    """

    def declare(build: Factory) -> Factory:
        named = {argument.rstrip("_"): field for argument, field in arguments.items()}
        FAMILIES[family][name] = Verb(name, help, named, build)
        return build

    return declare


TEXT = Text()
NAMES = ListOf(TEXT)
TEXTS = TableOf(TEXT)
VALUE = Verbs("value")
VALUES = ListOf(VALUE, least=1)
MOST_CANDIDATES = 32
"""Each is tried where those before it fail: one level deeper in the source of a mapper."""
CANDIDATES = ListOf(VALUE, MOST_CANDIDATES, least=1)
NUMBER = Verbs("value", numbers=True)
NUMBERS = ListOf(NUMBER, least=1)
VALUE_TABLE = TableOf(VALUE)
CONDITION = Verbs("condition")
CONDITIONS = ListOf(CONDITION, least=1)
YES = Choice(("yes", "no"))
