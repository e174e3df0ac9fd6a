"""The instant of a string, by its form and its zone, and the zones that a set of receive times allows.

By the standard library: `strptime` reads forms, `zoneinfo` knows the clocks. Instants are microseconds since 1970.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

Zones = list[tuple[date, str]]
"""The zone from each day on, the first from `date.min` (docs/use/your-export.md, "Time zones")."""


def micros(moment: datetime) -> int:
    """The instant of a time with a zone."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def wall(text: str, form: str) -> datetime | None:
    """The time that a string shows in a form; None if it shows none. It refuses what strptime refuses, and what
    strptime accepts without checking: an hour that contradicts its AM or PM, and 13 digits for `%Y%m%d%H%M%S`."""
    text = text.strip()
    try:
        moment = datetime.strptime(text, form)
    except ValueError:
        return None
    half = "%H" in form and "%p" in form and ("am" if moment.hour < 12 else "pm") not in text.lower()
    return None if half or (form == "%Y%m%d%H%M%S" and len(text) != 14) else moment


def iso(text: str) -> datetime | None:
    """The time of an ISO 8601 string, with a space for the T, ` UTC` or ` +0000` too (mapping-reference.md, `time`). A
    date by itself is not a time, since nothing is defaulted (docs/know/promises.md); digits below a microsecond are
    dropped."""
    try:
        read = re.sub(r" (?=[+-])", "", re.sub(" ?(UTC|Z)$", "+00:00", text))
        return datetime.fromisoformat(read) if len(text) > 10 else None
    except ValueError:
        return None


def number(text: str, unit: str) -> int:
    """The instant of a number of s, ms, us or ns, exact to the microsecond (mapping-reference.md, `time`)."""
    return int(Decimal(text).scaleb({"s": 6, "ms": 3, "us": 0, "ns": -3}[unit]))


def zone_on(zones: Zones, moment: datetime) -> ZoneInfo:
    """The zone of a local time: that of the last change on or before its day."""
    return ZoneInfo(next(name for day, name in reversed(zones) if day <= moment.date()))


def localized(moment: datetime, zones: Zones, received: int | None = None) -> tuple[int, str]:
    """The instant of a time, local if it has no offset, and the code of its warning. A repeated time is the first,
    unless the receive time shows the second; a skipped one is read as before the change (docs/know/exports.md)."""
    local = moment if moment.tzinfo else moment.replace(tzinfo=zone_on(zones, moment))
    first, second = micros(local.replace(fold=0)), micros(local.replace(fold=1))
    if first >= second:  # in the skipped hour the later offset gives the earlier instant
        return first, "nonexistent_time" if first > second else ""
    return (second if received is not None and received >= second else first), "ambiguous_time"


def allowed(rows: Iterable[tuple[datetime, int]], zones: Zones) -> bool | None:
    """Whether rows (local time, instant of receipt) allow these zones. A day contradicts them if its most frequent
    offset, to a quarter of an hour, is not the zone's (docs/use/sources/mixpanel.md, but by day, so that a clock change
    within a month does not hide any). Rows count together if they are off by the same offset, which is not true of late
    rows; None if there are few rows."""
    days: defaultdict[date, Counter[int]] = defaultdict(Counter)
    for moment, received in rows:
        local = moment.replace(tzinfo=zone_on(zones, moment))
        apart = [round((micros(local.replace(fold=fold)) - received + 30_000_000) / 900_000_000) for fold in (0, 1)]
        days[moment.date()][min(apart, key=abs)] += 1
    against = Counter[int]()
    for counts in days.values():
        off, count = counts.most_common(1)[0]
        against[off] += count * (count > counts[0])
    most = max(against.values(), default=0)
    return None if 4 <= most <= 12 else most < 4
