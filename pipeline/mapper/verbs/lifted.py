"""The decoder for rows whose columns are in objects, where other files of the same tool have them side by side."""

from __future__ import annotations

from functools import partial

from pipeline import values
from pipeline.mapper.builder import Builder
from pipeline.mapper.functions import decoding
from pipeline.mapper.kinds import NAMES, TEXT, Field, verb
from pipeline.mapper.language import Call
from pipeline.mapper.program import Decode
from pipeline.values import Record

decoder = partial(verb, "decoder")


@decoder(
    "lift",
    "members of objects become columns, where the row has no such column",
    lift=Field(NAMES, "the columns with the objects; the earlier one wins", True),
    where=Field(TEXT, "only rows with this column"),
)
def lift(_build: Builder, call: Call) -> Decode:
    return Decode("lifted", (call.arguments.get("where", ""), *call.arguments["lift"]))


@decoding
def lifted(row: Record, where: str, *columns: str) -> list[Record]:
    """The row, with the members of the objects in `columns` beside its own columns. Raises BadValue for one that is
    no object."""
    if where and values.is_absent(row.get(where)):
        return [row]
    inside: Record = {}
    for column in columns:
        members = values.opened(row.get(column))
        if members is not None:
            del row[column]
            inside = {**members, **inside}
    return [{**inside, **row}]
