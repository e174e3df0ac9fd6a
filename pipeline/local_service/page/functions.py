"""Which hog functions would have fired for what landed. None of their inputs are shown: they may contain secrets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.local_service.management.firing import Firing, firing, would_fire
from pipeline.local_service.page.reader import ProjectReader

MOST_JUDGED_NAMES = 2_000
"""Event names that are judged, the most frequent first."""
MOST_FUNCTIONS = 500
_EXAMPLES = 5


def fired(reader: ProjectReader, functions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Every function that is not deleted, those that fire most first, with how many events each would (`yes`) and may
    fire for; how many of them fire, and how many functions and event names were not judged."""
    present = [function for function in functions if not function.get("deleted")]
    names, more = reader.event_names(MOST_JUDGED_NAMES) if present else ([], 0)
    rows = []
    for function in present[:MOST_FUNCTIONS]:
        verdicts = [(would_fire(function, name), name, count) for name, count in names]
        counts: Counter[Firing] = Counter()
        for verdict, _, count in verdicts:
            counts[verdict] += count
        examples = [(name, count) for verdict, name, count in verdicts if verdict != "no"][:_EXAMPLES]
        rows.append({**function, "name": _name(function), "counts": counts, "examples": examples})
    rows.sort(key=lambda row: (-row["counts"]["yes"], -row["counts"]["may"]))
    firing = sum(1 for row in rows if row["examples"])
    return {"rows": rows, "firing": firing, "more": max(0, len(present) - MOST_FUNCTIONS), "more_names": more}


def firing_for(functions: Sequence[Mapping[str, Any]], event: str) -> list[tuple[str, Firing]]:
    """The names of the functions that would or may fire for an event of this name."""
    return [(_name(function), verdict) for function, verdict in firing(functions, event)[:MOST_FUNCTIONS]]


def _name(function: Mapping[str, Any]) -> str:
    return str(function.get("name") or "(no name)")
