"""The verbs for times that are values: one time in another form, and the seconds between two."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from msgspec import Raw

from pipeline import values
from pipeline.errors import UsageError
from pipeline.mapper.builder import Builder, wrong_call
from pipeline.mapper.expressions import Apply, Constant, Value
from pipeline.mapper.functions import function
from pipeline.mapper.kinds import TEXT, VALUE, Choice, Field, Section, verb
from pipeline.mapper.language import UNITS, Call
from pipeline.mapper.runtime import read_time
from pipeline.mapper.timeformat import TimeFormat
from pipeline.timestamps import SECOND, BadTime, Reading, format_utc
from pipeline.values import BadValue

value = partial(verb, "value")

UNIT = Field(Choice(UNITS), "how it is written; iso, with T or a space, when left out; auto finds s, ms or us by size")
FORMAT = Field(TEXT, "for unit format: a form such as %d/%m/%Y %H:%M")
FORMS = ("iso", "s", "ms", "day")
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
    "a time in another form, exact to the microsecond; one that cannot be read is missing, with the warning bad_value",
    date=Field(VALUE, "the time", True),
    unit=UNIT,
    format=FORMAT,
    as_=Field(
        Choice(FORMS),
        "iso (default): 2023-01-02T03:04:05Z, without Z where the time has no offset from UTC; s, ms: a number of"
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
    "the seconds between two times, as a number, exact to the microsecond; a time that cannot be read makes it missing,"
    " with the warning bad_value",
    seconds=Field(BETWEEN, "the two times, and how both are written", True),
)
def seconds(build: Builder, call: Call) -> Value:
    given = call.arguments["seconds"]
    times = (build.present(given["from"]), build.present(given["to"]))
    return Apply("seconds_between", (*times, *_written(call, given)))


def _written(call: Call, given: Any) -> tuple[Value, Value]:
    """How a time is written: its unit and its form, "" without one."""
    form = given.get("format", "")
    unit = given.get("unit", "format" if form else "iso")
    if (unit == "format") != bool(form):
        hint = "write unit: format, format: '%d/%m/%Y %H:%M'"
        raise wrong_call(call, "unit format and a format belong together", hint)
    try:
        _format(form)
    except UsageError as error:
        raise wrong_call(call, str(error), error.hint) from None
    return Constant(unit), Constant(form)


@function(needs=1, warns=True)
def written_time(time: values.Value, unit: str, form: str, as_: str) -> Raw | str | None:
    """A time as text, or as a number for the forms `s` and `ms`; None for a blank one. Raises BadValue."""
    kind = type(time)  # 1, 1.0 and true are one key of a cache
    return (_written_often if kind is str or kind is int else _written_once)(time, unit, form, as_)


def _written_once(time: values.Value, unit: str, form: str, as_: str) -> Raw | str | None:
    read = _read(time, unit, form)
    if read is None:
        return None
    text = format_utc(read.us)
    match as_:
        case "iso":
            return text if read.utc else text.removesuffix("Z")
        case "day":
            return text[:10]
        case _:
            return _number(read.us, SECOND if as_ == "s" else 1_000)


# The day of a session is the same in many rows.
_written_often = lru_cache(4_096)(_written_once)


@function(needs=2, warns=True)
def seconds_between(start: values.Value, end: values.Value, unit: str, form: str) -> Raw | None:
    """The seconds from one time to another; None when one of them is blank. Raises BadValue."""
    first, last = _read(start, unit, form), _read(end, unit, form)
    if first is None or last is None:
        return None
    if first.utc != last.utc:
        raise BadValue("one of two times has an offset from UTC, and the other has none")
    return _number(last.us - first.us, SECOND)


def _read(time: values.Value, unit: str, form: str) -> Reading | None:
    try:
        if form:
            text = values.text(time) or ""
            read = _format(form).read(text) if text.strip() else None
        else:
            read = read_time(time, unit, space=True)
        if read is not None:
            format_utc(read.us)
        return read
    except BadTime as error:
        raise BadValue(str(error)) from None


@lru_cache
def _format(form: str) -> TimeFormat:
    return TimeFormat(form or "%Y%m%d")


def _number(us: int, unit: int) -> Raw:
    """A count of microseconds in a greater unit, with all of its digits and no others."""
    whole, rest = divmod(abs(us), unit)
    fraction = f".{rest:0{len(str(unit)) - 1}d}".rstrip("0").rstrip(".")
    return Raw(f"{'-' if us < 0 else ''}{whole}{fraction}".encode())
