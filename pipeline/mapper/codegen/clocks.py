"""Writes the Python source of `ReadTime`: plain numbers in the source itself, everything else as calls of `runtime`."""

from __future__ import annotations

from pipeline.mapper.codegen.timeformat import TimeFormat
from pipeline.mapper.codegen.values import Emitter
from pipeline.mapper.program import operations as program
from pipeline.models import RejectReason
from pipeline.timestamps import MICROSECONDS_FROM, MILLISECONDS_FROM, SECOND, UNITS, WITHOUT_OFFSET
from pipeline.zone_clock import QUARTER

START_OF_TIME = -62_135_596_800 * SECOND
"""The first instant of the year 1."""
END_OF_TIME = 253_402_300_800 * SECOND
"""The first instant of the year 10000."""
NO_ZONE = RejectReason("bad_timestamp", WITHOUT_OFFSET)


def write_time(emitter: Emitter, step: program.ReadTime) -> None:
    """Set `received`, or `time` and `wall`: the reading before a zone was applied, the evidence of the zone."""
    target = step.register
    emitter.line("wall = time = None" if target == "time" else f"{target} = None")
    for number, clock in enumerate(step.clocks):
        if number:
            with emitter.block(f"if {target} is None:"):
                _write_clock(emitter, target, clock)
        else:
            _write_clock(emitter, target, clock)
    if target == "received" and step.clocks:
        # An unreadable receive time is missing: no event is lost because of it.
        emitter.line(f"if received is not None and not 0 <= received < {END_OF_TIME}: received = None")
    elif target == "time":
        with emitter.block(f"if time.__class__ is int and not {START_OF_TIME} <= time < {END_OF_TIME}:"):
            units = {clock.unit for clock in step.clocks}
            emitter.line(f"time = no_year(time, {units.pop() if len(units) == 1 else ''!r})")


def _write_clock(emitter: Emitter, target: str, clock: program.Clock) -> None:
    if clock.unit in ("iso", "format"):
        _write_text(emitter, target, clock)
        return
    source = emitter.value(clock.source)
    number, head = emitter.computed(("number", clock.source)), f"if {source} is not None:"
    test = f"{number} is not None"
    if number is None:
        number, test = source, f"{source}.__class__ is int"
    any_number = clock.zone != "utc"
    if clock.unit != "ns":
        with emitter.block(f"if {test}:"):
            emitter.line(_number(target, number, clock.unit))
            if any_number:
                _write_zone(emitter, target, clock)
        head = "el" + head
    with emitter.block(head):
        emitter.line(f"try: {_number(target, f'decode_int({source})', clock.unit, source)}")
        with emitter.block("except (MsgspecError, TypeError):"):
            emitter.line(f"{target}, w = epoch_of({source}, {clock.unit!r}, w)")
            if target == "received":
                emitter.line("if received.__class__ is RejectReason: received = None")
        if any_number:
            with emitter.block(f"if {target}.__class__ is int:"):
                _write_zone(emitter, target, clock)


def _number(target: str, number: str, unit: str, source: str = "") -> str:
    """Set `target` from the expression for a whole number; `ns` needs the value that the number was decoded from."""
    if unit == "auto":
        factor = f"1000 if -{MICROSECONDS_FROM} <= {target} <= {MICROSECONDS_FROM} else 1"
        factor = f"1000000 if -{MILLISECONDS_FROM} <= {target} <= {MILLISECONDS_FROM} else {factor}"
        return f"{target} = {number}; {target} *= {factor}"
    if unit == "ns":
        return f"{target}, w = epoch_of({source}, 'ns', w)"
    return f"{target} = {number} * {UNITS[unit]}"


def _write_text(emitter: Emitter, target: str, clock: program.Clock) -> None:
    text = emitter.value(clock.source)
    with emitter.block(f"if {text} is not None and {text} and not {text}.isspace():"):
        utc, cut = emitter.local("utc"), emitter.local("cut")
        reader = f"{'read_iso_or_date' if clock.date else 'read_iso'}({text}, {clock.space})"
        if clock.form is not None:
            reader = f"{emitter.const(TimeFormat(clock.form).reader, ('form', clock.form))}({text})"
        with emitter.block("try:"):
            emitter.line(f"{target}, {utc}, {cut} = {reader}")
            emitter.line(f"if {cut}: w += TRUNCATED")
            if clock.zone != "utc":
                with emitter.block(f"if not {utc}:"):
                    _write_zone(emitter, target, clock)
        if target == "received":
            emitter.line("except BadTime: received = None")
        else:
            emitter.line(f"except BadTime as error: {target} = RejectReason('bad_timestamp', str(error))")


def _write_zone(emitter: Emitter, target: str, clock: program.Clock) -> None:
    if clock.zone == "required":
        emitter.line(f"{target} = {emitter.const(NO_ZONE)}" if target == "time" else f"{target} = None")
        return
    if target == "time":
        exempt = emitter.test(clock.no_evidence) if clock.no_evidence is not None else None
        emitter.line(f"if not {exempt}: wall = time" if exempt else "wall = time")
    if clock.zone == "converted":
        received = "received" if target == "time" else "None"
        doubt = emitter.local("doubt")
        emitter.line(f"read = {target}")
        emitter.line(f"offset = offsets.get(read // {QUARTER})")
        emitter.line(f"if offset is not None: {target} = read - offset")
        with emitter.block("else:"):
            with emitter.block("try:"):
                emitter.line(f"{target}, {doubt} = to_utc(read, {received})")
                emitter.line(f"if {doubt}: w += (({doubt}, f'{{format_utc(read)[:-1]}} on the wall clock'),)")
            emitter.line(f"except BadTime as error: {target} = RejectReason('bad_timestamp', str(error))")
