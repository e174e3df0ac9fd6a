"""The time zone of the source's clock."""

from __future__ import annotations

from pipeline.clock_offsets import offset_name
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, stated
from pipeline.text import pluralize


@check("zone", "stop")
def unproved_zone(facts: PlanFacts) -> str | Finding | None:
    """The data contradict the time zone, or nothing proves it and nobody named one."""
    verdict = facts.zone
    if verdict is None:
        return None
    if verdict.contradictions:
        worst = max(verdict.contradictions, key=lambda month: month.rows)
        return stated(
            f"the times are not {verdict.zone}: in {worst.month} they look like {offset_name(worst.offset)}"
            f" in {worst.rows:,} of {pluralize(worst.of, 'row')}, but {verdict.zone} is"
            f" {' or '.join(map(offset_name, worst.expected))};"
            f" {len(verdict.contradictions)} of {len(verdict.months)} months disagree."
            " Name the project's zone with --timezone",
            len(verdict.contradictions),
            [
                f"{month.month}: {offset_name(month.offset)} in {month.rows:,} of {pluralize(month.of, 'row')}"
                for month in verdict.contradictions
            ],
        )
    if verdict.proved or facts.options.zones:
        return None
    return "nothing in the data proves the time zone. Name it with --timezone, even if it is UTC"
