"""The verbs of decoders, which turn one row of an unusual shape into plain rows before any other section reads it.

A decoder is two functions: the verb, which returns the decoder's name and arguments, and the decoder itself.
"""

from __future__ import annotations

from functools import partial

from pipeline import values
from pipeline.mapper.language.kinds import NAMES, TEXT, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.functions import decoding, only_with
from pipeline.mapper.program.operations import Decode
from pipeline.models import RejectReason
from pipeline.values import BadValue, Record

decoder = partial(verb, "decoder")


@decoder(
    "explode",
    "one row for each object in a list, with the other columns of the row in each; an item that cannot be sent is"
    " rejected by itself",
    explode=Field(TEXT, "the column with the list", True),
    prefix=Field(TEXT, "a prefix for the names of the other columns"),
)
def explode(_build: Builder, call: Call) -> Decode:
    return Decode("exploded", (call.arguments["explode"], call.arguments.get("prefix", "")))


@decoding
def exploded(row: Record, column: str, prefix: str) -> list[Record | RejectReason]:
    """A row for each object in the list of a column, with the other columns; any other item is a reject of its own."""
    members = values.items(row.pop(column, None))
    shared: Record = {prefix + name: value for name, value in row.items()}
    records: list[Record | RejectReason] = []
    for member in members or []:
        try:
            inside = values.opened(member)
        except BadValue as error:
            records.append(RejectReason("bad_value", f"column {column!r}: {error}"))
            continue
        if inside is None:
            records.append(RejectReason("bad_value", f"column {column!r}: a list of objects was expected"))
        else:
            record = {**shared, **inside}
            for name in [] if shared.keys().isdisjoint(inside) else shared:
                values.put(record, name, shared[name])
            records.append(record)
    return records


@decoder(
    "lower_names",
    "the names of all columns in lower case, in rows with one of these columns: Snowflake writes names in capitals",
    lower_names=Field(NAMES, "columns by which such rows are recognised, such as EVENT_ID", True),
)
def lower_names(_build: Builder, call: Call) -> Decode:
    return Decode("with_lower_names", tuple(call.arguments["lower_names"]))


@decoding
@only_with(lambda *columns: columns)
def with_lower_names(row: Record, *columns: str) -> list[Record]:
    """The row, its names in lower case if it has one of `columns`; where two names become one, a value wins over none,
    and then the first has the name."""
    if row.keys().isdisjoint(columns):
        return [row]
    lowered: Record = {}
    for name, value in row.items():
        if lowered.get(name.lower()) is None:
            lowered[name.lower()] = value
        elif value is not None:
            values.put(lowered, name.lower(), value)
    return [lowered]
