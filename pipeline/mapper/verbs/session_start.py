"""The verb for the start of a session whose id is its start: seconds or milliseconds since 1970.

The service leaves a `$session_id` out of its metrics whose time is after the session's first event or more than a
day before its last (docs/know/exports.md#session-ids). So only a number within the day before the row's time is a
start.
"""

from __future__ import annotations

import re

from pipeline.mapper.language.kinds import VALUE, Choice, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder, wrong_call
from pipeline.mapper.program.expressions import Apply, Constant, Missing, RowTime, Value
from pipeline.mapper.program.functions import function
from pipeline.timestamps import DAY

_START = re.compile(r"[0-9]{10}|[0-9]{13}")
"""Ten digits are seconds, thirteen milliseconds, from 2001 to 2286."""


@function()
def start_of(text: str | None, time: object, otherwise: str = "") -> str | None:
    """Milliseconds since 1970 as text; None for what is no time of the day before `time` (µs; any other is no time).
    With `otherwise` `day`, any other text that is not blank starts with the UTC day of `time`."""
    if text is None or not isinstance(time, int):
        return None
    start = int(text) * (1_000 if len(text) == 10 else 1) if _START.fullmatch(text) else 0
    if start and 0 <= time - start * 1_000 <= DAY:
        return str(start)
    return str((time - time % DAY) // 1_000) if otherwise == "day" and text.strip() else None


@verb(
    "value",
    "session_start",
    "a session's start in milliseconds, for `session`; missing where it is not within the day before the row's time",
    session_start=Field(VALUE, "seconds or milliseconds since 1970, by the number of digits", True),
    else_=Field(Choice(("day",)), "the start of the row's day in UTC, for a session whose id is not its start"),
)
def session_start(build: Builder, call: Call) -> Value:
    if not build.time_is_set:
        hint = "use it under `properties`, `person`, `groups` or in an event's own rule"
        raise wrong_call(call, "session_start needs the row's time, which is not set here", hint)
    start = build.text(call.arguments["session_start"])
    otherwise = [Constant(call.arguments["else"])] if "else" in call.arguments else []
    return start if start == Missing() else Apply("start_of", (start, RowTime(), *otherwise))
