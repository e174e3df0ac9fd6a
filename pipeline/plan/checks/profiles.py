"""Group types and profiles that are not sent."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.identity.settings import MAX_TYPES
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.plan.manifest import GroupTypeSeal
from pipeline.text import pluralize

_LEAST_DAYS = 28


@check("group_types", "stop")
def too_many_group_types(facts: PlanFacts) -> str | None:
    """There are more group types than the service keeps, and --group-types does not choose among them."""
    sent = [one for one in facts.people.groups.types if one.sent]
    if len(sent) <= MAX_TYPES:
        return None
    return (
        f"there are {len(sent)} group types and the service keeps {MAX_TYPES}: {_with_rows(sent)}."
        " Choose them, in their order, with --group-types"
    )


@check("group_types", "warning")
def group_types_left_out(facts: PlanFacts) -> str | None:
    """--group-types leaves some types out."""
    left_out = [one for one in facts.people.groups.types if not one.sent]
    return f"--group-types leaves out {_with_rows(left_out)}" if left_out else None


def _with_rows(types: Sequence[GroupTypeSeal]) -> str:
    return ", ".join(f"{one.type} ({pluralize(one.rows, 'row')})" for one in types)


@check("one_day_ids", "notice")
def anonymous_ids_of_one_day(facts: PlanFacts) -> Finding | None:
    """Most events are of anonymous ids that never return: each becomes a person that nobody sees again.

    A history of less than four weeks, and a job's window, do not show who returns.
    """
    profiles = facts.people.profiles
    events = profiles.anonymous_events + profiles.identified_events
    if facts.in_series or facts.options.persons == "identified" or len(facts.history.total.counts) < _LEAST_DAYS:
        return None
    if profiles.one_day_events * 100 <= facts.thresholds.one_day * events:
        return None
    return finding_of(
        f"{profiles.one_day_events:,} of {pluralize(events, 'event')} ({profiles.one_day_events / events:.0%}) are of"
        " anonymous ids that are seen on one day alone; each of these ids becomes a person",
        [f"{pluralize(profiles.one_day_ids, 'id')} of {profiles.anonymous_ids + profiles.identified_ids:,}"],
        profiles.one_day_events,
    )


@check("persons", "warning")
def persons_without_profile(facts: PlanFacts) -> str | None:
    """Under `--persons identified` some ids get no profile, which cannot be changed afterwards."""
    if facts.options.persons != "identified":
        return None
    profiles = facts.people.profiles
    return (
        f"no profile for {pluralize(profiles.anonymous_ids, 'id')} with"
        f" {pluralize(profiles.anonymous_events, 'event')}, one for {pluralize(profiles.identified_ids, 'id')} with"
        f" {pluralize(profiles.identified_events, 'event')}; merges and groups need one"
    )
