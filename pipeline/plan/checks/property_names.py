"""Property names that never stop growing in number."""

from __future__ import annotations

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, found_in_values
from pipeline.plan.statistics.drift import FEW, EventNames
from pipeline.text import pluralize, printable


@check("property_names", "warning")
def exploding_names(facts: PlanFacts) -> Finding | None:
    """An event name has many properties that hardly any event has, as happens when ids are used as property names."""
    found = [one for one in facts.drift.names if one.rare >= facts.thresholds.property_names]
    return found_in_values(
        facts,
        f"{pluralize(len(found), 'event name')} with ever more property names",
        [_described(facts, one) for one in found],
    )


def _described(facts: PlanFacts, one: EventNames) -> str:
    some = ", ".join(printable(name, 40) for name in one.some)
    return (
        f"{printable(one.event, 60)}: {one.rare:,} of {pluralize(one.properties, 'property')} are in {FEW} events or"
        f" fewer, such as {some}; the first in {facts.row_at(one.place)}"
    )
