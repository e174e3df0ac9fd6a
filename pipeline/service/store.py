"""What landed, in a DuckDB database: in memory or a file, with at most 200 MB of memory.

Every accepted copy is a row of `accepted`, numbered in the order of receipt. Copies collapse in a view, as
the real service's table engine does in the background: one row per project, uuid, event, distinct_id and UTC
day, the last received wins (service-behaviour 1.10). So a rehearsal shows what was sent and what will remain.

Instants are naive TIMESTAMPs in UTC, whole microseconds. Properties are the exact JSON text that came.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

_TABLES = """
CREATE TABLE IF NOT EXISTS accepted (
    project INTEGER, receipt BIGINT, uuid UUID, event VARCHAR, distinct_id VARCHAR, "timestamp" TIMESTAMP,
    properties VARCHAR, historical_migration BOOLEAN, created_at TIMESTAMP);
CREATE TABLE IF NOT EXISTS refused (
    "time" TIMESTAMP, status INTEGER, reason VARCHAR, payload VARCHAR);
CREATE OR REPLACE VIEW collapsed AS SELECT * FROM accepted WHERE receipt IN (
    SELECT max(receipt) FROM accepted
    GROUP BY uuid, hash(project, event, distinct_id, CAST("timestamp" AS DATE)));
CREATE OR REPLACE MACRO toDate(x) AS CAST(x AS DATE);
"""
_SETTINGS = """
SET GLOBAL TimeZone = 'UTC';
SET GLOBAL memory_limit = '200MB';
SET GLOBAL threads = 1;
SET GLOBAL autoload_known_extensions = false;
SET GLOBAL autoinstall_known_extensions = false;
SET GLOBAL enable_external_access = false;
SET GLOBAL lock_configuration = true;
"""
_COLUMNS = 'uuid, event, distinct_id, "timestamp", properties, historical_migration, created_at'
_VIEWS = f"""
CREATE TEMP VIEW events AS SELECT {_COLUMNS} FROM collapsed WHERE project = {{project}};
CREATE TEMP VIEW raw_events AS SELECT {_COLUMNS}, receipt FROM accepted WHERE project = {{project}};
CREATE TEMP VIEW rejections AS SELECT * FROM refused;
"""
_INSERT = """
INSERT INTO accepted
SELECT ?, receipt, uuid, event, distinct_id, "timestamp", properties, historical = 1, make_timestamp(?)
FROM incoming
"""
VIEWS = frozenset({"events", "raw_events", "rejections"})
"""What a query may name. `rejections` holds the requests that were turned away, of every project."""


class Unavailable(Exception):
    """The database cannot store now: the disk is full, or the service is closing."""


class BadQuery(Exception):
    """A query that cannot be answered; the message is the database's own."""


@dataclass(slots=True)
class Rows:
    """The columns of one accepted request; `created_at` and `timestamp` are microseconds since 1970 (UTC)."""

    created_at: int
    uuid: list[str] = field(default_factory=list)
    event: list[str] = field(default_factory=list)
    distinct_id: list[str] = field(default_factory=list)
    timestamp: list[int] = field(default_factory=list)
    properties: list[bytes] = field(default_factory=list)
    historical: list[bool] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query: names and types of its columns, and its rows as an Arrow table."""

    columns: list[str]
    types: list[str]
    table: pa.Table


class Store:
    """One database, safe for many threads: one writer at a time, readers beside it."""

    def __init__(self, path: Path | None = None) -> None:
        """Open or create the file at `path`; None is a database in memory, spilling to a private folder."""
        self._spill = None if path is not None else Path(tempfile.mkdtemp(prefix="backcast-service-"))
        self._lock = threading.Lock()

        self._writer = duckdb.connect(":memory:" if path is None else str(path))
        self._writer.execute(_TABLES)
        if self._spill is not None:
            self._writer.execute(f"SET GLOBAL temp_directory = '{_quoted(self._spill)}'")
        self._writer.execute(_SETTINGS)
        self._receipts = self._number("SELECT coalesce(max(receipt), 0) FROM accepted")
        self.requests = 0

    def close(self) -> None:
        """Write everything to the file and let go of it."""
        with self._lock:
            self._writer.close()
        if self._spill is not None:
            shutil.rmtree(self._spill, ignore_errors=True)

    def append(self, project: int, rows: Rows) -> None:
        """Store the rows of one request, all or none; durable in the file on return. Raises Unavailable."""
        count = len(rows.uuid)
        if not count:
            return
        with self._lock:
            first = self._receipts + 1
            incoming = pa.RecordBatch.from_arrays(
                [
                    _numbers(range(first, first + count), pa.int64()),
                    _texts([text.encode() for text in rows.uuid]),
                    _texts([text.encode() for text in rows.event]),
                    _texts([text.encode() for text in rows.distinct_id]),
                    _numbers(rows.timestamp, pa.timestamp("us")),
                    _texts(rows.properties),
                    _numbers(rows.historical, pa.int64()),
                ],
                names=["receipt", "uuid", "event", "distinct_id", "timestamp", "properties", "historical"],
            )
            try:
                self._writer.register("incoming", pa.Table.from_batches([incoming]))
                try:
                    self._writer.execute(_INSERT, [project, rows.created_at])
                finally:
                    self._writer.unregister("incoming")
            except duckdb.Error as error:
                raise Unavailable(str(error)) from None
            self._receipts += count

    def reject(self, time: int, status: int, reason: str, payload: str) -> None:
        """Remember a request that was turned away; `payload` must hold no key."""
        with self._lock:
            self._writer.execute(
                "INSERT INTO refused VALUES (make_timestamp(?), ?, ?, ?)", [time, status, reason, payload]
            )

    def count(self) -> int:
        """How many events are left after copies collapsed, in all projects."""
        return self._number("SELECT count(*) FROM collapsed")

    def raw_count(self) -> int:
        """How many copies were accepted, in all projects."""
        return self._number("SELECT count(*) FROM accepted")

    def rejected_count(self) -> int:
        """How many requests were turned away."""
        return self._number("SELECT count(*) FROM refused")

    def tally(self, expression: str) -> dict[str, int]:
        """How many collapsed events there are for each value of an SQL expression of our own."""
        rows = self._rows(f"SELECT CAST({expression} AS VARCHAR) AS k, count(*) FROM collapsed GROUP BY k ORDER BY k")
        return {str(name): int(count) for name, count in rows}

    def syntax(self, sql: str) -> str:
        """The syntax tree of an SQL text as JSON, or an object whose `error` is true."""
        return str(self._rows("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [sql])[0][0])

    def select(self, sql: str, project: int) -> Answer:
        """Answer one SELECT over the views of a project. Raises BadQuery."""
        cursor = self._writer.cursor()
        try:
            cursor.execute(_VIEWS.format(project=project))
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            relation = cursor.sql(sql)
            return Answer(relation.columns, [str(kind) for kind in relation.types], relation.to_arrow_table())
        except duckdb.Error as error:
            raise BadQuery(str(error)) from None
        finally:
            cursor.close()

    def _number(self, sql: str) -> int:
        return int(self._rows(sql)[0][0])

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        cursor = self._writer.cursor()
        try:
            return cursor.execute(sql, parameters).fetchall()
        finally:
            cursor.close()


def _texts(values: Sequence[bytes]) -> pa.Array:
    """UTF-8 texts as an Arrow column, from its buffers: `pa.array` of a list would import pandas."""
    offsets = array("i", accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(
        pa.string(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def _numbers(values: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Whole numbers of 64 bits as an Arrow column."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array("q", values))])


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
