"""Writes the reading of times: plain numbers in the text itself, everything else by the slow way."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import UsageError
from pipeline.mapper import grammar, verbs
from pipeline.mapper.code import Code, Local
from pipeline.mapper.language import Call, Clock, Mapping
from pipeline.mapper.timeformat import TimeFormat
from pipeline.models import RejectReason
from pipeline.timestamps import MILLISECONDS_FROM, QUARTER, SECOND, UNITS, WITHOUT_OFFSET

START_OF_TIME = -62_135_596_800 * SECOND
"""The first instant of the year 1."""
END_OF_TIME = 253_402_300_800 * SECOND
"""The first instant of the year 10000."""


def write_clocks(code: Code, mapping: Mapping) -> None:
    """Write `received`, `time` and `wall`.

    `time` may be a RejectReason, as it is outside the years 1 to 9999; `received` that cannot be read, or lies outside
    the years 1970 to 9999, is absent: it proves nothing, and no event is lost for it.
    """
    _write(code, "received", mapping.received)
    if mapping.received:
        code.line(f"if received is not None and not 0 <= received < {END_OF_TIME}: received = None")
    code.line("wall = None")
    _write(code, "time", mapping.time)
    with code.block(f"if time.__class__ is int and not {START_OF_TIME} <= time < {END_OF_TIME}:"):
        code.line(f"time = {code.const(_NO_YEAR)}")


def _write(code: Code, target: str, clocks: Sequence[Clock]) -> None:
    code.line(f"{target} = None")
    for number, clock in enumerate(clocks):
        if number:
            with code.block(f"if {target} is None:"):
                _write_clock(code, target, clock)
        else:
            _write_clock(code, target, clock)


def _write_clock(code: Code, target: str, clock: Clock) -> None:
    unit = _word(code, clock.unit) or "iso"
    if unit not in grammar.UNITS:
        raise UsageError(f"there is no unit of time {unit!r}", hint=f"use one of {', '.join(grammar.UNITS)}")
    form = _word(code, clock.form) if clock.form is not None else None
    if form is not None:
        unit = "format"
    elif unit == "format":
        raise UsageError("unit `format` needs a format", hint="for example %d/%m/%Y %H:%M")
    if unit in ("iso", "format"):
        _write_text(code, target, clock, TimeFormat(form) if form is not None else None)
    else:
        source = code.value(clock.source).name
        number = code.known(("int", clock.source.given.get("ref"))) if clock.source.verb == "ref" else None
        head = f"if {source} is not None:"
        test = f"{number.name} is not None" if number is not None else ""
        if number is None and code.members:
            number, test = Local(source, "any"), f"{source}.__class__ is int"
        if number is not None and unit != "ns":
            with code.block(f"if {test}:"):
                code.line(_number(target, number.name, unit))
                if clock.zone == "project":
                    _write_zone(code, target, clock)
            head = "el" + head
        with code.block(head):
            code.line(f"try: {_number(target, f'decode_int({source})', unit, source)}")
            with code.block("except (MsgspecError, TypeError):"):
                code.line(f"{target}, w = epoch_of({source}, {unit!r}, w)")
                if target == "received":
                    code.line("if received.__class__ is RejectReason: received = None")
            if clock.zone == "project":
                with code.block(f"if {target}.__class__ is int:"):
                    _write_zone(code, target, clock)


_NO_YEAR = RejectReason("bad_timestamp", "the time lies outside the years 1 to 9999")
_NO_ZONE = RejectReason("bad_timestamp", WITHOUT_OFFSET)


def _word(code: Code, given: Call | str | None) -> str | None:
    """A word of the mapping, or what the operator set it to."""
    if not isinstance(given, Call):
        return given
    if given.verb == "setting":
        return verbs.setting_of(code, given)
    word: str = given.given[given.verb]
    return word


def _number(target: str, number: str, unit: str, source: str = "") -> str:
    """Set `target` from the expression of a whole number; `ns` needs the value it stands in."""
    if unit == "auto":
        line = f"{target} = {number}"
        return f"{line}; {target} *= 1000000 if -{MILLISECONDS_FROM} <= {target} <= {MILLISECONDS_FROM} else 1000"
    if unit == "ns":
        return f"{target}, w = epoch_of({source}, 'ns', w)"
    return f"{target} = {number} * {UNITS[unit]}"


def _write_text(code: Code, target: str, clock: Clock, form: TimeFormat | None) -> None:
    text = code.text(clock.source).name
    with code.block(f"if {text} is not None and {text} and not {text}.isspace():"):
        utc = code.local("utc")
        cut = code.local("cut")
        reader = f"read_iso({text}, {clock.space == 'yes'})" if form is None else f"{code.const(form.read)}({text})"
        with code.block("try:"):
            code.line(f"{target}, {utc}, {cut} = {reader}")
            code.line(f"if {cut}: w += TRUNCATED")
            if clock.zone != "utc":
                with code.block(f"if not {utc}:"):
                    _write_zone(code, target, clock)
        if target == "received":
            code.line("except BadTime: received = None")
        else:
            code.line(f"except BadTime as error: {target} = RejectReason('bad_timestamp', str(error))")


def _write_zone(code: Code, target: str, clock: Clock) -> None:
    if clock.zone == "local" and not code.options.zones:
        # Nothing proves this clock, so nothing is assumed: without a named zone the row cannot be sent.
        code.line(f"{target} = {code.const(_NO_ZONE)}" if target == "time" else f"{target} = None")
        return
    if target == "time":
        exempt = code.test(clock.proof_unless) if clock.proof_unless is not None else None
        code.line(f"if not {exempt}: wall = time" if exempt else "wall = time")
    if code.options.zones:
        received = "received" if target == "time" else "None"
        doubt = code.local("doubt")
        code.line(f"read = {target}")
        code.line(f"offset = offsets.get(read // {QUARTER})")
        code.line(f"if offset is not None: {target} = read - offset")
        with code.block("else:"):
            with code.block("try:"):
                code.line(f"{target}, {doubt} = to_utc(read, {received})")
                code.line(f"if {doubt}: w += (({doubt}, f'{{format_utc(read)[:-1]}} on the wall clock'),)")
            code.line(f"except BadTime as error: {target} = RejectReason('bad_timestamp', str(error))")
