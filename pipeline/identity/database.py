"""The scratch database of a plan: what grows with the people of an export, within a fixed share of the memory.

DuckDB is used only for what stays within its memory limit (measured): appending, grouping by key with aggregates of
fixed size, and sorting, all of which spill to disk. Joins on strings exceed the limit, so there are none.
Batches go in and come out as Arrow buffers: `pa.array` and `to_numpy` would import pandas.
"""

from __future__ import annotations

import contextlib
import ctypes
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline import ctrl_c, out_of_memory

MEMORY = "128MB"
"""DuckDB's own limit. The process grows by about 100 MB more, for Arrow batches and work in progress."""
ROWS_AT_ONCE = 50_000
_INTEGERS: dict[str, type[np.generic]] = {"BIGINT": np.int64, "UBIGINT": np.uint64, "UINTEGER": np.uint32}
LARGE = 250_000
"""Dropping a larger table releases its memory at once, which takes a tenth of a second."""


class Database:
    """An in-memory database that spills into `scratch`. Only one thread may use it, though a query may use several. Use
    as a context manager."""

    def __init__(self, scratch: Path, memory: str = MEMORY, threads: int = 1, *, ordered: bool = True) -> None:
        out_of_memory.require_for_database()
        import duckdb

        # Set on connecting: a database that may use every processor allocates memory for each one as it opens.
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": memory,
                "temp_directory": str(scratch / "duckdb"),
                "threads": threads,
                "preserve_insertion_order": ordered,
                "autoload_known_extensions": False,
                "autoinstall_known_extensions": False,
            },
        )

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @ctrl_c.as_keyboard_interrupt()
    def run(self, sql: str) -> None:
        self._connection.execute(sql)

    @ctrl_c.as_keyboard_interrupt()
    def append(self, table: str, columns: Mapping[str, pa.Array | NDArray[Any]]) -> None:
        """Add rows; the columns are in the table's order."""
        arrays = [numbers(one, one.dtype) if isinstance(one, np.ndarray) else one for one in columns.values()]
        incoming = pa.table(arrays, names=list(columns))
        self._connection.register("incoming", incoming)
        try:
            self._connection.execute(f"INSERT INTO {table} SELECT * FROM incoming")
        finally:
            self._connection.unregister("incoming")

    def insert(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows of strings and integers, some at a time, to a table of VARCHAR and integer columns."""
        remaining = iter(rows)
        while some := list(islice(remaining, ROWS_AT_ONCE)):
            kinds = [(name, str(kind)) for name, kind, *_ in self._connection.sql(f"FROM {table}").description]
            self.append(table, {
                name: texts(values) if kind == "VARCHAR" else numbers(values, _INTEGERS[kind])
                for (name, kind), values in zip(kinds, zip(*some, strict=True), strict=True)
            })  # fmt: skip

    @ctrl_c.as_keyboard_interrupt()
    def drop(self, table: str) -> None:
        """Drop a table. If it is large, release its memory now; DuckDB would do that later."""
        large = self.number(f"SELECT count(*) FROM {table}") > LARGE
        self._connection.execute(f"DROP TABLE {table}")
        if large:
            self._connection.execute("CHECKPOINT")

    @ctrl_c.as_keyboard_interrupt()
    def number(self, sql: str) -> int:
        """The single number that a query returns, 0 for null or no row."""
        rows = self._connection.execute(sql).fetchall()  # an unfinished result would block the connection
        return int(rows[0][0]) if rows and rows[0][0] is not None else 0

    @ctrl_c.as_keyboard_interrupt()
    def rows(self, sql: str, *values: object) -> list[Any]:
        """The rows of a query; `values` are those of its `$1`, `$2`."""
        return self._connection.execute(sql, values).fetchall()

    def stream(self, sql: str, at_once: int = ROWS_AT_ONCE) -> Generator[pa.RecordBatch, None, None]:
        """A large result, batch by batch. Other statements may run between batches."""
        cursor = self._connection.cursor()
        try:
            with ctrl_c.as_keyboard_interrupt():
                yield from cursor.sql(sql).to_arrow_reader(at_once)
        finally:
            cursor.close()

    def save(self, sql: str, path: Path) -> None:
        """Write a large result to an Arrow file that `read_batches` reads back in its order."""
        cursor = self._connection.cursor()
        try:
            with ctrl_c.as_keyboard_interrupt():
                reader = cursor.sql(sql).to_arrow_reader(ROWS_AT_ONCE)
                write_batches(reader, reader.schema, path)
        finally:
            cursor.close()

    def tuples(self, sql: str, at_once: int = ROWS_AT_ONCE) -> Iterator[Any]:
        """The rows of a large result, one by one."""
        for batch in self.stream(sql, at_once):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def arrays(self, sql: str) -> Iterator[dict[str, NDArray[Any]]]:
        """A large result of numbers without nulls, batch by batch, by column name."""
        for batch in self.stream(sql):
            yield {name: numbers_of(batch, name) for name in batch.schema.names}


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
    """Return freed memory to the system, between steps that each need much of it for different purposes."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def texts(values: Sequence[str]) -> pa.Array:
    return _buffered([value.encode() for value in values], pa.string())


def binaries(values: Sequence[bytes]) -> pa.Array:
    return _buffered(values, pa.binary())


def numbers(values: Sequence[int] | NDArray[Any], kind: type[np.generic] | np.dtype[Any] = np.int64) -> pa.Array:
    content = pa.py_buffer(np.ascontiguousarray(values, kind))
    return pa.Array.from_buffers(pa.from_numpy_dtype(np.dtype(kind)), len(values), [None, content])


def numbers_of(batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    """A numeric column without nulls, in its own type."""
    column = batch.column(name)
    return np.frombuffer(column.buffers()[1], str(column.type))[column.offset : column.offset + len(column)]


def files_in(folder: Path, options: str = "") -> str:
    """All Parquet files of a folder as a table in SQL. The folder's name is taken literally."""
    return f"read_parquet({_quoted(folder, '/*.parquet')}{options and ', ' + options})"


def file_at(path: Path) -> str:
    """The path of one file as an SQL string, for the DuckDB functions that take patterns."""
    return _quoted(path)


def _quoted(path: Path, pattern: str = "") -> str:
    special = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]", "\\": "?"})  # nothing stands for a backslash alone
    escaped = f"{str(path).translate(special)}{pattern}".replace("'", "''")
    return f"'{escaped}'"


def _buffered(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    offsets = array("i", accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))])
