"""Integers that readers with floating-point numbers round, and numbers that a spreadsheet rounded."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of, found_in_values
from pipeline.plan.statistics.values import ROUNDED
from pipeline.text import pluralize, printable


@check("unsafe_integer", "warning")
def unsafe_integers(facts: PlanFacts) -> Finding | None:
    """Property values are integers beyond 2^53, or contain some: they are sent exactly, but readers that use doubles
    round them."""
    words = "with integers beyond 2^53, which are sent exactly"
    examples = _examples(facts, ((rows, *names, place) for names, (rows, place) in facts.unsafe.items()))
    return finding_of(f"{pluralize(len(examples), 'property')} {words}", examples)


@check("rounded_value", "warning")
def rounded_values(facts: PlanFacts) -> Finding | None:
    """Property values are numbers such as 1.6E+12, whose last digits a spreadsheet rounded off."""
    found = [one for one in facts.drift.properties if one.whole.counts[ROUNDED]]
    words = "with numbers that a spreadsheet rounded, such as 1.6E+12"
    examples = _examples(
        facts, ((one.whole.counts[ROUNDED], one.event, one.name, one.whole.places[ROUNDED]) for one in found)
    )
    return found_in_values(facts, f"{pluralize(len(found), 'property')} {words}", examples)


def _examples(facts: PlanFacts, found: Iterable[tuple[int, str, str, int]]) -> list[str]:
    """Examples of properties, those in most rows first; each has its number of rows, its event and the first place."""
    return [
        f"{printable(name, 60)} of {printable(event, 60)} ({pluralize(rows, 'row')}), the first in"
        f" {facts.row_at(place)}"
        for rows, event, name, place in sorted(found, key=lambda one: (-one[0], *one[1:3]))
    ]
