"""Hints for an unknown time zone: never a zone of another offset, which would shift history."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

_ABBREVIATIONS = {
    "America/Los_Angeles": "PST PDT PT", "America/Denver": "MDT MT", "America/Chicago": "CST CDT CT",
    "America/New_York": "EDT ET", "America/Anchorage": "AKST AKDT", "America/Halifax": "AST ADT",
    "America/Sao_Paulo": "BRT", "America/Argentina/Buenos_Aires": "ART", "America/Bogota": "COT",
    "Europe/London": "BST", "Europe/Berlin": "CEST", "Europe/Helsinki": "EEST", "Europe/Lisbon": "WEST",
    "Europe/Moscow": "MSK", "Europe/Istanbul": "TRT", "Africa/Lagos": "WAT", "Africa/Johannesburg": "SAST",
    "Africa/Nairobi": "EAT", "Asia/Dubai": "GST", "Asia/Karachi": "PKT", "Asia/Kolkata": "IST",
    "Asia/Jakarta": "WIB", "Asia/Singapore": "SGT", "Asia/Hong_Kong": "HKT", 
    "Asia/Tokyo": "JST", "Asia/Seoul": "KST", "Australia/Sydney": "AEST AEDT", "Australia/Perth": "AWST",
    "Australia/Adelaide": "ACST ACDT", "Pacific/Auckland": "NZST NZDT",
}  # fmt: skip
"""Abbreviations, which are not zone names; some belong to several zones, so the hint names a city as an example."""
CITIES = {short: city for city, shorts in _ABBREVIATIONS.items() for short in shorts.split()}
_OFFSET = re.compile(r"(?:UTC|GMT|Z)?\s*([+-])\s*(\d{1,2})(?::?([0-5]\d))?", re.ASCII | re.IGNORECASE)
_ANY_CITY = "use the IANA name of a city's zone, such as Europe/Berlin"


def zone_hint(name: str, names: Collection[str]) -> str:
    """What to write instead of `name`, which is not among `names`."""
    if (city := CITIES.get(name.strip().upper())) is not None:
        return f"an abbreviation is not a zone: name a city's zone, such as {city!r} if you mean that"
    if (offset := _OFFSET.fullmatch(name.strip())) is not None:
        return _of_offset(offset[1], int(offset[2]), int(offset[3] or 0), names)
    by_name = {zone.lower(): zone for zone in names}
    by_city = {
        zone.rsplit("/", 1)[1].lower(): zone for zone in sorted(names) if "/" in zone and not zone.startswith("Etc/")
    }
    lowered = name.strip().lower().replace(" ", "_")
    nearest = by_name.get(lowered) or by_city.get(lowered)
    if nearest is None and len(lowered) > 4:  # shorter names are close to anything
        matches = difflib.get_close_matches(lowered, by_name if "/" in lowered else by_city, n=1, cutoff=0.75)
        nearest = (by_name if "/" in lowered else by_city)[matches[0]] if matches else None
    return f"did you mean {nearest!r}?" if nearest is not None else _ANY_CITY


def _of_offset(sign: str, hours: int, minutes: int, names: Collection[str]) -> str:
    written = f"UTC{sign}{hours}" + (f":{minutes:02d}" if minutes else "")
    fixed = "Etc/UTC" if not hours and not minutes else f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
    city = "a city's zone also knows summer time"
    if minutes or fixed not in names:
        return f"{written} is an offset, not a zone; {city}, such as Asia/Kolkata for UTC+5:30"
    turned = "; its sign is the other way round on purpose" if hours else ""
    return f"{written} all the year is {fixed!r}{turned}; {city}, such as Europe/Berlin"
