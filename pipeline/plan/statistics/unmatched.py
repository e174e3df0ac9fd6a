"""References of a mapping that no row of the source matches, which a person should review before anything is sent.

A misspelt column name costs a property of every event, or the key that identifies events, although every row is valid.
The coverage of a plan counts the names that rows have.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from pipeline.mapper.program.references import Level, Reference, path_to
from pipeline.text import are, pluralize, printable, some_of

MAX_SHOWN = 10
MOST_NAMES = 2_000
"""At most this many names of one object can be suggested."""
_CHARACTERS = 80


class MissingReferences(NamedTuple):
    """The sentence about references that no row matches. `required`: without one of them, no row has an event name, a
    person, a time or its key."""

    detail: str
    required: bool


class ReferenceUsage:
    """The references that some row should match, and the names that the rows of a source have."""

    def __init__(self, references: Sequence[Reference]) -> None:
        self._references = references
        self._named = {name for reference in references for _, name in path_to(reference)}
        self._names: dict[Level, dict[str, int]] = {}

    def add(self, level: Level, name: str, rows: int) -> None:
        """Add a name that an object in rows has, and in how many rows it has a value; 0 for a table column with only
        blank cells. The first names that the mapping does not use are kept as suggestions."""
        counted = self._names.setdefault(level, {})
        if name in self._named or len(counted) < MOST_NAMES:
            counted[name] = rows

    def missing(self) -> MissingReferences | None:
        """The references that no row matches; None if every one is matched."""
        missing = {
            reference: where for reference in self._references if (where := self._missing(reference)) is not None
        }
        if not missing:
            return None
        slots = {reference.slot for reference in self._references if reference.slot}
        needed = slots - {reference.slot for reference in self._references if reference not in missing}
        ordered = sorted(missing, key=lambda reference: reference.slot not in needed)
        by_text: dict[tuple[Level, str], Reference] = {}
        for reference in ordered:
            by_text.setdefault((reference.level, reference.name), reference)
        shown = list(by_text.values())
        details = [self._detail(reference, *missing[reference], needed=reference.slot in needed) for reference in shown]
        count = pluralize(len(shown), "reference")
        text = f"{count} of the mapping {are(len(shown))} in no row: {some_of(details, MAX_SHOWN, '; ')}"
        return MissingReferences(text, bool(needed))

    def _missing(self, reference: Reference) -> tuple[Level, str] | None:
        """The first name on the path of a reference that no row has, and the object that lacks it; None if there is
        none."""
        for level, name in path_to(reference):
            if name not in self._names.get(level, {}):
                return level, name
        return None

    def _detail(self, reference: Reference, level: Level, name: str, *, needed: bool) -> str:
        place = reference.place
        where = [f"{PurePath(place.file).name}:{place.line}:{place.column}"] if place is not None else []
        role = reference.slot.partition(" ")[0]
        needs = [f"without it no row has {_ROLES[role]}"] if needed else []
        near = _near(name, self._names.get(level, {}), self._named)
        if near is not None:
            meant = f"did you mean {printable(near, _CHARACTERS)!r}"
            if rows := self._names[level][near]:
                meant += f", which is in {pluralize(rows, 'row')}"
            meant += "?"
        else:
            meant = "no name there is similar" if level.opened or level.steps else "no column is similar"
        return f"{printable(reference.text, _CHARACTERS)!r} ({', '.join([*where, *needs, meant])})"


_ROLES = {"event": "an event's name", "distinct_id": "a person", "time": "a time", "key": "its whole key"}


def _near(word: str, names: Mapping[str, int], named: Iterable[str]) -> str | None:
    """The name that was probably meant: one that differs only in case or punctuation, else a similar one; preferably a
    name that the mapping does not use."""
    used = set(named)
    for some in ([name for name in names if name not in used], list(names)):
        bare = {_bare(name): name for name in sorted(some, reverse=True)}
        if _bare(word) in bare:
            return bare[_bare(word)]
        near: Sequence[str] = difflib.get_close_matches(_bare(word), bare, n=1)
        if near:
            return bare[near[0]]
    return None


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold())) or name
