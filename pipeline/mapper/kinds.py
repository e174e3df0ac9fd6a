"""The kinds of thing that a mapping file may hold, and the table of verbs.

A section's keys and a verb's arguments are declared with the same kinds (pipeline.mapper.grammar and the modules
of verbs), so the loader and the editors' schema read one declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Factory: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Text:
    """Any scalar, always as the text that stands there."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Json:
    """JSON text, checked; exact digits are kept."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list, of at most so many items unless `most` is 0; a single item may stand alone."""

    item: Kind
    most: int = 0


@dataclass(frozen=True, slots=True)
class TableOf:
    """A table of names, in the order of the file."""

    item: Kind


@dataclass(frozen=True, slots=True)
class Verbs:
    """One verb of a family: `value` (a bare text is a reference) or `condition`."""

    family: str


@dataclass(frozen=True, slots=True)
class Either:
    """A choice of words, or a verb."""

    words: tuple[str, ...]
    family: str = "value"


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a section. `into` is the name of the Python field, when it is not the key."""

    kind: Kind
    says: str
    required: bool = False
    into: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A table with a closed set of keys; `short` is the key that a bare text stands for; of `either` one group of keys
    must be there, whole, and none of another."""

    name: str
    make: Factory
    fields: Mapping[str, Field]
    short: str = ""
    placed: bool = False
    either: tuple[tuple[str, ...], ...] = ()


Kind: TypeAlias = "Text | Choice | Json | ListOf | TableOf | Verbs | Either | Section"


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of the language: what it takes, and the function that builds its operation (`mapper.verbs`).

    The argument with the verb's own name is the one that tells it from other verbs.
    """

    name: str
    says: str
    arguments: Mapping[str, Field]
    build: Factory


FAMILIES: dict[str, dict[str, Verb]] = {"value": {}, "condition": {}, "decoder": {}}
"""Every verb, by family and name; filled by the modules that declare them."""


def verb(family: str, name: str, says: str, **arguments: Field) -> Callable[[Factory], Factory]:
    """Declare a verb: the one step that adds it to the language, the schema and the help.

    An argument whose name Python reserves is written with an underscore after it.
    """

    def declare(build: Factory) -> Factory:
        named = {argument.rstrip("_"): field for argument, field in arguments.items()}
        FAMILIES[family][name] = Verb(name, says, named, build)
        return build

    return declare


TEXT = Text()
NAMES = ListOf(TEXT)
TEXTS = TableOf(TEXT)
VALUE = Verbs("value")
VALUES = ListOf(VALUE)
MOST_CANDIDATES = 32
"""Each is looked at where those before it fail: one level deeper in the text of a mapper."""
CANDIDATES = ListOf(VALUE, MOST_CANDIDATES)
VALUE_TABLE = TableOf(VALUE)
CONDITION = Verbs("condition")
CONDITIONS = ListOf(CONDITION)
YES = Choice(("yes", "no"))
