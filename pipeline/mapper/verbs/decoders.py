"""The verbs of decoders, which turn one row of an unusual shape into plain rows before any other section reads it.

A decoder is two functions: the verb, which returns the decoder's name and arguments, and the decoder itself.
"""

from __future__ import annotations

from functools import partial

from pipeline import values
from pipeline.mapper.builder import Builder
from pipeline.mapper.functions import decoding
from pipeline.mapper.kinds import TEXT, Field, verb
from pipeline.mapper.language import Call
from pipeline.mapper.program import Decode
from pipeline.values import BadValue, Record

decoder = partial(verb, "decoder")


@decoder(
    "explode",
    "one row for each object in a list, with the other columns of the row in each",
    explode=Field(TEXT, "the column with the list", True),
    prefix=Field(TEXT, "a prefix for the names of the other columns"),
)
def explode(_build: Builder, call: Call) -> Decode:
    return Decode("exploded", (call.given["explode"], call.given.get("prefix", "")))


@decoding
def exploded(row: Record, column: str, prefix: str) -> list[Record]:
    """A row for each object in the list of a column, with the other columns. Raises BadValue for other members."""
    members = values.items(row.pop(column, None))
    shared: Record = {prefix + name: value for name, value in row.items()}
    records: list[Record] = []
    for member in members or []:
        inside = values.opened(member)
        if inside is None:
            raise BadValue(f"column {column!r}: a list of objects was expected")
        records.append({**shared, **inside})
    return records
