"""Events and properties that break the tracking plan that a person gave (`--types`)."""

from __future__ import annotations

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.plan.sealed.facts import TrackingSeal, Violation
from pipeline.text import are, pluralize


@check("tracking_plan", "warning")
def violations(facts: PlanFacts) -> Finding | None:
    """Events are not planned, or their properties are missing, not planned, or not as the tracking plan says."""
    found = facts.tracking or TrackingSeal()
    sentence = f"{pluralize(found.found, 'violation')} of the tracking plan {found.file}{facts.drift.in_sample}"
    return finding_of(sentence, [_in_words(one) for one in found.violations], found.found)


@check("tracking_plan_not_checked", "notice")
def not_checked(facts: PlanFacts) -> Finding | None:
    """The tracking plan has parts that are not applied."""
    found = facts.tracking or TrackingSeal()
    parts = [f"{keyword} ({where})" for keyword, where in found.not_checked.items()]
    kinds = f"{pluralize(len(parts), 'kind')} of rules in the tracking plan {found.file} {are(len(parts))} not checked"
    return finding_of(kinds, parts, most=len(parts))


def _in_words(one: Violation) -> str:
    broken = f"{one.property} of {one.event}".removeprefix(" of ") + f" ({one.rule} {one.expected}".rstrip() + ")"
    example = f" ({one.example})" if one.example else ""
    return f"{broken}: {pluralize(one.events, 'event')}" + (f", the first in {one.first}{example}" if one.first else "")
