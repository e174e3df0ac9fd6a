"""The named decoders: what turns one odd row into plain ones, before any other section sees it.

Adding one is adding one function: it gets its arguments and the options, and gives a function from a record to records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from pipeline import values
from pipeline.mapper.kinds import TEXT, Field, verb
from pipeline.mapper.language import Call
from pipeline.options import SealedOptions
from pipeline.values import BadValue, Record

Decode: TypeAlias = Callable[[Record], list[Record]]

decoder = partial(verb, "decoder")


@decoder(
    "explode",
    "one row for each object in a list; the row's other columns stand in each",
    explode=Field(TEXT, "the column with the list", True),
    prefix=Field(TEXT, "a beginning for the names of the row's other columns"),
)
def explode(call: Call, _options: SealedOptions) -> Decode:
    column = call.given["explode"]
    prefix = call.given.get("prefix", "")

    def decode(row: Record) -> list[Record]:
        members = values.items(row.pop(column, None))
        shared: Record = {prefix + name: value for name, value in row.items()}
        records: list[Record] = []
        for member in members or []:
            inside = values.opened(member)
            if inside is None:
                raise BadValue(f"column {column!r}: a list of objects was expected")
            records.append({**shared, **inside})
        return records

    return decode
