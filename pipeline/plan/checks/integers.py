"""Integers that a reader with floating-point numbers rounds, and numbers that a spreadsheet rounded."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.text import pluralize, printable
from pipeline.transform.drift import LARGE, LARGE_IN_LIST, LARGE_IN_OBJECT, ROUNDED

_LARGE = (LARGE, LARGE_IN_OBJECT, LARGE_IN_LIST)


@check("unsafe_integer", "warning")
def unsafe_integers(facts: PlanFacts) -> Finding | None:
    """Integers beyond 2^53 are values of properties, or stand in their objects and lists: they are sent exactly, and
    readers that use doubles round them."""
    return _with(facts, _LARGE, "with integers beyond 2^53, which are sent exactly")


@check("rounded_value", "warning")
def rounded_values(facts: PlanFacts) -> Finding | None:
    """Numbers such as 1.6E+12, whose last digits a spreadsheet rounded off, are values of properties."""
    return _with(facts, (ROUNDED,), "with numbers that a spreadsheet rounded, such as 1.6E+12")


def _with(facts: PlanFacts, kinds: Sequence[int], words: str) -> Finding | None:
    """The properties with values of these kinds, those with the most first."""
    found = [(rows, one) for one in facts.drift.properties if (rows := sum(one.whole.counts[kind] for kind in kinds))]
    if not found:
        return None
    found.sort(key=lambda pair: (-pair[0], pair[1].event, pair[1].name))
    return finding_of(
        f"{pluralize(len(found), 'property')} {words}",
        [
            f"{printable(one.name, 60)} of {printable(one.event, 60)} ({pluralize(rows, 'row')}),"
            f" the first in {facts.row_at(min(one.whole.places[kind] for kind in kinds))}"
            for rows, one in found
        ],
        len(found),
    )
