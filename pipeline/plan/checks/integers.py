"""Integers that a reader with floating-point numbers rounds."""

from __future__ import annotations

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.text import pluralize, printable
from pipeline.transform.drift import LARGE, LARGE_IN_LIST, LARGE_IN_OBJECT

_LARGE = (LARGE, LARGE_IN_OBJECT, LARGE_IN_LIST)


@check("unsafe_integer", "warning")
def unsafe_integers(facts: PlanFacts) -> Finding | None:
    """Integers beyond 2^53 are values of properties, or stand in their objects and lists: they are sent exactly, and
    readers that use doubles round them."""
    found = [
        (sum(one.whole.counts[kind] for kind in _LARGE), one)
        for one in facts.drift.properties
        if any(one.whole.counts[kind] for kind in _LARGE)
    ]
    if not found:
        return None
    found.sort(key=lambda pair: (-pair[0], pair[1].event, pair[1].name))
    return finding_of(
        f"{pluralize(len(found), 'property')} with integers beyond 2^53, which are sent exactly",
        [
            f"{printable(one.name, 60)} of {printable(one.event, 60)} ({pluralize(rows, 'row')}),"
            f" the first in {facts.row_at(min(one.whole.places[kind] for kind in _LARGE))}"
            for rows, one in found
        ],
        len(found),
    )
