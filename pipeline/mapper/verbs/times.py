"""The verbs for times that are values: one time in another form, the seconds between two, and the start of a session
whose id is its start: seconds or milliseconds since 1970.

The service ignores a `$session_id` in its metrics if its time is after the session's first event or more than a day
before its last (docs/know/exports.md#session-ids). So a number is a start only if it falls within the day before the
row's time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msgspec import Raw

from pipeline import values
from pipeline.errors import UsageError
from pipeline.mapper.codegen.runtime import read_time
from pipeline.mapper.codegen.timeformat import TimeFormat
from pipeline.mapper.language.kinds import TEXT, VALUE, Call, Choice, Field, Section, value
from pipeline.mapper.language.sections import UNITS
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Constant, Missing, RowTime, Value
from pipeline.mapper.program.functions import function
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import DAY, SECOND, BadTime, format_utc, read_iso
from pipeline.values import BadValue

UNIT = Field(
    Choice(UNITS), "how it is written; iso, with T or a space, if left out; auto tells s, ms and us apart by size"
)
FORMAT = Field(TEXT, "for unit format: a pattern such as %d/%m/%Y %H:%M")
FORMS = ("iso", "s", "ms", "day")
_LATER_YEARS = 253_402_300_800_000_000
"""The first µs of the year 10000."""
_read_iso: Any = native.Reader("iso", read_iso) if AVAILABLE else read_iso
BETWEEN = Section(
    "seconds",
    dict,
    {
        "from": Field(VALUE, "the earlier time", True),
        "to": Field(VALUE, "the later time", True),
        "unit": UNIT,
        "format": FORMAT,
    },
)


@value(
    "date",
    "a time in another form, exact to the microsecond; missing if it cannot be read, with the warning bad_value",
    date=Field(VALUE, "the time", True),
    unit=UNIT,
    format=FORMAT,
    as_=Field(
        Choice(FORMS),
        "iso (default): 2023-01-02T03:04:05Z, without Z if the time has no offset from UTC; s, ms: a number of"
        " seconds or milliseconds since 1970; day: 2023-01-02. A time without an offset counts as UTC",
    ),
)
def date(build: Builder, call: Call) -> Value:
    form = call.arguments.get("as", FORMS[0])
    return Apply(
        "written_time", (build.present(call.arguments["date"]), *_written(call, call.arguments), Constant(form))
    )


@value(
    "seconds",
    "the seconds between two times, as a number, exact to the microsecond; missing if a time cannot be read, with the"
    " warning bad_value",
    seconds=Field(BETWEEN, "the two times, and how both are written", True),
)
def seconds(build: Builder, call: Call) -> Value:
    given = call.arguments["seconds"]
    times = (build.present(given["from"]), build.present(given["to"]))
    return Apply("seconds_between", (*times, *_written(call, given)))


def _written(call: Call, given: Any) -> tuple[Value, Value]:
    """How a time is written: its unit and its format, "" if it has none."""
    form = given.get("format", "")
    unit = given.get("unit", "format" if form else "iso")
    if (unit == "format") != bool(form):
        hint = "write unit: format, format: '%d/%m/%Y %H:%M'"
        raise call.place.error("`unit: format` and `format` must be given together", hint)
    try:
        _format(form)
    except UsageError as error:
        raise call.place.error(str(error), error.hint) from None
    return Constant(unit), Constant(form)


@function(needs=1, warns=True)
def written_time(time: values.Value, unit: str, form: str, as_: str) -> Raw | str | None:
    """A time as a string, or as a number for the forms `s` and `ms`; None for a blank one. Raises BadValue."""
    kind = type(time)  # to a cache, 1, 1.0 and true are one key
    return (_written_often if kind is str or kind is int else _written_once)(time, unit, form, as_)


def _written_once(time: values.Value, unit: str, form: str, as_: str) -> Raw | str | None:
    read = _read(time, unit, form)
    if read is None:
        return None
    us, utc = read
    match as_:
        case "iso":
            text = format_utc(us)
            return text if utc else text.removesuffix("Z")
        case "day":
            return format_utc(us - us % DAY)[:10]
        case _:
            return _number(us, SECOND if as_ == "s" else 1_000)


# Many rows share the day of a session.
_written_often = lru_cache(4_096)(_written_once)


@function(needs=2, warns=True)
def seconds_between(start: values.Value, end: values.Value, unit: str, form: str) -> Raw | None:
    """The seconds from one time to another; None if one of them is blank. Raises BadValue."""
    first, last = _read(start, unit, form), _read(end, unit, form)
    if first is None or last is None:
        return None
    if first[1] != last[1]:
        raise BadValue("one of the two times has an offset from UTC, the other has none")
    return _number(last[0] - first[0], SECOND)


def _read(time: values.Value, unit: str, form: str) -> tuple[int, bool] | None:
    """The time in µs, in the years 1 to 9999, and whether it is in UTC; None for a blank one. Raises BadValue."""
    read: tuple[int, bool, bool] | None
    try:
        if form:
            text = values.text(time) or ""
            read = _format(form).read(text) if text.strip() else None
        elif unit == "iso" and type(time) is str:
            read = _read_iso(text, True) if (text := time.strip()) else None
        else:
            read = read_time(time, unit, space=True)
        if read is None:
            return None
        if not 0 <= read[0] < _LATER_YEARS:
            format_utc(read[0])
        return read[:2]
    except BadTime as error:
        raise BadValue(str(error)) from None


@lru_cache
def _format(form: str) -> TimeFormat:
    return TimeFormat(form or "%Y%m%d")


def _number(us: int, unit: int) -> Raw:
    """A count of microseconds in a larger unit, with all of its digits and no others."""
    whole, rest = divmod(abs(us), unit)
    if not rest:
        return Raw(b"%d" % (whole if us >= 0 else -whole))
    fraction = f".{rest:0{len(str(unit)) - 1}d}".rstrip("0").rstrip(".")
    return Raw(f"{'-' if us < 0 else ''}{whole}{fraction}".encode())


_START = re.compile(r"[0-9]{10}|[0-9]{13}")
"""Ten digits are seconds, thirteen milliseconds, from 2001 to 2286."""


@function()
def start_of(text: str | None, time: object, otherwise: str = "") -> str | None:
    """Milliseconds since 1970 as a string; None if it is not a time within the day before `time` (µs; None if that is
    not a number). If `otherwise` is `day`, any other non-blank string starts with the UTC day of `time`."""
    if text is None or not isinstance(time, int):
        return None
    start = int(text) * (1_000 if len(text) == 10 else 1) if _START.fullmatch(text) else 0
    if start and 0 <= time - start * 1_000 <= DAY:
        return str(start)
    return str((time - time % DAY) // 1_000) if otherwise == "day" and text.strip() else None


@value(
    "session_start",
    "a session's start in milliseconds, for `session`; missing if it is not within the day before the row's time",
    session_start=Field(VALUE, "seconds or milliseconds since 1970, told apart by the number of digits", True),
    else_=Field(Choice(("day",)), "the start of the row's day in UTC, for a session whose id is not its start"),
)
def session_start(build: Builder, call: Call) -> Value:
    if not build.time_is_set:
        hint = "use it under `properties`, `person`, `groups` or in an event's own rule"
        raise call.place.error("session_start needs the row's time, which is not known here", hint)
    start = build.text(call.arguments["session_start"])
    otherwise = [Constant(call.arguments["else"])] if "else" in call.arguments else []
    return start if start == Missing() else Apply("start_of", (start, RowTime(), *otherwise))
