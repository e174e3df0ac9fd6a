"""What to write instead of a time zone that nobody knows: never a zone of another offset, which would shift history."""

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
"""Abbreviations that are no names of zones; several places use some of them, so a city is asked for all the same."""
CITIES = {short: city for city, known in _ABBREVIATIONS.items() for short in known.split()}
_OFFSET = re.compile(r"(?:UTC|GMT|Z)?\s*([+-])\s*(\d{1,2})(?::?([0-5]\d))?", re.ASCII | re.IGNORECASE)
_ANY_CITY = "use the IANA name of a city's zone, such as Europe/Berlin"


def zone_hint(name: str, known: Collection[str]) -> str:
    """What to write instead of `name`, which is none of the `known` names."""
    if (city := CITIES.get(name.strip().upper())) is not None:
        return f"an abbreviation is no zone: name a city's, such as {city!r} if that is meant"
    if (offset := _OFFSET.fullmatch(name.strip())) is not None:
        return _of_offset(offset[1], int(offset[2]), int(offset[3] or 0), known)
    by_small = {one.lower(): one for one in known}
    by_city = {one.rsplit("/", 1)[1].lower(): one for one in sorted(known) if "/" in one and not one.startswith("Etc/")}
    small = name.strip().lower().replace(" ", "_")
    near = by_small.get(small) or by_city.get(small)
    if near is None and len(small) > 4:  # shorter ones are near to anything
        found = difflib.get_close_matches(small, by_small if "/" in small else by_city, n=1, cutoff=0.75)
        near = (by_small if "/" in small else by_city)[found[0]] if found else None
    return f"did you mean {near!r}?" if near is not None else _ANY_CITY


def _of_offset(sign: str, hours: int, minutes: int, known: Collection[str]) -> str:
    written = f"UTC{sign}{hours}" + (f":{minutes:02d}" if minutes else "")
    fixed = "Etc/UTC" if not hours and not minutes else f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
    city = "a city's zone also knows summer time"
    if minutes or fixed not in known:
        return f"{written} is an offset, no zone; {city}, such as Asia/Kolkata for UTC+5:30"
    turned = "; its sign is the other way round on purpose" if hours else ""
    return f"{written} all the year is {fixed!r}{turned}; {city}, such as Europe/Berlin"
