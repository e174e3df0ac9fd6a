"""Rules of age and size: what is dropped after the 200, and what may cost money.

A project's `drop_events_older_than_seconds` drops older events without a word to the sender, historical ones too; an
event younger than 48 hours may be billed whatever its flag (docs/know/service.md#historical-migration).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pipeline.preflight.check import Check
from pipeline.preflight.planned import Planned
from pipeline.text import are, pluralize

DROPPED = "dropped_events"
RECENT = "recent_events"
SIZE = "size"
SETTING = "drop_events_older_than_seconds"
HISTORICAL = timedelta(hours=48)
MOST_EVENTS = 200_000_000
MOST_BYTES = 100_000_000_000
"""Above these the service asks to be told first (docs/know/service.md#before-an-import)."""


def check_dropped(project: Mapping[str, Any], planned: Planned | None, now: datetime) -> Check:
    """Would the project drop events of the plan for their age? `now` is the service's clock."""
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
        edge = now - timedelta(seconds=seconds)
    except OverflowError:
        return Check(DROPPED, "ok", f"the project drops events older than {setting}; the plan has none")
    older = _until(planned, edge.date())
    if not older:
        return Check(DROPPED, "ok", f"the project drops events older than {setting}; the plan has none")
    events = sum(planned.days.values())
    detail = f"the project would drop up to {older:,} of {pluralize(events, 'event')}, as older than {setting}"
    return Check(DROPPED, "stop", detail, hint)


def check_recent(planned: Planned, now: datetime) -> Check:
    """Are there events that are too young to be history? `now` is the service's clock."""
    edge = (now - HISTORICAL).date()
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


def check_size(planned: Planned) -> Check:
    """Is it so much that the service wants to know first?"""
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


def _until(planned: Planned, edge: date) -> int:
    """Events of days up to and with this one."""
    return sum(count for day, count in planned.days.items() if date.fromisoformat(day) <= edge)


def service_now(now: datetime, there: datetime | None) -> datetime:
    """The service's clock where it was told, else ours."""
    return (there or now).astimezone(UTC)
