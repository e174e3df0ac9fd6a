"""What every format returns to a worker: the rows of one block, with the offset and text of each.

A reader is created for each block, in the worker process, and iterated once. A row that cannot be read is a
`BrokenRow` instead of a record, never an exception, so that row numbers match the file's and the next row is still
read. The offset and text of a row are needed only if it is rejected or identified by its content, so a reader computes
them on demand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from pipeline.models import Block, BrokenRow, Layout, Part
from pipeline.values import Record, canonical


class RowOptions(NamedTuple):
    """How rows are read (`pipeline.extractors.rows`). A format ignores options that do not apply to it."""

    observe: bool = True
    opens: Sequence[str] = ()
    members: bool = False
    blanks: bool = False
    layout: Layout = Layout()
    unread: Container[str] = ()


class Rows(Protocol):
    """The rows of one block. Row numbers count from 0 within the block; blank lines are not rows."""

    warnings: list[tuple[int, str, str]]
    """(row, code, detail) of each warning about a row that was read; filled by iterating."""

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns that every row of the block has, None if each row has its own."""
        ...

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        """Each row in order: a new dict that the caller may change, or the reason why it cannot be read."""
        ...

    def offset(self, row: int) -> int:
        """Where the row begins: bytes of the decompressed part (the row's number from 0, for Parquet and Avro)."""
        ...

    def text(self, row: int) -> str:
        """The row as written in the part, without its line end; undecodable bytes as backslash escapes."""
        ...

    def canonical(self, row: int) -> bytes:
        """`pipeline.values.canonical` of the row's record as read, even after the caller changed it."""
        ...


class NumberedRows(ABC):
    """The base of readers whose rows have no position in the file's bytes: the offset of a row is its number."""

    def __init__(self, part: Part, block: Block, content: bytes, options: RowOptions) -> None:
        self._part = part
        self._content = content
        self._offset = block.offset
        self._options = options
        self.warnings: list[tuple[int, str, str]] = []

    @abstractmethod
    def _record(self, row: int) -> Record:
        """The record of a row as it was read."""

    def offset(self, row: int) -> int:
        return self._offset + row

    def text(self, row: int) -> str:
        """The row as JSON. A value that broke it appears as null or with backslash escapes."""
        return msgspec.json.encode(self._record(row)).decode()

    def canonical(self, row: int) -> bytes:
        return canonical(self._record(row))
