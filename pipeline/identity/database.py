"""The scratch database of a plan: what grows with the people of an export, with a fixed share of the memory.

DuckDB is used only for what stays within its memory limit (measured): appending, grouping by key with aggregates of
fixed size, and sorting, all of which spill to disk. Joins of texts exceed the limit, so there are none.
Batches go in and come out as Arrow buffers: `pa.array` and `to_numpy` would import pandas.
"""

from __future__ import annotations

import contextlib
import ctypes
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline import ctrl_c
from pipeline.identity.columns import TextColumn

MEMORY = "128MB"
"""DuckDB's own limit. The process grows by about 100 MB more, for Arrow batches and work in progress."""
ROWS_AT_ONCE = 50_000
LARGE = 250_000
"""The memory of a table with more rows is released at once when it is dropped, which takes a tenth of a second."""


class Database:
    """One database in memory that spills into `scratch`. For one thread. Use as a context manager."""

    def __init__(self, scratch: Path) -> None:
        # Passed to connect(): a database that may use every processor allocates memory for each as it opens.
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": MEMORY,
                "temp_directory": str(scratch / "duckdb"),
                "threads": 1,
                "preserve_insertion_order": True,
                "autoload_known_extensions": False,
                "autoinstall_known_extensions": False,
            },
        )

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Release memory and disk."""
        self._connection.close()

    @ctrl_c.as_keyboard_interrupt()
    def run(self, sql: str) -> None:
        """Run one statement."""
        self._connection.execute(sql)

    @ctrl_c.as_keyboard_interrupt()
    def append(self, table: str, columns: Mapping[str, pa.Array]) -> None:
        """Add rows; the columns are in the table's order."""
        incoming = pa.table(list(columns.values()), names=list(columns))
        self._connection.register("incoming", incoming)
        try:
            self._connection.execute(f"INSERT INTO {table} SELECT * FROM incoming")
        finally:
            self._connection.unregister("incoming")

    @ctrl_c.as_keyboard_interrupt()
    def drop(self, table: str) -> None:
        """Drop a table. Where it is large, its memory is released now, which DuckDB would do later."""
        large = self.number(f"SELECT count(*) FROM {table}") > LARGE
        self._connection.execute(f"DROP TABLE {table}")
        if large:
            self._connection.execute("CHECKPOINT")

    @ctrl_c.as_keyboard_interrupt()
    def number(self, sql: str) -> int:
        """The single number that a query returns, 0 for null or no row."""
        row = self._connection.execute(sql).fetchone()
        return int(row[0]) if row is not None and row[0] is not None else 0

    @ctrl_c.as_keyboard_interrupt()
    def rows(self, sql: str) -> list[Any]:
        """All rows of a small result."""
        return self._connection.execute(sql).fetchall()

    def stream(self, sql: str, at_once: int = ROWS_AT_ONCE) -> Generator[pa.RecordBatch, None, None]:
        """A large result, batch by batch. Other statements may be run between batches."""
        cursor = self._connection.cursor()
        try:
            with ctrl_c.as_keyboard_interrupt():
                yield from cursor.sql(sql).to_arrow_reader(at_once)
        finally:
            cursor.close()


def write_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path) -> None:
    """Write batches to an Arrow file that `read_batches` reads back in order, one batch in memory at a time."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """What `write_batches` wrote."""
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as reader:
        yield from reader


def release_memory() -> None:
    """Return freed memory to the system, between steps that each need much of it for something else."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def texts(values: Sequence[str]) -> pa.Array:
    """Texts as a column."""
    return _buffered([value.encode() for value in values], pa.string())


def blobs(values: Sequence[bytes]) -> pa.Array:
    """Bytes as a column."""
    return _buffered(values, pa.binary())


def numbers(values: Sequence[int] | NDArray[Any]) -> pa.Array:
    """Whole numbers of 64 bits as a column."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, np.int64))])


def number_column(column: bytes) -> pa.Array:
    """A column of int64 that a worker returned."""
    return pa.Array.from_buffers(pa.int64(), len(column) // 8, [None, pa.py_buffer(column)])


def text_column(column: TextColumn) -> pa.Array:
    """A column of texts that a worker returned."""
    return _column(column, pa.string())


def blob_column(column: TextColumn) -> pa.Array:
    """A column of bytes that a worker returned."""
    return _column(column, pa.binary())


def _column(column: TextColumn, kind: pa.DataType) -> pa.Array:
    length = len(column.offsets) // 4 - 1
    return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(column.offsets), pa.py_buffer(column.text)])


def numbers_of(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """A column of whole numbers of 64 bits without nulls."""
    column = batch.column(name)
    return np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]


def _buffered(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    offsets = array("i", accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))])
