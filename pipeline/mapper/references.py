"""Looking references up in a row as it was read, outside of any mapper."""

from __future__ import annotations

from pipeline import values
from pipeline.mapper import runtime
from pipeline.mapper.language import Call
from pipeline.values import Record, Value


def find(call: Call, record: Record, held: Record | None = None) -> Value:
    """What a reference, or the first of several, refers to; `held` are the opened properties, else the row itself."""
    if call.verb == "first":
        found_ones = (find(one, record, held) for one in call.given["first"])
        return next((one for one in found_ones if one is not None), None)
    ref = str(call.given.get("ref", ""))
    if not ref.startswith("/"):
        return (record if held is None else held).get(ref)
    steps = [step.replace("~1", "/").replace("~0", "~") for step in ref[1:].split("/")]
    found: Value = record.get(steps[0])
    for step in steps[1:]:
        found = members(found).get(step)
    return found


def members(value: Value) -> Record:
    """The members of an object; none of anything else."""
    try:
        return runtime.opened(value) or {}
    except values.BadValue:
        return {}
