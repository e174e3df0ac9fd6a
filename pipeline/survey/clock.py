"""Read the times in a field of an unknown tool: ISO 8601, a number whose size shows its unit, or a custom format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from pipeline import values
from pipeline.mapper.codegen.timeformat import TimeFormat
from pipeline.timestamps import BadTime, Reading, read_epoch, read_iso
from pipeline.values import Value

_FROM, _TO = 946_684_800, 4_102_444_800
"""2000 and 2100 in seconds since 1970: a number in this range is a time; other numbers are amounts and ids."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
ENOUGH, MOSTLY = 0.9, 0.5
"""The share of a field's values that must be times in one unit; the second applies if its name suggests times."""
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999 in µs."""

_COMPACT = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])([0-2]\d[0-5]\d[0-5]\d)?", re.ASCII)
_WRITTEN = re.compile(
    r"(?:(?P<year>\d{4})(?P<s1>[-/.])\d\d?(?P=s1)\d\d?"
    r"|(?P<first>\d\d?)(?P<s2>[-/.])(?P<second>\d\d?)(?P=s2)(?P<short>\d{4}|\d\d)"
    r"|\d\d?(?P<s3>[- /])(?P<month>[A-Za-z]{3,9})(?P<s4>,? |[-/])(?P<year3>\d{4}|\d\d)"
    r"|(?P<month4>[A-Za-z]{3,9}) \d\d?(?P<s5>,? )\d{4})"
    r"(?:(?P<gap>,? |T|:)\d\d?:\d\d(?P<seconds>:\d\d(?P<fraction>\.\d+)?)?(?P<half> ?[AaPp][Mm])?"
    r"(?P<zone> ?(?:Z|[+-]\d\d:?\d\d)| UTC| GMT)?)?",
    re.ASCII,
)


class Clock(NamedTuple):
    """A field of times. `unit` is iso, s, ms, us, ns or format; `form` is the custom format.

    `other` is the format with day and month exchanged, if all values can be read either way.
    """

    path: str
    unit: str
    form: str = ""
    other: str = ""

    @property
    def has_hours(self) -> bool:
        return self.unit != "format" or any(mark in self.form for mark in ("%H", "%I"))

    def read(self, value: Value) -> Reading | None:
        """The time, or None if the value is not a time in the years 1 to 9999."""
        text = values.text(value)
        if text is None:
            return None
        try:
            if self.unit == "format":
                reading = _format(self.form).read(text)
            else:
                reading = read_iso(text, space=True) if self.unit == "iso" else read_epoch(text, self.unit)
        except BadTime:
            return None
        return reading if EARLIEST <= reading.us <= LATEST else None


_format = cache(TimeFormat)


def clock_of(path: str, column: Sequence[Value], enough: float = ENOUGH) -> Clock | None:
    """The clock that reads a field's values, or None if a share below `enough` of them are written as times in one
    unit. Some of these may be impossible dates, such as 31 February."""
    units = Counter(map(_unit, column))
    (unit, form), count = units.most_common(1)[0] if units else (("", ""), 0)
    if not unit or count < enough * len(column):
        return None
    if unit not in ("iso", "format"):
        return Clock(path, unit)
    clock = _ordered(path, form, column) if "%A" in form else Clock(path, unit, form)
    readable = sum(clock.read(value) is not None for value in column)
    return clock if readable >= MOSTLY * len(column) else None


def _ordered(path: str, form: str, column: Sequence[Value]) -> Clock:
    """The clock of a format whose day and month are `%A` and `%B`, in the order that reads more values."""
    day_first = form.replace("%A", "%d").replace("%B", "%m")
    month_first = form.replace("%A", "%m").replace("%B", "%d")
    read = {
        one: sum(Clock(path, "format", one).read(value) is not None for value in column)
        for one in (day_first, month_first)
    }
    # Twelve-hour times with slashes are American; if nothing decides, a person has to.
    likely = sorted(read, key=lambda one: (-read[one], ("%I" in one) != (one == month_first)))
    same = read[day_first] == read[month_first]
    return Clock(path, "format", likely[0], likely[1] if same and "/" in form else "")


def _unit(value: Value) -> tuple[str, str]:
    """The unit and the format of one value; two empty strings if it is not a time."""
    text = (values.text(value) or "").strip()
    if text[4:5] == "-" and read_or_none(text) is not None:
        return "iso", ""
    if text[:1].isdigit() and text.isascii() and text.isdigit():
        match = _COMPACT.fullmatch(text) if len(text) in (8, 14) else None
        if match is not None:
            return "format", "%Y%m%d%H%M%S" if match[1] else "%Y%m%d"
    try:
        number = abs(float(text)) if len(text) < 32 else 0.0
    except ValueError:
        form = _form(text) if len(text) < 64 else ""
        if form.startswith("%Y-%m-%d") and "%H" in form:  # no ISO 8601 time is read so far, but 31 February is written
            return "iso", ""
        return ("format", form) if form else ("", "")
    return next((unit for unit, factor in _PER_SECOND.items() if _FROM * factor <= number < _TO * factor), ""), ""


def read_or_none(text: str) -> Reading | None:
    try:
        return read_iso(text, space=True)
    except BadTime:
        return None


def forms_of(text: str) -> list[str]:
    """The formats that can read a written time, [] for other strings."""
    form = _form(text)
    orders = [form.replace("%A", a).replace("%B", b) for a, b in (("%d", "%m"), ("%m", "%d"))] if form else []
    return [one for one in dict.fromkeys(orders) if Clock("", "format", one).read(text) is not None]


def _form(text: str) -> str:
    """The format of one written time, "" for other strings; `%A` and `%B` are a day and a month in an unknown order."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return ""
    part = match.groupdict()
    if part["year"]:
        form = f"%Y{part['s1']}%m{part['s1']}%d"
    elif part["first"]:
        year = "%Y" if len(part["short"]) == 4 else "%y"
        form = f"%A{part['s2']}%B{part['s2']}{year}"
    elif part["month"]:
        form = f"%d{part['s3']}%b{part['s4']}{'%Y' if len(part['year3']) == 4 else '%y'}"
    else:
        form = f"%b %d{part['s5']}%Y"
    if part["gap"]:
        hour = "%I" if part["half"] else "%H"
        form += f"{part['gap']}{hour}:%M"
        form += ":%S" if part["seconds"] else ""
        form += ".%f" if part["fraction"] else ""
        form += re.sub(r"\w\w", "%p", part["half"]) if part["half"] else ""
        zone = part["zone"] or ""
        form += zone if zone.strip() in ("UTC", "GMT") else re.sub(r"\S+", "%z", zone)
    return form
