"""Ids that went through a floating-point number."""

from __future__ import annotations

from pipeline.identity.kinds import NEVER
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.text import are, pluralize


@check("split_ids", "stop")
def ids_in_two_spellings(facts: PlanFacts) -> Finding | None:
    """Some ids appear both as `42` and as `42.0`: each would become two people."""
    found = facts.float_ids
    if found is None:
        return None
    return finding_of(
        f"{pluralize(found.split, 'id')} of people {are(found.split)} written both as an integer and with .0, such as"
        " 42 and 42.0; each would become two people",
        [_first(facts, found.places[1])],
        found.split,
        most=found.split,
    )


@check("float_ids", "warning")
def ids_written_as_floats(facts: PlanFacts) -> Finding | None:
    """Ids end in `.0`, or are too large for a double: the program that wrote them read integers as floats."""
    found = facts.float_ids
    if found is None:
        return None
    examples = []
    if found.rounded:
        examples.append(
            f"{pluralize(found.rounded, 'id')} of 2^53 or more, each of which may stand for several ids,"
            f" {_first(facts, found.places[2])}"
        )
    if found.written > found.split:
        examples.append(f"{pluralize(found.written, 'id')} with .0, {_first(facts, found.places[0])}")
    count = found.rounded + found.written if examples else 0
    return finding_of("some ids of people are written as floating-point numbers", examples, count, most=count)


def _first(facts: PlanFacts, place: int) -> str:
    return f"the first in {facts.row_at(place)}" if place < NEVER else "all of them in profiles"
