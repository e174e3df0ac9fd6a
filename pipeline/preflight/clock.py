"""This machine's clock against the service's.

Age decides whether an event is historical: under 48 hours it may be billed (docs/know/service.md#historical-migration),
and a plan reads the age off this machine's clock.
"""

from __future__ import annotations

import email.utils
from datetime import UTC, datetime

from pipeline.preflight.check import Check

NAME = "clock"
CLOSE = 60
"""Seconds that do not matter: a `Date` is written in whole seconds and an answer takes a while."""
MOST = 24 * 3600
"""Seconds beyond which no age holds: capture's own window for history is 24 hours
(docs/know/service.md#historical-migration)."""


def moment_of(date: str) -> datetime | None:
    """What a `Date` header says; None where it says no time."""
    try:
        moment = email.utils.parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def check_clock(date: str, now: datetime) -> Check:
    """Compare the `Date` of an answer with our clock when it came."""
    there = moment_of(date)
    if there is None:
        return Check(NAME, "unknown", "no answer told the time there")
    ahead = (now - there).total_seconds()
    if abs(ahead) <= CLOSE:
        return Check(NAME, "ok", "this machine's clock and the service's agree")
    detail = f"this machine's clock is {_length(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the service's"
    hint = "set this machine's clock, then plan again: a plan reads the age of events off it"
    return Check(NAME, "stop" if abs(ahead) > MOST else "warning", detail, hint)


def _length(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
