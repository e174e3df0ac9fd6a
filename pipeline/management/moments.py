"""Moments in queries of events: always in UTC, whatever the project's time zone.

The query language reads a string without an offset in the project's zone, returns `timestamp` in that zone, and takes
its day there (PostHog/posthog#26501, #23646). A plan's days are UTC days, so queries compared with it name UTC.
"""

from __future__ import annotations

from datetime import date

from pipeline.timestamps import format_utc, read_iso

UTC_DAY = "toDate(toTimeZone(timestamp, 'UTC'))"
"""The UTC day of an event, as an expression."""


def between(since: date | str, until: date | str) -> str:
    """The condition for events from the start of one UTC day until before another; days as YYYY-MM-DD."""
    return f"timestamp >= {_begin(since)} and timestamp < {_begin(until)}"


def in_utc(answered: str) -> str:
    """A timestamp from an answer in UTC, like `2024-01-01T05:00:00Z`. Raises BadTime.

    A timestamp that is already in UTC is returned unchanged: `2024-01-01 05:00:00`, with `T`, `Z` or `+00:00`.
    """
    if answered[19:].lstrip(".0123456789") in ("", "Z", "+00:00"):
        return answered
    return format_utc(read_iso(answered, space=True).us)


def _begin(day: date | str) -> str:
    return f"toDateTime('{day} 00:00:00', 'UTC')"
