"""The plan against the target: its state and dialect, and the rules of age and size.

A project's `drop_events_older_than_seconds` drops older events without a word to the sender, historical ones too; an
event younger than 48 hours may be billed whatever its flag (docs/know/service.md#historical-migration).
"""

from __future__ import annotations

from datetime import date, timedelta

from pipeline.errors import UnsafePlan
from pipeline.plan.freshness import check_applicable, dialect_of
from pipeline.preflight.check import Check, check
from pipeline.preflight.target import PlannedEvents, Target
from pipeline.targets import address_of
from pipeline.text import are, pluralize

PLAN = "plan"
DIALECT = "dialect"
DROPPED = "dropped_events"
RECENT = "recent_events"
SIZE = "size"
SETTING = "drop_events_older_than_seconds"
HISTORICAL = timedelta(hours=48)
MOST_EVENTS = 200_000_000
MOST_BYTES = 100_000_000_000
"""Above these the service asks to be told first (docs/know/service.md#before-an-import)."""


@check(70, DROPPED, needs="project")
def check_dropped(target: Target) -> Check:
    """Would the project drop events of the plan for their age?"""
    project, planned = target.found.project or {}, target.planned
    if SETTING not in project:
        hint = "look in the project's settings whether old events are dropped"
        return Check(DROPPED, "unknown", f"the project does not show its setting {SETTING}", hint)
    seconds = project[SETTING]
    if seconds is None:
        return Check(DROPPED, "ok", "the project drops no event for its age")
    if type(seconds) is not int or seconds < 0:
        return Check(DROPPED, "unknown", f"the project's setting {SETTING} is no number: {str(seconds)[:40]}")
    hint = "take the setting away in the project before the import; dropped events are gone without an error"
    setting = f"{pluralize(seconds, 'second')} ({seconds / 86400:,.1f} days; {SETTING})"
    if planned is None:
        return Check(DROPPED, "warning", f"the project drops events older than {setting}", hint)
    try:
        edge = target.clock.now - timedelta(seconds=seconds)
    except OverflowError:
        return Check(DROPPED, "ok", f"the project drops events older than {setting}; the plan has none")
    older = _until(planned, edge.date())
    if not older:
        return Check(DROPPED, "ok", f"the project drops events older than {setting}; the plan has none")
    events = sum(planned.days.values())
    detail = f"the project would drop up to {older:,} of {pluralize(events, 'event')}, as older than {setting}"
    return Check(DROPPED, "stop", detail, hint)


@check(120, RECENT)
def check_recent(target: Target) -> Check | None:
    """Are there events that are too young to be historical?"""
    planned = target.planned
    if planned is None:
        return None
    edge = (target.clock.now - HISTORICAL).date()
    young = sum(count for day, count in planned.days.items() if date.fromisoformat(day) >= edge)
    exact = sum(count for day, count in planned.days.items() if date.fromisoformat(day) > edge)
    if not young:
        return Check(RECENT, "ok", "every event is older than 48 hours")
    if not exact:
        detail = (
            f"{pluralize(young, 'event')} {are(young)} of {edge} and may be younger than 48 hours still, and billed"
        )
    else:
        detail = f"at least {pluralize(exact, 'event')} {are(exact)} younger than 48 hours, and may be billed"
    return Check(RECENT, "warning", detail, "plan without --allow-recent, or with an earlier --until")


@check(130, SIZE)
def check_size(target: Target) -> Check | None:
    """Is it so much that the service wants to be asked first?"""
    planned = target.planned
    if planned is None:
        return None
    amount = f"{pluralize(planned.events, 'event')}, {_size(planned.bytes)}"
    if planned.events > MOST_EVENTS or planned.bytes > MOST_BYTES:
        detail = f"{amount}: above 200 million events or 100 GB the service asks to be told first"
        return Check(SIZE, "warning", detail, "write to the service's support before the import")
    return Check(SIZE, "ok", amount)


def _size(length: int) -> str:
    """Bytes in the largest unit of which there is one."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if length >= factor:
            return f"{length / factor:,.1f} {unit}"
    return pluralize(length, "byte")


def _until(planned: PlannedEvents, edge: date) -> int:
    """Events of days up to and with this one."""
    return sum(count for day, count in planned.days.items() if date.fromisoformat(day) <= edge)


@check(100, PLAN)
def check_plan(target: Target) -> Check | None:
    """Is the plan ready, and made for this target?"""
    plan = target.plan
    if plan is None:
        return None
    if not plan.ready:
        stops = "; ".join(gate.detail for gate in plan.gates if gate.level == "stop")
        return Check(PLAN, "stop", f"the plan is not ready: {stops}", "mend that and plan again")
    if plan.target and address_of(plan.target) != address_of(target.request.to):
        return Check(
            PLAN, "warning", f"the plan was made for {plan.target}", f"plan again with --for {target.request.to}"
        )
    return Check(PLAN, "ok", plan.sentence)


@check(110, DIALECT)
def check_dialect(target: Target) -> Check | None:
    """Does the plan spell events as the target reads them?"""
    plan, to = target.plan, target.request.to
    if plan is None:
        return None
    try:
        if plan.ready:
            check_applicable(plan, to)
    except UnsafePlan as error:
        return Check(DIALECT, "stop", error.message, error.hint)
    speaks = f"the plan speaks {plan.options.dialect!r}"
    return Check(DIALECT, "ok", f"{speaks}, as the target does" if plan.options.dialect == dialect_of(to) else speaks)
