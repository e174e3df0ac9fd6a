"""The process that queries run in: it has its own copy of the store, and may be killed at any time.

A query may use the memory that this process is limited to, and the service kills the process when the query's time is
over. The copy is a file in a temporary folder, and the next process continues with it. When the service has ended, this
process removes the folder and also ends.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import sys
import threading
from pathlib import Path
from typing import IO, Any

import duckdb
import msgspec
import pyarrow as pa

from pipeline.local_service.query.protocol import (
    QueryAnswer,
    QueryFailed,
    QueryRequest,
    Ready,
    Running,
    UpdateNeeded,
    read,
    read_state,
    receive_update,
    write,
)
from pipeline.local_service.store.json_values import exact, values
from pipeline.local_service.store.schema import TABLES, ZONED, connection_settings, views
from pipeline.local_service.store.syntax import QueryNotAllowed, check_query, has_limit, needs_people

FILE = "copy.duckdb"
_SPILLED = "SET GLOBAL max_temp_directory_size = '4GB'"
"""What a query may write to disk if it needs more than DuckDB's own memory limit."""
_ROWS = 1000
"""Rows that are converted to JSON at once."""
_RECOVERABLE = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError, QueryNotAllowed)
"""Errors of a query after which the process can be used again."""

_encode = msgspec.json.Encoder(decimal_format="number").encode


def main(folder: str, memory: int, timezone: str) -> None:
    """Answer the queries on stdin, one after another, until stdin ends. `memory` is the limit in bytes.

    `timezone` is the projects' time zone.
    """
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get into the answers
    threading.Thread(target=_end_with_the_service, args=(Path(folder),), daemon=True).start()
    _limit(resource.RLIMIT_DATA, memory)
    _limit(resource.RLIMIT_CORE, 0)  # a core dump would contain what landed
    try:
        copy = _opened(Path(folder) / FILE, timezone)
        write(sink, Ready(read_state(copy)))
        while _answered(copy, source, sink, zoned=timezone != "UTC"):
            pass
    except (EOFError, BrokenPipeError):
        _exit(Path(folder))
    os._exit(0)  # closing a damaged database might not end


def _end_with_the_service(folder: Path) -> None:
    """Wait until the other end of stdin is closed, even while the main thread runs a query."""
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    _exit(folder)


def _exit(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (bound, bound))


def _opened(path: Path, timezone: str) -> duckdb.DuckDBPyConnection:
    """The copy; an empty one if the file is damaged."""
    try:
        copy = duckdb.connect(str(path))
    except duckdb.Error:
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir(mode=0o700)
        copy = duckdb.connect(str(path))
    copy.execute(TABLES)
    copy.execute(_SPILLED)
    if timezone != "UTC":
        copy.execute(ZONED)
    copy.execute(connection_settings(timezone))
    return copy


def _answered(copy: duckdb.DuckDBPyConnection, source: IO[bytes], sink: IO[bytes], *, zoned: bool) -> bool:
    """Take one request and answer it. Returns whether the process can be used for the next one."""
    request = read(source, QueryRequest)
    try:
        tree = json.loads(copy.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [request.sql]).fetchall()[0][0])
        check_query(tree)
        people = needs_people(tree)
        write(sink, UpdateNeeded(people))
        try:
            receive_update(copy, source)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            write(sink, QueryFailed("store", str(error), last=True))
            return False
        write(sink, Running())
        answer = _answer(copy, request, tree, people=people, zoned=zoned)
    except RecursionError:
        problem = QueryFailed("refused", "the query is nested too deeply", last=False)
    except (
        duckdb.Error,
        pa.ArrowException,
        OSError,
        MemoryError,
        QueryNotAllowed,
    ) as error:  # Arrow raises OSError too
        memory = isinstance(error, (duckdb.OutOfMemoryException, MemoryError)) or str(error).startswith("Out of Memory")
        text = str(error).partition("\n\nPossible solutions")[0]  # they name settings that a query cannot change
        problem = QueryFailed("memory" if memory else "refused", text, last=not isinstance(error, _RECOVERABLE))
    else:
        write(sink, QueryAnswer(len(answer)))
        sink.write(answer)
        sink.flush()
        return True
    write(sink, problem)
    return not problem.last


def _answer(copy: duckdb.DuckDBPyConnection, request: QueryRequest, tree: Any, *, people: bool, zoned: bool) -> bytes:
    """The JSON answer. Raises QueryNotAllowed if it is too large."""
    with copy.cursor() as cursor:
        groups = None
        if people:
            listed = 'SELECT type FROM group_kinds WHERE project = ? ORDER BY "index"'
            groups = [name for (name,) in cursor.execute(listed, [request.project]).fetchall()]
        cursor.execute(views(request.project, groups, zoned=zoned))
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        relation = cursor.sql(request.sql)
        types = relation.types
        limit = None if has_limit(tree) else request.default_rows
        most = request.most_rows if limit is None else limit
        pieces: list[bytes] = []
        count = size = 0
        for batch in exact(relation).to_arrow_reader(min(most + 1, _ROWS)):
            shown = batch.slice(0, most - count)
            columns = [values(column, kind) for column, kind in zip(shown.columns, types, strict=True)]
            if len(shown):
                pieces.append(_encode(list(zip(*columns, strict=True)))[1:-1])
                size += len(pieces[-1])
            count += len(batch)
            if size > request.most_bytes:
                whole = request.most_bytes // 2**20
                raise QueryNotAllowed(f"the answer is over {whole} MiB; ask for fewer rows or columns")
            if count > most:
                break
        if count > most and limit is None:
            raise QueryNotAllowed(
                f"the answer has more than {most} rows; ask for fewer with LIMIT, and read them in pages"
            )
        names = relation.columns
        shape = {"columns": names, "types": list(zip(names, map(str, types), strict=True))}
        tail = b"}" if limit is None else b"," + _encode({"limit": limit, "hasMore": count > most})[1:]
        return b"".join([_encode(shape)[:-1], b',"results":[', b",".join(pieces), b"]", tail])
