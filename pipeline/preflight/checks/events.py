"""The plan against the target: its state and dialect, the rules of age and size, and how long sending takes at least.

A project's `drop_events_older_than_seconds` drops older events without an error, even historical ones; an
event younger than 48 hours may be billed whatever its flag (docs/know/service.md#historical-migration).
"""

from __future__ import annotations

from datetime import date, timedelta

from pipeline.errors import UnsafePlan
from pipeline.options import ApplyOptions
from pipeline.plan.sealed.freshness import check_dialect as refuse_other_dialect
from pipeline.plan.sealed.freshness import dialect_of
from pipeline.preflight.check import check
from pipeline.preflight.target import Target
from pipeline.report.records import Check
from pipeline.report.sections.effort import IMPORTERS_RATE, duration_text, least_requests, size_text
from pipeline.targets import address_of
from pipeline.text import are, pluralize

PLAN = "plan"
DIALECT = "dialect"
DROPPED = "dropped_events"
RECENT = "recent_events"
SIZE = "size"
DURATION = "duration"
SETTING = "drop_events_older_than_seconds"
HISTORICAL = timedelta(hours=48)
MOST_EVENTS = 200_000_000
MOST_BYTES = 100_000_000_000
"""Above these numbers, the service asks for a notice first (docs/know/service.md#before-an-import)."""
MEGABITS = 10
"""The upload speed for which the time for the bytes is given; the real one is unknown before something is sent."""


@check(70, DROPPED, needs="project")
def check_dropped(target: Target) -> Check:
    """Would the project drop events of the plan because of their age?"""
    project, planned = target.project.record or {}, target.planned
    if SETTING not in project:
        hint = "check in the project's settings whether old events are dropped"
        return Check(DROPPED, "unknown", f"the project does not show its setting {SETTING}", hint)
    seconds = project[SETTING]
    if seconds is None:
        return Check(DROPPED, "ok", "the project drops no events because of their age")
    if type(seconds) is not int or seconds < 0:
        return Check(DROPPED, "unknown", f"the project's setting {SETTING} is not a number: {str(seconds)[:40]}")
    hint = "remove the setting in the project before the import; it drops events without an error"
    setting = f"{pluralize(seconds, 'second')} ({seconds / 86400:,.1f} days; {SETTING})"
    if planned is None:
        return Check(DROPPED, "warning", f"the project drops events older than {setting}", hint)
    try:
        oldest = (target.clock.now - timedelta(seconds=seconds)).date()
        older = sum(count for day, count in planned.days.items() if date.fromisoformat(day) <= oldest)
    except OverflowError:
        older = 0
    if not older:
        return Check(DROPPED, "ok", f"the project drops events older than {setting}; the plan has none")
    events = sum(planned.days.values())
    detail = (
        f"the project would drop up to {older:,} of {pluralize(events, 'event')}, because they are older than {setting}"
    )
    return Check(DROPPED, "stop", detail, hint, {"events": older})


@check(120, RECENT)
def check_recent(target: Target) -> Check | None:
    """Are there events that are too recent to be historical?"""
    planned = target.planned
    if planned is None:
        return None
    first = (target.clock.now - HISTORICAL).date()
    counts = {date.fromisoformat(day): count for day, count in planned.days.items()}
    boundary, recent = counts.get(first, 0), sum(count for day, count in counts.items() if day > first)
    if not boundary and not recent:
        return Check(RECENT, "ok", "every event is older than 48 hours")
    if recent:
        detail = f"at least {pluralize(recent, 'event')} {are(recent)} younger than 48 hours, and may be billed"
    else:
        detail = (
            f"{pluralize(boundary, 'event')} {are(boundary)} from {first}, may still be younger than 48 hours, and be"
            " billed"
        )
    hint = "plan without --allow-recent, or with an earlier --until"
    return Check(RECENT, "warning", detail, hint, {"events": recent or boundary})


@check(130, SIZE)
def check_size(target: Target) -> Check | None:
    """Is the plan so large that the service asks for a notice first?"""
    planned = target.planned
    if planned is None:
        return None
    amount = f"{pluralize(planned.events, 'event')}, {size_text(planned.bytes)}"
    if planned.events > MOST_EVENTS or planned.bytes > MOST_BYTES:
        detail = f"{amount}: above 200 million events or 100 GB the service asks for a notice first"
        return Check(SIZE, "warning", detail, "write to the service's support before the import")
    return Check(SIZE, "ok", amount)


@check(135, DURATION)
def check_duration(target: Target) -> Check | None:
    """How long does it take, by requests, by events and by bytes?"""
    plan = target.plan
    if plan is None or not plan.events.made:
        return None
    requests, binding = least_requests(plan)
    parts = [f"at least {pluralize(requests, 'request')} ({binding})"]
    seconds: dict[str, float] = {}
    if target.capture_host is not None and target.capture_host.response.status:
        at_once = ApplyOptions.max_concurrency
        answer = target.capture_host.seconds
        seconds["requests"] = requests * answer / at_once
        parts.append(
            f"{duration_text(seconds['requests'])} by requests, {at_once} at a time, {answer * 1000:,.0f} ms each as"
            " the host answered now"
        )
    seconds["events"] = plan.events.made / IMPORTERS_RATE
    parts.append(
        f"{duration_text(seconds['events'])} by events, at --rate {IMPORTERS_RATE}, like the service's own importer"
    )
    seconds["bytes"] = plan.event_bytes * 8 / (MEGABITS * 1_000_000)
    size = size_text(plan.event_bytes)
    parts.append(f"{duration_text(seconds['bytes'])} by bytes, {size} before compression at {MEGABITS} Mbit/s")
    facts = {"requests": requests, "events": plan.events.made, "bytes": plan.event_bytes, "seconds": seconds}
    return Check(DURATION, "ok", "; ".join(parts), facts=facts)


@check(100, PLAN)
def check_plan(target: Target) -> Check | None:
    """Is the plan ready, and for this target?"""
    plan = target.plan
    if plan is None:
        return None
    if not plan.ready:
        stops = "; ".join(result.detail for result in plan.gates if result.level == "stop")
        return Check(PLAN, "stop", f"the plan is not ready: {stops}", "fix that and plan again; the report says how")
    if plan.target and address_of(plan.target) != address_of(target.request.to):
        hint = f"plan again with --for {target.request.to}"
        return Check(PLAN, "warning", f"the plan is for {plan.target}", hint)
    return Check(PLAN, "ok", plan.sentence)


@check(110, DIALECT)
def check_dialect(target: Target) -> Check | None:
    """Are the plan's events in the dialect of the target?"""
    plan, to = target.plan, target.request.to
    if plan is None:
        return None
    try:
        refuse_other_dialect(plan, to)
    except UnsafePlan as error:
        return Check(DIALECT, "stop", error.message, error.hint)
    suffix = ", like the target's" if plan.options.dialect == dialect_of(to) else ""
    return Check(DIALECT, "ok", f"the plan's dialect is {plan.options.dialect!r}{suffix}")
