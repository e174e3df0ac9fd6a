"""Integers that a reader with floating-point numbers rounds."""

from __future__ import annotations

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.text import pluralize, printable
from pipeline.transform.drift import LARGE


@check("unsafe_integer", "warning")
def unsafe_integers(facts: PlanFacts) -> Finding | None:
    """Integers beyond 2^53 are values of properties: they are sent exactly, and readers that use doubles round them."""
    found = [one for one in facts.drift.properties if one.whole.counts[LARGE]]
    if not found:
        return None
    found.sort(key=lambda one: (-one.whole.counts[LARGE], one.event, one.name))
    return finding_of(
        f"{pluralize(len(found), 'property')} with integers beyond 2^53, which are sent exactly",
        [
            f"{printable(one.name, 60)} of {printable(one.event, 60)} ({pluralize(one.whole.counts[LARGE], 'row')}),"
            f" the first in {facts.row_at(one.whole.places[LARGE])}"
            for one in found
        ],
        len(found),
    )
