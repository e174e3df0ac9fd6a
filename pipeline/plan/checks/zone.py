"""The time zone of the source's clock."""

from __future__ import annotations

from pipeline.clock_offsets import offset_name
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, stated
from pipeline.text import pluralize

_ZONES = 4
"""How many of the zones that fit are named."""
_ANY = "Area/City"


@check("zone", "stop")
def unproved_zone(facts: PlanFacts) -> str | Finding | None:
    """The data contradict the time zone, or nothing proves it and none was named."""
    verdict = facts.zone
    if verdict is None:
        return None
    if verdict.contradictions:
        worst = max(verdict.contradictions, key=lambda month: month.rows)
        wrong, fitting = len(verdict.contradictions), verdict.fitting
        expected = f", not {' or '.join(map(offset_name, worst.expected))}" if verdict.zone != "UTC" else ""
        shown = ", ".join(one.replace(" ", ", then ") for one in fitting[:_ZONES])
        names = f" Zones that fit all months: {shown}." if fitting else ""
        return stated(
            f"the times are not {verdict.zone}: in {worst.month} receive times show {offset_name(worst.offset)}"
            f" in {worst.rows:,} of {pluralize(worst.of, 'row')}{expected}. {pluralize(wrong, 'month')} of"
            f" {len(verdict.months):,} {'disagrees' if wrong == 1 else 'disagree'}.{names}"
            " Name the project's zone with --timezone",
            wrong,
            [
                f"{month.month}: {offset_name(month.offset)} in {month.rows:,} of {pluralize(month.of, 'row')}"
                for month in verdict.contradictions
            ],
            options=[word for zone in (fitting or [_ANY])[0].split() for word in ("--timezone", zone)],
        )
    if verdict.proved or facts.options.zones:
        return None
    return stated(
        "nothing in the data proves the time zone. Name it with --timezone, even if it is UTC",
        1,
        options=["--timezone", _ANY],
    )
