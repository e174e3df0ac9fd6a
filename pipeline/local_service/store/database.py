"""The database of what landed: DuckDB, in memory or in a file, with at most 200 MB of memory.

Instants are naive TIMESTAMPs in UTC, whole microseconds. Properties are the exact JSON text that was sent.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import threading
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from pipeline.errors import UsageError
from pipeline.local_service.ingestion_warnings import EventWarning
from pipeline.local_service.people.processing import PersonProcessing, ServiceClosing
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.columns import encoded, instants, numbers, table, texts
from pipeline.local_service.store.json_values import exact, values
from pipeline.local_service.store.schema import TABLES, connection_settings, views
from pipeline.local_service.store.syntax import needs_people

_INSERT = """
INSERT INTO accepted
SELECT ?, receipt, uuid, event, distinct_id, "timestamp", properties, historical = 1, make_timestamp(?)
FROM incoming
"""


CLOSING = "the service is closing"


class BadStore(UsageError):
    """The file is not a database of this service, or another process has it open; the message says which."""


class Unavailable(Exception):
    """The database cannot answer now: the disk is full, or the service is closing."""


class BadQuery(Exception):
    """A query that cannot be answered; the message is the database's own."""


class SlowQuery(Exception):
    """A query took longer than it may and was stopped."""


class EventColumns(msgspec.Struct):
    """The columns of one accepted request; `created_at` and `timestamp` are microseconds since 1970 (UTC)."""

    created_at: int
    uuid: list[str] = msgspec.field(default_factory=list)
    event: list[str] = msgspec.field(default_factory=list)
    distinct_id: list[str] = msgspec.field(default_factory=list)
    timestamp: list[int] = msgspec.field(default_factory=list)
    properties: list[bytes] = msgspec.field(default_factory=list)
    historical: list[bool] = msgspec.field(default_factory=list)
    warnings: list[tuple[int, EventWarning]] = msgspec.field(default_factory=list)
    """The warnings, each with the position of its event in the columns."""

    def add(self, uuid: str, event: str, distinct_id: str, timestamp: int, properties: bytes, historical: bool) -> None:
        self.uuid.append(uuid)
        self.event.append(event)
        self.distinct_id.append(distinct_id)
        self.timestamp.append(timestamp)
        self.properties.append(properties)
        self.historical.append(historical)

    def warn(self, warning: EventWarning) -> None:
        """Add a warning about the event that is added next."""
        self.warnings.append((len(self.uuid), warning))


