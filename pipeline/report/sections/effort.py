"""What sending takes: requests, bytes, time, and events that are billed; on the first screen of the page."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import MeasuredRate, Report, rehearsal_rate, sending_rate
from pipeline.report.registry import Values, on_first_screen
from pipeline.text import are, pluralize

IMPORTERS_RATE = 1_000
"""Events a second that the service's own importer sends (docs/know/service.md#own-importer)."""
_UNKNOWN = "an estimate: the real rate is unknown until something is sent"
_HOT_MINUTES = re.compile(r"at least ([\d,]+) minutes", re.ASCII)


@on_first_screen(90, "effort")
def effort(report: Report) -> Values:
    """Each line with its name; nothing for a plan that sends nothing."""
    lines = lines_of(report)
    return {"lines": lines} if lines else None


def lines_of(report: Report) -> list[tuple[str, str]]:
    """Requests, bytes and duration, each with what it is known from, and the limit that the duration comes from."""
    plan, rehearsal, applied = report.plan, report.results.rehearsal, report.results.applied
    if not plan.events.made:
        return []
    requests, binding = least_requests(plan)
    lines = [("requests", f"at least {requests:,}: {binding}")]
    if applied is not None and not applied.events.unsent:
        lines = [("requests", f"{applied.batches.sent:,}, as sent")]
    elif rehearsal is not None and rehearsal.batches.sent:
        lines = [("requests", f"{rehearsal.batches.sent:,}, as rehearsed")]
    lines.append(("bytes", f"{size_text(plan.event_bytes)} of events, before compression"))
    lines += _duration_lines(report, plan)
    if recent := plan.warnings.get("recent_timestamp", 0):
        lines.append(
            ("billed", f"{pluralize(recent, 'event')} {are(recent)} under 48 hours old, billed as live events")
        )
    return lines


def _duration_lines(report: Report, plan: Plan) -> list[tuple[str, str]]:
    """How long sending takes, or took, at which rate, and which limit that is."""
    applied = report.results.applied
    found = measured(report)
    if applied is not None and not applied.events.unsent and not applied.events.in_doubt:
        if found is None:
            return []
        took = f"{duration_text(plan.events.made / found.events)}, {_rate(found.events)}"
        return [("duration", took), ("limit", _limit(found))]
    left = plan.events.made if applied is None else applied.events.unsent + applied.events.in_doubt
    rest = "" if applied is None else " for the rest"
    hot = _HOT_MINUTES.search(plan.examples["hot_distinct_id"].detail) if "hot_distinct_id" in plan.examples else None
    rate = IMPORTERS_RATE if found is None or found.step == "rehearsed" else found.events
    seconds = 60.0 * int(hot[1].replace(",", "")) * left / plan.events.made if hot is not None else 0.0
    usual = f"{duration_text(left / IMPORTERS_RATE)}{rest} at {_rate(IMPORTERS_RATE)}"
    if seconds > left / rate:
        duration = f"at least {duration_text(seconds)}{rest}, for the events of one id"
        why = "the service updates no person of an id with over 5,000 events a minute"
        limit = f"{why}, so apply sends no more (--per-id)"
    elif found is None:
        duration, limit = usual, _UNKNOWN
    elif found.step == "rehearsed":
        at = "" if found.plan == report.name else f" at the rate of {found.plan}"
        duration = f"{usual}; the rehearsal took {duration_text(left / found.events)}{at}"
        limit = _UNKNOWN
    else:
        duration, limit = f"{duration_text(left / found.events)}{rest} at {_rate(found.events)}", _limit(found)
    return [("duration", duration), ("limit", limit)]


def measured(report: Report) -> MeasuredRate | None:
    """The rate for the estimate: of this plan's sending, of an earlier one to the same target, of a rehearsal."""
    own = sending_rate(report.rate, report.name) if report.rate is not None else None
    if own is not None:
        return own
    if report.earlier is not None and report.earlier.step == "sent":
        return report.earlier
    return rehearsal_rate(report.results.rehearsal, report.name) or report.earlier


def _limit(found: MeasuredRate) -> str:
    """What the rate was limited by, as far as it shows."""
    if found.step == "rehearsed":
        return f"this machine, in the rehearsal of {found.plan}; a target further away is slower"
    if found.failed:
        return f"the target: when {found.plan} was sent, {pluralize(found.failed, 'request')} failed at first"
    return f"this machine, its connection or --rate: no request failed when {found.plan} was sent"


def _rate(events: float) -> str:
    return f"{events:,.0f} events a second"


def least_requests(plan: Plan) -> tuple[int, str]:
    """The least number of requests, and which limit binds. A request never has events of two blocks."""
    limits = plan.limits
    by_count = sum(-(-count // limits.batch_events) for count in plan.events.phases.values())
    least: Mapping[str, int] = {
        f"at most {limits.batch_events:,} events in each": by_count,
        f"at most {size_text(limits.batch_bytes)} in each": -(-plan.event_bytes // limits.batch_bytes),
        "one or more for each file, and for each 4 MiB of it": plan.blocks,
    }
    binding = max(least, key=lambda name: least[name])
    return least[binding], binding


def size_text(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:,.1f} {unit}".replace(".0 ", " ")
    return pluralize(number, "byte")


def duration_text(seconds: float) -> str:
    """Seconds in the unit that says most."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3_600:
        return f"{seconds / 60:,.0f} min"
    return f"{seconds / 3_600:,.1f} h"
