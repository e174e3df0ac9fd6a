"""The messages between the service and the process of queries: lines of JSON, over pipes."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec
import pyarrow as pa

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Question(msgspec.Struct, frozen=True):
    """A query over the views of a project. Its answer is cut off after `default_rows` where it names no LIMIT, and
    refused over `most_rows` or `most_bytes`."""

    sql: str
    project: int
    default_rows: int | None
    most_rows: int
    most_bytes: int


class Marks(msgspec.Struct, frozen=True):
    """How much of the store is there: up to which receipt, how many refused requests, persons up to which receipt, and
    how many accepted events."""

    receipt: int = 0
    refused: int = 0
    folded: int = -1
    accepted: int = 0


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The process takes questions, and has so much of the store."""

    have: Marks


class Needs(msgspec.Struct, frozen=True, tag="needs"):
    """The query may run once the copy of the store is current; `people`: persons and groups too."""

    people: bool


class Running(msgspec.Struct, frozen=True, tag="running"):
    """The copy is current, and the query runs."""


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """The answer follows, of so many bytes."""

    length: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """There is no answer: the query is `refused`, needs too much `memory`, or the copy cannot be kept (`store`).
    `last`: the process ends after it, since the error may have damaged it."""

    why: Literal["refused", "memory", "store"]
    text: str
    last: bool


Reply = Ready | Needs | Running | Answered | Failed


def write(sink: IO[bytes], message: object) -> None:
    """Send one message. Raises OSError where the other end is closed."""
    sink.write(msgspec.json.encode(message) + b"\n")
    sink.flush()


def read(source: IO[bytes], kind: Any) -> Any:
    """The next message. Raises EOFError at the end."""
    line = source.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return msgspec.json.decode(line, type=kind)


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
