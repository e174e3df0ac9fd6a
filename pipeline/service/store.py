"""What landed, in a DuckDB database: in memory or a file, with at most 200 MB of memory.

Instants are naive TIMESTAMPs in UTC, whole microseconds. Properties are the exact JSON text that came.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from .columns import encoded, instants, numbers, table, texts
from .fold import Closing, Fold
from .notices import Notice
from .settings import Settings
from .sql_tree import needs_people
from .tables import SETTINGS, TABLES, views

_INSERT = """
INSERT INTO accepted
SELECT ?, receipt, uuid, event, distinct_id, "timestamp", properties, historical = 1, make_timestamp(?)
FROM incoming
"""


MOST_BYTES = 128 * 1024 * 1024
"""The rows of an answer whose number is bounded."""
_CLOSING = "the service is closing"
_AT_ONCE = 1000
"""Rows between two looks at what an answer holds already."""


class BadStore(ValueError):
    """The file is no database of this service, or somebody else has it open; the message says which file."""


class Unavailable(Exception):
    """The database cannot answer now: the disk is full, or the service is closing."""


class BadQuery(Exception):
    """A query that cannot be answered; the message is the database's own."""


class SlowQuery(Exception):
    """A query was stopped after its time."""


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
    notices: list[tuple[int, Notice]] = field(default_factory=list)
    """Each with the place of its event in the columns."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query: names and types of its columns, and its rows as an Arrow table; `more`: some were left
    out, `large`: because they are over MOST_BYTES."""

    columns: list[str]
    types: list[str]
    table: pa.Table
    more: bool = False
    large: bool = False


class Store:
    """One database, safe for many threads: one writer at a time, readers beside it."""

    def __init__(self, path: Path | None = None, settings: Settings | None = None) -> None:
        """Open or create the file at `path`; None is a database in memory, spilling to a private folder.

        Raises BadStore.
        """
        self._spill = None if path is not None else Path(tempfile.mkdtemp(prefix="backcast-service-"))
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._reading: set[duckdb.DuckDBPyConnection] = set()
        self._fold = Fold(settings or Settings(), self._closing)
        try:
            self._writer = duckdb.connect(":memory:" if path is None else str(path))
            self._writer.execute(TABLES)
            if self._spill is not None:
                self._writer.execute(f"SET GLOBAL temp_directory = '{_quoted(self._spill)}'")
            self._writer.execute(SETTINGS)
        except duckdb.Error as error:
            raise BadStore(f"the store {path} cannot be opened: {str(error).splitlines()[0]}") from None
        self._receipts = self._number("SELECT coalesce(max(receipt), 0) FROM accepted")
        self.requests = 0

    def interrupt(self) -> None:
        """End every query that is under way, and the making of persons and groups; none begins any more."""
        self._closing.set()
        for cursor in tuple(self._reading):
            with contextlib.suppress(duckdb.Error):  # it has ended by itself
                cursor.interrupt()

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
            incoming = table(
                receipt=numbers(range(first, first + count)),
                uuid=texts(rows.uuid),
                event=texts(rows.event),
                distinct_id=texts(rows.distinct_id),
                timestamp=instants(rows.timestamp),
                properties=encoded(rows.properties),
                historical=numbers(rows.historical),
            )
            try:
                self._writer.execute("BEGIN")
                try:
                    self._writer.register("incoming", incoming)
                    self._writer.execute(_INSERT, [project, rows.created_at])
                    self._notice(rows, first)
                    self._writer.execute("COMMIT")
                except duckdb.Error:
                    self._writer.execute("ROLLBACK")
                    raise
                finally:
                    self._writer.unregister("incoming")
            except duckdb.Error as error:
                raise Unavailable(str(error)) from None
            self._receipts += count

    def _notice(self, rows: Rows, first: int) -> None:
        if rows.notices:
            told = [(first + place, one.type, one.details, one.dropped) for place, one in rows.notices]
            self._writer.executemany("INSERT INTO noticed VALUES (?, ?, ?, ?, false)", told)

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
        """The syntax tree of an SQL text as JSON, or an object whose `error` is true. Raises BadQuery."""
        try:
            return str(self._rows("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [sql])[0][0])
        except duckdb.Error as error:
            raise BadQuery(str(error)) from None

    def select(
        self, sql: str, project: int, *, seconds: float | None = None, most: int | None = None, tree: Any = None
    ) -> Answer:
        """Answer one SELECT over the views of a project, with at most `most` rows. `tree` is its syntax tree, where the
        caller knows it. Raises BadQuery, SlowQuery, Unavailable."""
        if tree is None:
            tree = json.loads(self.syntax(sql))
        cursor = self._writer.cursor()
        stopped = threading.Event()
        timer = None if seconds is None else threading.Timer(seconds, _stop, [cursor, stopped])
        self._reading.add(cursor)
        try:
            if self._closing.is_set():
                raise Closing
            cursor.execute(views(project, self._group_types(cursor, project) if needs_people(tree) else None))
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            if timer is not None:
                timer.start()
            relation = cursor.sql(sql)
            found, more, large = _rows_of(relation, most)
            return Answer(relation.columns, [str(kind) for kind in relation.types], found, more, large)
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # Arrow's own are OSErrors too
            if stopped.is_set():
                raise SlowQuery from None
            if self._closing.is_set():
                raise Unavailable(_CLOSING) from None
            raise BadQuery(str(error)) from None
        except Closing:
            raise Unavailable(_CLOSING) from None
        finally:
            self._reading.discard(cursor)
            if timer is not None:
                timer.cancel()
                if timer.ident is not None:
                    timer.join()
            cursor.close()

    def _group_types(self, cursor: duckdb.DuckDBPyConnection, project: int) -> list[str]:
        """Bring persons and groups up to what was accepted; the project's group types by index."""
        self._fold.refresh(cursor)
        found = cursor.execute('SELECT type FROM group_kinds WHERE project = ? ORDER BY "index"', [project]).fetchall()
        return [name for (name,) in found]

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for state that others keep in tables of their own: all that is done in it, or nothing.

        Raises Unavailable.
        """
        try:
            with self._writer.cursor() as connection:
                connection.begin()
                yield connection
                connection.commit()
        except duckdb.Error as error:
            raise Unavailable(str(error)) from None

    def _number(self, sql: str) -> int:
        return int(self._rows(sql)[0][0])

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        cursor = self._writer.cursor()
        try:
            return cursor.execute(sql, parameters).fetchall()
        finally:
            cursor.close()


def _rows_of(relation: duckdb.DuckDBPyRelation, most: int | None) -> tuple[pa.Table, bool, bool]:
    """The first rows of a result, whether there are more, and whether they are too large for one answer."""
    if most is None:
        return relation.to_arrow_table(), False, False
    reader = relation.to_arrow_reader(min(most + 1, _AT_ONCE))
    batches, count, size = [], 0, 0
    for batch in reader:
        batches.append(batch)
        count += len(batch)
        size += batch.nbytes
        if count > most or size > MOST_BYTES:
            break
    return pa.Table.from_batches(batches, reader.schema).slice(0, most), count > most, size > MOST_BYTES


def _stop(cursor: duckdb.DuckDBPyConnection, stopped: threading.Event) -> None:
    stopped.set()
    cursor.interrupt()


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
