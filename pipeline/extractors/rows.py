"""What every format returns to a worker: the rows of one block, with the offset and the text of each.

A reader is created for each block, in the worker process, and iterated once. A row that cannot be read is a
`BrokenRow` instead of a record, never an exception, so that row numbers agree with the file's and the next
row is still read. The offset and the text of a row are needed only when it is rejected, or when its content is its
identity; so a reader computes them on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from pipeline.models import BrokenRow
from pipeline.values import Record


class Rows(Protocol):
    """The rows of one block. Row numbers count from 0 within the block; blank lines are not rows."""

    warnings: list[tuple[int, str, str]]
    """(row, code, detail) of each warning about a row that was read; filled by iterating."""

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns that every row of the block has, None where each has its own."""
        ...

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        """Each row in order: a new dict that the caller may change, or why it cannot be read."""
        ...

    def offset(self, row: int) -> int:
        """Where the row begins: bytes of the decompressed part (the row's number from 0, for Parquet and Avro)."""
        ...

    def text(self, row: int) -> str:
        """The row as written in the part, without its line end; undecodable bytes as backslash escapes."""
        ...

    def canonical(self, row: int) -> bytes:
        """`pipeline.values.canonical` of the row's record as read, also after the caller changed it."""
        ...
