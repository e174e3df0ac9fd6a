"""Events of one person that follow each other too fast, or that appear twice."""

from __future__ import annotations

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.text import are, pluralize, printable, some_of
from pipeline.timestamps import SECOND, format_utc

_LEAST_REPEATED = 10
_NAMES_SHOWN = 3
_LEAST_LATE = 10
_CHARACTERS = 60


@check("inhuman_rate", "warning")
def inhuman_rate(facts: PlanFacts) -> Finding | None:
    """One id has more events in a second, a minute or a day than a person makes: a bot, a test, a shared id."""
    found, limits = facts.activity, facts.thresholds
    return finding_of(
        f"{pluralize(found.fast_ids, 'id')} with more events than a person makes (over {limits.per_second:,} in a"
        f" second, {limits.per_minute:,} in a minute or {limits.per_day:,} in a day)",
        [
            f"{printable(one.id, _CHARACTERS)} has {one.events:,} in the {one.unit}"
            f" {format_utc(one.time)[: 10 if one.unit == 'day' else 20]} ({facts.row_at(one.row)})"
            for one in found.busy
        ],
        found.fast_ids,
    )


@check("near_duplicate", "warning")
def near_duplicates(facts: PlanFacts) -> Finding | None:
    """Events equal an earlier one of the same person and second except for their uuid: recorded or exported twice."""
    found, events = facts.activity, facts.phases.get("events", 0)
    count = sum(found.repeated.values())
    if count < _LEAST_REPEATED or count * 100 <= facts.thresholds.repeated * events:
        return None
    names = [f"{printable(name, _CHARACTERS)} {number:,}" for name, number in found.repeated.items()]
    return finding_of(
        f"{count:,} of {pluralize(events, 'event')} ({count / events:.2%}) repeat an earlier event of the same person"
        f" in the same second, with another uuid ({some_of(names, _NAMES_SHOWN, what='name')})",
        [
            f"{printable(one.name, _CHARACTERS)} at {format_utc(one.time // SECOND * SECOND)}"
            f" ({facts.row_at(one.row)} and {facts.row_at(one.other)})"
            for one in found.repeats
        ],
        count,
    )


@check("not_in_time_order", "warning")
def rows_not_in_time_order(facts: PlanFacts) -> Finding | None:
    """The service keeps the person property that arrives last, and rows are sent in the order of the export."""
    found = facts.activity
    if found.late < _LEAST_LATE or not facts.people.profiles.promoted or facts.people.promotes:
        return None
    return finding_of(
        f"{pluralize(found.late, 'event')} {are(found.late)} listed after a later event of the same person and UTC day"
        " in the export, and have properties that the service copies to the person: it keeps the value that arrives"
        " last",
        [facts.row_at(row) for row in found.late_rows],
        found.late,
    )
