"""The decoders for tools of which some files have columns in objects, and others have them side by side."""

from __future__ import annotations

from functools import lru_cache, partial

from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.runtime import encode
from pipeline.mapper.language.kinds import NAMES, TEXT, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.functions import decoding, of_table, only_with
from pipeline.mapper.program.operations import Decode
from pipeline.models import Layout
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
@only_with(lambda where, *columns: (where,) if where else columns)
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


@decoder(
    "nest",
    "columns such as properties.plan become members of one column; of a name with several dots the first one counts",
    nest=Field(NAMES, "the columns, without the dot", True),
)
def nest(_build: Builder, call: Call) -> Decode:
    return Decode("nested", tuple(call.arguments["nest"]))


def _nested_cells(names: tuple[str, ...], *columns: str) -> Layout | None:
    """`nested`, of a table that has none of the objects itself."""
    if not set(columns).isdisjoint(names):
        return None
    inside = {name: (columns.index(column), member) for name, column, member in _members(names, columns)}
    return Layout(tuple((number, *inside.get(name, (-1, name))) for number, name in enumerate(names)), columns)


@decoding
@of_table(_nested_cells)
def nested(row: Record, *columns: str) -> list[Record]:
    """The row, with the columns that begin with one of these and a dot as members of an object of its name. Raises
    BadValue where a column of that name is something else."""
    found: dict[str, Record] = {}
    for name, column, member in _members(tuple(row), columns):
        value = row.pop(name)
        # A text stays one: as JSON it would be read again.
        kept = value.__class__ is str or value.__class__ is Raw
        found.setdefault(column, {})[member] = value if kept else Raw(encode(value))
    for column, members in found.items():
        whole = {**members, **(own := values.opened(row.get(column)) or {})}
        for member in [] if members.keys().isdisjoint(own) else members:
            values.put(whole, member, members[member])
        row[column] = whole  # type: ignore[assignment]
    return [row]


@lru_cache(256)
def _members(names: tuple[str, ...], columns: tuple[str, ...]) -> tuple[tuple[str, str, str], ...]:
    """The names of a row that are members of one of the columns, each with the column and the member."""
    pieces = [(name, *name.partition(".")) for name in names]
    return tuple((name, column, member) for name, column, dot, member in pieces if dot and column in columns)