class Store:
    """One database, safe for many threads: one writes at a time while others read."""

    def __init__(self, path: Path | None = None, settings: Settings | None = None) -> None:
        """Open or create the file at `path`; None means a database in memory that spills to a private folder.

        Raises BadStore.
        """
        if path is not None and "?" in str(path.absolute()):
            # DuckDB would look for the log of a file named by what precedes the `?`, links resolved: the wrong place.
            raise BadStore(
                f"DuckDB cannot store in {path}: its path contains a ?", hint="rename the folder or the file"
            )
        self._spill = None if path is not None else Path(tempfile.mkdtemp(prefix="backcast-service-"))
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._reading: set[duckdb.DuckDBPyConnection] = set()
        self._processing = PersonProcessing(settings or Settings(), self._closing)
        try:
            self._writer = duckdb.connect(":memory:" if path is None else str(path))
            self._writer.execute(TABLES)
            if self._spill is not None:
                spill = str(self._spill).replace("'", "''")
                self._writer.execute(f"SET GLOBAL temp_directory = '{spill}'")
            self._writer.execute(connection_settings("UTC"))
        except duckdb.Error as error:
            message = f"the store {path} cannot be opened: {str(error).splitlines()[0]}"
            raise BadStore(message, hint="stop the service that has it open, or name another file") from None
        self._receipts = self._number("SELECT coalesce(max(receipt), 0) FROM accepted")

    def interrupt(self) -> None:
        """End every running query, and the processing of persons and groups; no other can begin."""
        self._closing.set()
        for cursor in tuple(self._reading):
            with contextlib.suppress(duckdb.Error):  # it may already have ended
                cursor.interrupt()

    def close(self) -> None:
        with self._lock:
            self._writer.close()
        if self._spill is not None:
            shutil.rmtree(self._spill, ignore_errors=True)

    def append(self, project: int, events: EventColumns) -> None:
        """Store the events of one request, all or none; they are durable in the file on return. Raises Unavailable."""
        count = len(events.uuid)
        if not count:
            return
        with self._lock:
            first = self._receipts + 1
            incoming = table(
                receipt=numbers(range(first, first + count)),
                uuid=texts(events.uuid),
                event=texts(events.event),
                distinct_id=texts(events.distinct_id),
                timestamp=instants(events.timestamp),
                properties=encoded(events.properties),
                historical=numbers(events.historical),
            )
            with self.transaction() as connection:
                connection.register("incoming", incoming)
                connection.execute(_INSERT, [project, events.created_at])
                if events.warnings:
                    rows = [(first + index, *warning) for index, warning in events.warnings]
                    connection.executemany("INSERT INTO noticed VALUES (?, ?, ?, ?, false)", rows)
            self._receipts += count

    def add_rejection(self, time: int, status: int, reason: str, payload: str) -> None:
        """Store a request that was refused; `payload` must not contain a key."""
        with self._lock:
            self._writer.execute(
                "INSERT INTO refused VALUES (make_timestamp(?), ?, ?, ?)", [time, status, reason, payload]
            )

    def count(self) -> int:
        """How many events remain after duplicates collapsed, in all projects."""
        return self._number("SELECT count(*) FROM collapsed")

    def raw_count(self) -> int:
        """How many copies were accepted, in all projects."""
        return self._number("SELECT count(*) FROM accepted")

    def select(self, sql: str, project: int, *, seconds: float | None = None, people: bool | None = None) -> list[Any]:
        """The rows of one trusted SELECT over the views of a project: named tuples of JSON values.

        `people`: whether persons and groups are processed first; None: if the query may read them. Raises BadQuery,
        SlowQuery, Unavailable.
        """
        stopped = threading.Event()
        try:
            with self._cursor() as cursor:
                if people is None:
                    tree = cursor.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [sql]).fetchall()[0][0]
                    people = needs_people(json.loads(tree))
                cursor.execute(views(project, self._group_types(cursor, project) if people else None))
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                with _timed(cursor, seconds, stopped):
                    relation = cursor.sql(sql)
                    kinds, arrow = relation.types, exact(relation).to_arrow_table()
                columns = [
                    [value for chunk in column.chunks for value in values(chunk, kind)]
                    for column, kind in zip(arrow.columns, kinds, strict=True)
                ]
                row = namedtuple("Row", relation.columns, rename=True)  # type: ignore[misc]
                return list(map(row._make, zip(*columns, strict=True)))
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # some of Arrow's errors are OSErrors
            if stopped.is_set():
                raise SlowQuery from None
            if self._closing.is_set():
                raise Unavailable(CLOSING) from None
            raise BadQuery(str(error)) from None

    @contextmanager
    def snapshot(self, *, people: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that reads what was accepted until now, with `people` also its persons and groups.

        Raises Unavailable.
        """
        try:
            with self._cursor() as cursor:
                if people:
                    self._processing.refresh(cursor)
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                yield cursor
        except duckdb.Error as error:
            raise Unavailable(CLOSING if self._closing.is_set() else str(error)) from None

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for reading, which `interrupt` ends. Raises Unavailable."""
        cursor = self._writer.cursor()
        self._reading.add(cursor)
        try:
            if self._closing.is_set():
                raise ServiceClosing
            yield cursor
        except ServiceClosing:
            raise Unavailable(CLOSING) from None
        finally:
            self._reading.discard(cursor)
            cursor.close()

    def _group_types(self, cursor: duckdb.DuckDBPyConnection, project: int) -> list[str]:
        """The project's group types by index, after persons and groups were processed."""
        self._processing.refresh(cursor)
        rows = cursor.execute('SELECT type FROM group_kinds WHERE project = ? ORDER BY "index"', [project]).fetchall()
        return [name for (name,) in rows]

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for tables that other modules keep here: all that is done with it takes effect, or nothing.

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
        with self.snapshot(people=False) as cursor:
            return int(cursor.execute(sql).fetchall()[0][0])


@contextmanager
def _timed(cursor: duckdb.DuckDBPyConnection, seconds: float | None, stopped: threading.Event) -> Iterator[None]:
    """Interrupt the connection after this many seconds, and set `stopped`."""
    if seconds is None:
        yield
        return

    def stop() -> None:
        stopped.set()
        cursor.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
