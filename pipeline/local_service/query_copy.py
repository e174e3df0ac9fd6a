"""What the process of queries is sent of the store: first all of it, then what is new.

Accepted events, their warnings and refused requests only grow, so their new rows are sent; where events that were sent
are gone from the store, since somebody deleted them there, all of them are sent again. Persons and groups change, so
they are sent whole, and only for a query that may look at them. One message names the tables that follow, each as
an Arrow stream.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import msgspec
import pyarrow as pa

from .query_messages import Marks, read, write

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROWS = 10_000
"""Rows of one message."""
_FOLDED = ("people", "people_ids", "group_kinds", "group_records")


class Part(msgspec.Struct, frozen=True):
    """The rows of one table that follow; rows of the copy that match `instead_of` are deleted first."""

    table: str
    instead_of: str = "false"


class Parts(msgspec.Struct, frozen=True):
    """What follows, and how much of the store is there afterwards."""

    parts: list[Part]
    marks: Marks


_NOW = """
SELECT (SELECT coalesce(max(receipt), 0) FROM accepted), (SELECT count(*) FROM refused),
    (SELECT coalesce(max(receipt), -1) FROM folded),
    (SELECT count(*) FROM accepted), (SELECT count(*) FROM accepted WHERE receipt <= ?)
"""
MARKED = "CREATE TABLE IF NOT EXISTS marks (receipt BIGINT, refused BIGINT, folded BIGINT, accepted BIGINT)"
"""The table of the copy that says how much is there."""


def send(cursor: DuckDBPyConnection, have: Marks, sink: IO[bytes], *, people: bool) -> Marks:
    """Send what a copy lacks of what the connection sees; what it has then. Raises OSError."""
    receipt, refused, folded, accepted, still_there = cursor.execute(_NOW, [have.receipt]).fetchall()[0]
    marks = Marks(receipt, refused, folded if people else have.folded, accepted)
    chosen: list[tuple[Part, str]] = []
    if still_there != have.accepted:
        chosen += [(Part("accepted", "true"), "true"), (Part("noticed", "NOT folded"), "NOT folded")]
    elif marks.receipt > have.receipt:
        new = f"receipt > {have.receipt}"
        chosen += [(Part("accepted"), new), (Part("noticed"), f"NOT folded AND {new}")]
    if marks.refused > have.refused:
        chosen += [(Part("refused"), f"rowid >= {have.refused}")]
    if marks.folded != have.folded:
        chosen += [(Part(table, "true"), "true") for table in _FOLDED] + [(Part("noticed", "folded"), "folded")]
    write(sink, Parts([part for part, _ in chosen], marks))
    for part, condition in chosen:
        rows = cursor.sql(f"SELECT * FROM {part.table} WHERE {condition}").to_arrow_reader(_ROWS)
        with pa.ipc.new_stream(pa.PythonFile(sink, "w"), rows.schema) as stream:
            for batch in rows:
                stream.write_batch(batch)
    sink.flush()
    return marks


def receive(connection: DuckDBPyConnection, source: IO[bytes]) -> None:
    """Take what was sent into the copy, all of it or nothing."""
    coming = read(source, Parts)
    connection.execute("BEGIN")
    for part in coming.parts:
        connection.execute(f"DELETE FROM {part.table} WHERE {part.instead_of}")
        connection.register("incoming", pa.ipc.open_stream(source))
        connection.execute(f"INSERT INTO {part.table} SELECT * FROM incoming")
        connection.unregister("incoming")
    connection.execute("DELETE FROM marks")
    connection.execute("INSERT INTO marks VALUES (?, ?, ?, ?)", msgspec.structs.astuple(coming.marks))
    connection.execute("COMMIT")


def marks_of(connection: DuckDBPyConnection) -> Marks:
    """How much of the store is in a copy."""
    found = connection.execute("SELECT receipt, refused, folded, accepted FROM marks").fetchall()
    return Marks(*found[0]) if found else Marks()
