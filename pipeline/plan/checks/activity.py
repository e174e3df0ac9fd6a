"""Events of one person that come too fast, or twice."""

from __future__ import annotations

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.text import are, pluralize, printable

_LEAST_REPEATED = 10
_NAMES_SHOWN = 3
_LEAST_LATE = 10


@check("inhuman_rate", "warning")
def inhuman_rate(facts: PlanFacts) -> Finding | None:
    """One id has more events within a second, a minute or a day than a person makes: a bot, a test, a shared id."""
    found, limits = facts.activity, facts.thresholds
    return finding_of(
        f"{pluralize(found.fast_ids, 'id')} with more events than a person makes (over {limits.per_second:,} in a"
        f" second, {limits.per_minute:,} in a minute or {limits.per_day:,} in a day)",
        found.fast,
        found.fast_ids,
    )


@check("near_duplicate", "warning")
def near_duplicates(facts: PlanFacts) -> Finding | None:
    """Events equal an earlier one of the same person and second in all but their uuid: recorded or exported twice."""
    found, events = facts.activity, facts.phases.get("events", 0)
    count = sum(found.repeated.values())
    if count < _LEAST_REPEATED or count * 100 <= facts.thresholds.repeated * events:
        return None
    names = list(found.repeated.items())
    shown = ", ".join(f"{printable(name, 60)} {number:,}" for name, number in names[:_NAMES_SHOWN])
    more = f", {len(names) - _NAMES_SHOWN:,} more names" if len(names) > _NAMES_SHOWN else ""
    return finding_of(
        f"{count:,} of {pluralize(events, 'event')} ({count / events:.2%}) equal an earlier event of the same person"
        f" and second in all but their uuid ({shown}{more})",
        found.repeats,
        count,
    )


@check("not_in_time_order", "warning")
def rows_not_in_time_order(facts: PlanFacts) -> Finding | None:
    """The service keeps of a person what arrives last, and rows are sent as they stand in the export."""
    found = facts.activity
    if found.late < _LEAST_LATE or not facts.people.profiles.promoted or facts.people.promotes:
        return None
    return finding_of(
        f"{pluralize(found.late, 'event')} {are(found.late)} behind a later event of the same person and UTC day in the"
        " export, and have properties that the service copies to the person: the one that arrives last stays",
        found.late_rows,
        found.late,
    )
