"""What the service and the query process send each other over pipes: messages as lines of JSON, and tables.

The process has a copy of the store. Accepted events, their warnings and refused requests only grow, so only new rows
are sent; if events that were sent are gone from the store, because they were deleted there, all are sent again. Persons
and groups change, so they are sent as a whole, and only for a query that may read them. One message names the tables
that follow, each as an Arrow stream.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec
import pyarrow as pa

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class QueryRequest(msgspec.Struct, frozen=True):
    """A query over the views of a project.

    Its answer is cut off after `default_rows` if it has no LIMIT, and refused over `most_rows` or `most_bytes`.
    """

    sql: str
    project: int
    default_rows: int | None
    most_rows: int
    most_bytes: int


class CopyState(msgspec.Struct, frozen=True):
    """How much of the store a copy has.

    The last receipt, the number of refused requests, the last receipt of persons and groups (-1: none), and the number
    of accepted events.
    """

    receipt: int = 0
    refused: int = 0
    folded: int = -1
    accepted: int = 0


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    state: CopyState


class UpdateNeeded(msgspec.Struct, frozen=True, tag="needs"):
    """The query may run once the copy is up to date; `people`: with persons and groups."""

    people: bool


class Running(msgspec.Struct, frozen=True, tag="running"):
    """The copy is up to date, and the query runs."""


class QueryAnswer(msgspec.Struct, frozen=True, tag="answered"):
    """The answer follows, with this many bytes."""

    length: int


class QueryFailed(msgspec.Struct, frozen=True, tag="failed"):
    """There is no answer: the query is `refused`, it needs too much `memory`, or the copy cannot be updated (`store`).

    `last`: the process ends after it, since the error may have damaged it.
    """

    why: Literal["refused", "memory", "store"]
    text: str
    last: bool


Reply = Ready | UpdateNeeded | Running | QueryAnswer | QueryFailed


def write(sink: IO[bytes], message: object) -> None:
    """Send one message. Raises OSError if the other end is closed."""
    sink.write(msgspec.json.encode(message) + b"\n")
    sink.flush()


def read(source: IO[bytes], kind: Any) -> Any:
    """The next message. Raises EOFError at the end."""
    line = source.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return msgspec.json.decode(line, type=kind)


_BATCH_ROWS = 10_000
"""Rows per Arrow batch."""
_DERIVED = ("people", "people_ids", "group_kinds", "group_records", "folded")


class TableRows(msgspec.Struct, frozen=True):
    """The rows of one table follow; rows of the copy that match `instead_of` are deleted first."""

    table: str
    instead_of: str = "false"


_STATE = """
SELECT (SELECT coalesce(max(receipt), 0) FROM accepted), (SELECT count(*) FROM refused),
    (SELECT coalesce(max(receipt), -1) FROM folded), (SELECT count(*) FROM accepted)
"""


def read_state(connection: DuckDBPyConnection) -> CopyState:
    """How much of the store a copy has, or how much the store itself has."""
    return CopyState(*connection.execute(_STATE).fetchall()[0])


def send_update(cursor: DuckDBPyConnection, have: CopyState, sink: IO[bytes], *, people: bool) -> CopyState:
    """Send what the connection reads and a copy lacks. Returns the copy's state afterwards. Raises OSError."""
    state = read_state(cursor)
    if not people:
        state = msgspec.structs.replace(state, folded=have.folded)
    ((still_there,),) = cursor.execute(f"SELECT count(*) FROM accepted WHERE receipt <= {have.receipt}").fetchall()
    chosen: list[tuple[TableRows, str]] = []
    if still_there != have.accepted:
        chosen += [(TableRows("accepted", "true"), "true"), (TableRows("noticed", "NOT folded"), "NOT folded")]
    elif state.receipt > have.receipt:
        new = f"receipt > {have.receipt}"
        chosen += [(TableRows("accepted"), new), (TableRows("noticed"), f"NOT folded AND {new}")]
    if state.refused > have.refused:
        chosen += [(TableRows("refused"), f"rowid >= {have.refused}")]
    if state.folded != have.folded:
        chosen += [(TableRows(table, "true"), "true") for table in _DERIVED]
        chosen += [(TableRows("noticed", "folded"), "folded")]
    write(sink, [table for table, _ in chosen])
    for table, condition in chosen:
        rows = cursor.sql(f"SELECT * FROM {table.table} WHERE {condition}").to_arrow_reader(_BATCH_ROWS)
        with pa.ipc.new_stream(pa.PythonFile(sink, "w"), rows.schema) as stream:
            for batch in rows:
                stream.write_batch(batch)
    sink.flush()
    return state


def receive_update(connection: DuckDBPyConnection, source: IO[bytes]) -> None:
    """Write what was sent into the copy, all or nothing."""
    tables = read(source, list[TableRows])
    connection.execute("BEGIN")
    for table in tables:
        connection.execute(f"DELETE FROM {table.table} WHERE {table.instead_of}")
        connection.register("incoming", pa.ipc.open_stream(source))
        connection.execute(f"INSERT INTO {table.table} SELECT * FROM incoming")
        connection.unregister("incoming")
    connection.execute("COMMIT")
