"""What every format gives a worker: the rows of one block, and a way back to each of them.

A reader is made anew for each block, in the worker process, and walked once. A row that cannot be read is a
`BrokenRow` in a record's place, never an exception, so that row numbers agree with the file's and the next
row is still read. Where a row lies and what it said is asked for only when it is rejected, or when its
content is its identity; so a reader works that out on demand and costs nothing for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from pipeline.models import BrokenRow
from pipeline.values import Record


class Rows(Protocol):
    """The rows of one block. Row numbers count from 0 within the block; blank lines are not rows."""

    warnings: list[tuple[int, str, str]]
    """(row, code, detail) of what a person should know about rows that were read; filled by iterating."""

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns that every row of the block has, None where each has its own."""
        ...

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        """Each row in order: a new dict that the caller may change, or why it cannot be read."""
        ...

    def offset(self, row: int) -> int:
        """Where the row begins: bytes of the decompressed part (the row's number from 0, for Parquet)."""
        ...

    def text(self, row: int) -> str:
        """The row as it stands in the part, without its line end; undecodable bytes as backslash escapes."""
        ...

    def canonical(self, row: int) -> bytes:
        """`pipeline.values.canonical` of the row's record as read, whatever the caller did to it since."""
        ...
