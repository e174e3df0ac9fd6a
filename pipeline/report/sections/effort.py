"""What sending takes: requests, bytes, time, and events that are billed; on the first screen of the page."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.plan.manifest import Plan
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_first_screen
from pipeline.text import are, pluralize

EXAMPLE_RATE = 1_000


@on_first_screen(90, "effort")
def effort(report: Report) -> Values:
    """Each line with its name; nothing for a plan that sends nothing."""
    lines = lines_of(report)
    return {"lines": lines} if lines else None


def lines_of(report: Report) -> list[tuple[str, str]]:
    """Requests, bytes and duration, each with what it is known from."""
    plan, rehearsal = report.plan, report.results.rehearsal
    if not plan.events.made:
        return []
    requests, binding = _requests(plan)
    lines = [("requests", f"at least {requests:,}: {binding}")]
    if rehearsal is not None and rehearsal.batches.made:
        lines = [("requests", f"{rehearsal.batches.made:,}, as rehearsed")]
    lines.append(("bytes", f"{_size(plan.event_bytes)} of events, before compression"))
    if rehearsal is not None and rehearsal.seconds:
        rate = rehearsal.events.made / rehearsal.seconds
        text = f"{_duration(rehearsal.seconds)} in the rehearsal ({rate:,.0f} events a second on this machine)"
        lines.append(("duration", text))
    given = _duration(plan.events.made / EXAMPLE_RATE)
    lines.append(("at a given rate", f"{given} with apply --rate {EXAMPLE_RATE}"))
    if recent := plan.warnings.get("recent_timestamp", 0):
        lines.append(
            ("billed", f"{pluralize(recent, 'event')} {are(recent)} under 48 hours old, billed as live events")
        )
    return lines


def _requests(plan: Plan) -> tuple[int, str]:
    """The least number of requests, and which limit binds. A request never has events of two blocks."""
    limits = plan.limits
    by_count = sum(-(-count // limits.batch_events) for count in plan.events.phases.values())
    least: Mapping[str, int] = {
        f"at most {limits.batch_events:,} events in each": by_count,
        f"at most {_size(limits.batch_bytes)} in each": -(-plan.event_bytes // limits.batch_bytes),
        "one or more for each 4 MiB of the export": plan.blocks,
    }
    binding = max(least, key=lambda name: least[name])
    return least[binding], binding


def _size(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:,.1f} {unit}".replace(".0 ", " ")
    return pluralize(number, "byte")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3_600:
        return f"{seconds / 60:,.0f} min"
    return f"{seconds / 3_600:,.1f} h"
