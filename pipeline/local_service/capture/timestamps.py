"""When an event happened, as the real service decides it (docs/know/service.md#timestamps).

All instants are whole microseconds since 1970 (UTC); finer fractions are cut off. Nothing here fails: a time that
cannot be read becomes the service's current time, which is why a migration must never send one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from pipeline.local_service.ingestion_warnings import ANCIENT_TIMESTAMP, BAD_TIMESTAMP, FUTURE_TIMESTAMP, NO_TIMESTAMP

SECOND = 1_000_000
DAY = 86_400 * SECOND
FUTURE_CUTOFF = 23 * 3600 * SECOND
"""How far ahead of the service's clock an event may be before it is set to the current time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_FIRST = -62_167_219_200 * SECOND
_LAST = 253_402_300_800 * SECOND
"""Years 0 to 9999, half-open: times outside become 1970-01-01."""

_RFC3339 = re.compile(r"(?!0000)\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII).fullmatch
_DATE = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
_SLASHED = r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})"
_AMERICAN = r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4}|\d\d)"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
_AM_PM = r"(?:\s*(?P<am_pm>am|pm|AM|PM))?"
_ZONE = r"(?:\s*(?P<zone>[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d)?))?"
_FORMS = [
    re.compile(form, re.ASCII).fullmatch
    for form in (
        _DATE + r"[Tt]" + _CLOCK + _ZONE,
        _DATE + r"\s+" + _CLOCK + _AM_PM + _ZONE,
        _DATE,
        _SLASHED + r"(?:\s+" + _CLOCK + _AM_PM + r")?",
        _AMERICAN + r"(?:\s+" + _CLOCK + _AM_PM + r")?",
    )
]
_RFC2822 = re.compile(
    r"(?:[A-Za-z]{3},\s*)?\d{1,2}\s+[A-Za-z]{3}\s+\d{4}\s+\d\d:\d\d(?::\d\d)?\s+(?:[+-]\d{4}|[A-Z]{1,3})",
    re.ASCII,
).fullmatch
_EPOCH_DIGITS = {10: 1, 13: 1_000, 19: 1_000_000_000}
"""Ten digits are seconds, thirteen milliseconds, nineteen nanoseconds."""


def stored_instant(text: str | None, offset: int | None, sent_at: int | None, now: int) -> tuple[int, str]:
    """The instant that is stored for an event, and the type of warning about its time ("" for none).

    `text` is the event's `timestamp`, `offset` its age in milliseconds (which wins over `text`), `sent_at`
    the client's clock when it sent (None also when the event asks to ignore it), `now` the service's clock.
    """
    instant, problem = now, NO_TIMESTAMP
    if text is not None:
        parsed = parse_timestamp(text, now)
        if parsed is None:
            problem = BAD_TIMESTAMP
        else:
            instant, problem = parsed if sent_at is None else parsed - (sent_at - now), ""
    if offset is not None:
        instant, problem = now - offset * 1000, ""
    if instant - now > FUTURE_CUTOFF + 999:  # the service compares whole milliseconds
        return now, FUTURE_TIMESTAMP
    if _FIRST <= instant < _LAST:
        return instant, problem
    return 0, ANCIENT_TIMESTAMP


def parse_timestamp(text: str, now: int) -> int | None:
    """The instant a `timestamp` text means, or None if the service cannot read it.

    A date without a time of day gets the current time of day, as in the service's date library: such an event moves
    each time it is sent, though never out of its day.
    """
    strict = parse_rfc3339(text)
    if strict is not None:
        return strict
    # A leap second or an impossible date is left to the formats below.
    if text.isascii() and text.isdigit():
        divisor = _EPOCH_DIGITS.get(len(text))
        return None if divisor is None else int(text) * SECOND // divisor
    for form in _FORMS:
        match = form(text)
        if match is not None:
            return _instant(match.groupdict(), now)
    if _RFC2822(text):
        try:
            when = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return (when - _EPOCH) // _MICRO
    return None


def parse_rfc3339(text: str) -> int | None:
    """The instant of an RFC 3339 time with a zone; None for any other text."""
    if _RFC3339(text):
        try:
            return (datetime.fromisoformat(text) - _EPOCH) // _MICRO
        except (ValueError, OverflowError):
            return None
    return None


def parse_sent_at(text: str) -> int | None:
    """`sent_at` of a batch: ISO 8601 with a zone; anything else is ignored (docs/know/service.md#timestamps)."""
    match = _FORMS[0](text)
    return _instant(match.groupdict(), 0) if match is not None and match["zone"] is not None else None


def _instant(fields: dict[str, str | None], now: int) -> int | None:
    """The instant of a format's named groups; None for a date or a time that does not exist."""
    year, month, day = (int(fields[name] or 0) for name in ("year", "month", "day"))
    if len(fields["year"] or "") == 2:
        year += 2000 if year < 69 else 1900
    try:  # shifted by one calendar cycle and back, so that year 0 works
        days = datetime(year + 400 if year < 400 else year, month, day).toordinal() - 719_163
    except ValueError:
        return None
    if year < 400:
        days -= 146_097
    if fields.get("hour") is None:
        return days * DAY + now % DAY
    hour, minute, second = (int(fields[name] or 0) for name in ("hour", "minute", "second"))
    am_pm = fields.get("am_pm")
    if am_pm is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if am_pm in ("pm", "PM") else 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    fraction = int((fields["fraction"] or "0").ljust(6, "0")[:6])
    shift = _zone_minutes(fields.get("zone"))
    if shift is None:
        return None
    return days * DAY + ((hour * 60 + minute - shift) * 60 + second) * SECOND + fraction


def _zone_minutes(zone: str | None) -> int | None:
    """Minutes east of UTC; no zone is UTC; None for an offset that does not exist."""
    if zone is None or zone in ("Z", "z", "UTC", "GMT"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-1 if zone[0] == "-" else 1)
