"""How fast to send, by time of day: `--rate` and `--quiet-hours` as people write them.

5000                          events a second
2MB                           bytes a second, of requests as they travel
5000,2MB,500@08:00-18:00      both, but only 500 events a second from 08:00 to 18:00
22:00-06:00                   hours; if they end before they begin, they run past midnight
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.errors import UsageError

UNITS = {"kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
EVENTS, BYTES = "events", "bytes"
DAY_MINUTES = 24 * 60
_LIMIT = re.compile(r"(\d+(?:\.\d+)?)(kB|MB|GB)?(?:@(.+))?")
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")


class Hours(NamedTuple):
    """The same hours of every day, in minutes from midnight: from `first` until `last`."""

    first: int
    last: int

    def left(self, minute: float) -> float:
        """Minutes until these hours end; 0 outside them."""
        since = (minute - self.first) % DAY_MINUTES
        length = (self.last - self.first) % DAY_MINUTES or DAY_MINUTES
        return max(0.0, length - since)


class RateLimit(NamedTuple):
    """At most `most` units (EVENTS or BYTES) a second, in these hours; None: in hours without a limit of their own."""

    most: float
    unit: str = EVENTS
    hours: Hours | None = None


def read_limits(text: str | float) -> tuple[RateLimit, ...]:
    """The limits of `--rate`. Raises UsageError."""
    found: list[RateLimit] = []
    for one in str(text).replace("_", "").split(","):
        match = _LIMIT.fullmatch(one.strip())
        if match is None or not float(match[1]):
            raise UsageError(f"{one.strip()!r} is not a rate", hint="write 5000, 2MB or 5000,500@08:00-18:00")
        hours = None if match[3] is None else read_hours(match[3])[0]
        limit = RateLimit(float(match[1]) * UNITS.get(match[2], 1), BYTES if match[2] else EVENTS, hours)
        if any((limit.unit, limit.hours) == (other.unit, other.hours) for other in found):
            raise UsageError(
                f"{one.strip()!r} is a second rate for the same hours", hint="give one rate for each span of hours"
            )
        found.append(limit)
    return tuple(found)


def read_rate(text: str) -> float | str:
    """A rate that `read_limits` can read: a number if it is a single limit of events. Raises UsageError."""
    limits = read_limits(text)
    return limits[0].most if len(limits) == 1 and limits[0] == RateLimit(limits[0].most) else text


def read_hours(text: str) -> tuple[Hours, ...]:
    """One or more spans such as `08:00-18:00`, separated by commas. Raises UsageError."""
    found = []
    for one in text.split(","):
        match = _HOURS.fullmatch(one.strip())
        hours = None if match is None else Hours(*(int(match[at]) * 60 + int(match[at + 1]) for at in (1, 3)))
        if hours is None or not (hours.last - hours.first) % DAY_MINUTES or hours.last > DAY_MINUTES:
            raise UsageError(f"{one.strip()!r} is not a span of hours", hint="write 08:00-18:00 or 22:00-06:00")
        found.append(hours)
    if all(any(hours.left(minute) for hours in found) for minute in range(DAY_MINUTES)):
        raise UsageError(f"{text!r} covers the whole day", hint="leave some hours for sending")
    return tuple(found)


def checked_hours(text: str) -> str:
    """The text itself, once `read_hours` has read it. Raises UsageError."""
    read_hours(text)
    return text


def slowest(limits: Sequence[RateLimit], unit: str) -> float | None:
    """The lowest limit of a unit; None if it has no limit."""
    return min((limit.most for limit in limits if limit.unit == unit), default=None)
