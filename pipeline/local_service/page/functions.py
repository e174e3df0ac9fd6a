"""Which hog functions would have fired for what landed. None of their inputs are shown: they may contain secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pipeline.local_service.management.firing import Firing, firing, would_fire
from pipeline.local_service.page.reader import ProjectReader

MOST_JUDGED_NAMES = 2_000
"""Event names that are judged, the most frequent first."""
MOST_FUNCTIONS = 500
_EXAMPLES = 5


class FunctionRow(msgspec.Struct, frozen=True):
    """A function: how many events it would fire for, and may fire for; the most frequent of them by name."""

    id: str
    name: str
    type: str
    enabled: bool
    fires: int
    may_fire: int
    examples: list[tuple[str, int]]


class Fired(msgspec.Struct, frozen=True):
    """The functions, and how many of them and of the event names were not judged."""

    rows: list[FunctionRow]
    more_functions: int
    more_names: int

    @property
    def firing(self) -> int:
        """How many functions would or may fire."""
        return sum(1 for row in self.rows if row.fires or row.may_fire)


def fired(reader: ProjectReader, functions: Sequence[Mapping[str, Any]]) -> Fired:
    """Every function that is not deleted, those that fire most first."""
    present = [function for function in functions if not function.get("deleted")]
    names, more = reader.event_names(MOST_JUDGED_NAMES) if present else ([], 0)
    rows = [_judged(function, names) for function in present[:MOST_FUNCTIONS]]
    rows.sort(key=lambda row: (-row.fires, -row.may_fire))
    return Fired(rows, max(0, len(present) - MOST_FUNCTIONS), more)


def firing_for(functions: Sequence[Mapping[str, Any]], event: str) -> list[tuple[str, Firing]]:
    """The names of the functions that would or may fire for an event of this name."""
    return [(_name(function), verdict) for function, verdict in firing(functions, event)[:MOST_FUNCTIONS]]


def _judged(function: Mapping[str, Any], names: list[tuple[str, int]]) -> FunctionRow:
    counts = {"yes": 0, "may": 0, "no": 0}
    examples: list[tuple[str, int]] = []
    for name, count in names:
        verdict = would_fire(function, name)
        counts[verdict] += count
        if verdict != "no" and len(examples) < _EXAMPLES:
            examples.append((name, count))
    return FunctionRow(
        id=str(function.get("id")),
        name=_name(function),
        type=str(function.get("type") or "(no type)"),
        enabled=bool(function.get("enabled")),
        fires=counts["yes"],
        may_fire=counts["may"],
        examples=examples,
    )


def _name(function: Mapping[str, Any]) -> str:
    return str(function.get("name") or "(no name)")
