"""The messages between the service and the process of queries: lines of JSON, over pipes."""

from __future__ import annotations

from typing import IO, Any, Literal

import msgspec


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
