"""Event properties that the service copies to persons: on live persons, imported history replaces newer values.

The service keeps whatever arrives last, whatever its time (docs/know/service.md#persons).
"""

from __future__ import annotations

from collections import Counter

from pipeline.encoder.encoded import has_profile, read_event, read_properties
from pipeline.plan.requests.store import read_events, read_requests
from pipeline.plan.sealed.directory import EVENTS
from pipeline.preflight.check import check
from pipeline.preflight.live_persons import has_begun, most_frequent, read_persons
from pipeline.preflight.matches import spread
from pipeline.preflight.target import Target
from pipeline.report.records import Check
from pipeline.text import pluralize

PROMOTED = "promoted_values"
REQUESTS = 4
IDS = 500
"""IDS ids of events are looked up, from REQUESTS requests."""


@check(165, PROMOTED, needs="events")
def check_promoted(target: Target) -> Check | None:
    """Would properties of imported events replace values of live persons?"""
    plan = target.plan
    if plan is None or target.directory is None or has_begun(target):
        return None
    names = set(plan.people.profiles.promoted)
    if not names:
        return Check(PROMOTED, "ok", "no event has a property that the service copies to its person")
    ids = _ids(target)
    persons = read_persons(target.questions, ids)
    held = [
        names & {name for name, value in person.properties.items() if value is not None} for person in persons.values()
    ]
    counts = Counter(name for found in held for name in found)
    touched = sum(map(bool, held))
    facts = {"looked_up": len(ids), "live": len(persons), "persons_changed": touched, "properties": dict(counts)}
    who = f"{len(persons):,} of {pluralize(len(ids), 'id')} of events that were looked up have a person at the target"
    if not touched:
        return Check(
            PROMOTED, "ok", f"{who}; none of them has a value that events of the plan would replace", facts=facts
        )
    detail = (
        f"{who}; on {touched:,} of them the service would replace values with those of imported events,"
        f" whatever their time: {most_frequent(counts)}"
    )
    hint = "leave these properties out in the mapping, rename them, or use a project without live persons"
    return Check(PROMOTED, "warning", detail, hint, facts)


def _ids(target: Target) -> list[str]:
    """Different ids of events that have a person, from some requests of the plan."""
    directory = target.directory
    assert directory is not None
    numbers = spread([request.number for request in read_requests(directory, EVENTS)], REQUESTS)
    ids: set[str] = set()
    for _, events in read_events(directory, EVENTS, numbers):
        found = {read_event(event).properties.distinct_id for event in events if has_profile(read_properties(event))}
        ids.update(spread(sorted(found), -(-IDS // len(numbers))))
    return sorted(ids)
