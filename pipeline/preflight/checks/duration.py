"""How long sending takes at least, by each of its limits."""

from __future__ import annotations

from pipeline.options import ApplyOptions
from pipeline.preflight.check import check
from pipeline.preflight.target import Target
from pipeline.report.records import Check
from pipeline.report.sections.effort import IMPORTERS_RATE, duration_text, least_requests, size_text
from pipeline.text import pluralize

DURATION = "duration"
MEGABITS = 10
"""The upload speed for which the time for the bytes is given; the real one is unknown before something is sent."""


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
