"""Moments in queries of events: in UTC, whatever time zone the project has.

The query language reads a text without an offset, and gives `timestamp`, in the project's zone, and takes the day of
that (PostHog/posthog#26501, #23646). What is compared with a plan, whose days are UTC days, names UTC everywhere.
"""

from __future__ import annotations

from datetime import date

from pipeline.timestamps import format_utc, read_iso

UTC_DAY = "toDate(toTimeZone(timestamp, 'UTC'))"
"""The UTC day of an event, as an expression."""


def between(since: date | str, until: date | str) -> str:
    """The condition for events from the begin of one UTC day to before that of another; days as YYYY-MM-DD."""
    return f"timestamp >= {_begin(since)} and timestamp < {_begin(until)}"


def in_utc(answered: str) -> str:
    """A timestamp of an answer as UTC, like `2024-01-01T05:00:00Z`. Raises BadTime.

    One that is written in UTC stays as it is written: `2024-01-01 05:00:00`, with `T`, `Z` or `+00:00`.
    """
    if answered[19:].lstrip(".0123456789") in ("", "Z", "+00:00"):
        return answered
    return format_utc(read_iso(answered, space=True).us)


def _begin(day: date | str) -> str:
    return f"toDateTime('{day} 00:00:00', 'UTC')"
