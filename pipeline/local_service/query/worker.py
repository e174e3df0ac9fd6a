"""The process that queries run in, which may be killed at any time: its own copy of the store, and limits.

A query may use the memory that this process is limited to, and the service kills the process when the query's time is
over. The copy is a file in a scratch folder, and the next process continues with it. When the service has ended, this
process removes the folder and ends too.
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
    MARKED,
    Answered,
    Failed,
    Needs,
    Question,
    Ready,
    Running,
    marks_of,
    read,
    receive,
    write,
)
from pipeline.local_service.store.json_values import exact, values
from pipeline.local_service.store.schema import SETTINGS, TABLES, views
from pipeline.local_service.store.syntax import NotAllowed, check, limits, needs_people

FILE = "copy.duckdb"
_SPILLED = "SET GLOBAL max_temp_directory_size = '4GB'"
"""What a query may write to disk when it needs more than DuckDB's own limit of memory."""
_ROWS = 1000
"""Rows that are made into JSON at once."""
_HARMLESS = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError, NotAllowed)
"""Errors of a query after which the process can be used for the next one."""

_encode = msgspec.json.Encoder(decimal_format="number").encode


def main(folder: str, memory: int) -> None:
    """Answer the questions on stdin, one after another, until stdin ends. `memory` is the limit of memory in bytes."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    threading.Thread(target=_end_with_the_service, args=(Path(folder),), daemon=True).start()
    _limit(resource.RLIMIT_DATA, memory)
    _limit(resource.RLIMIT_CORE, 0)  # a dump would contain what landed
    try:
        copy = _opened(Path(folder) / FILE)
        write(sink, Ready(marks_of(copy)))
        while _answered(copy, source, sink):
            pass
    except (EOFError, BrokenPipeError):
        _leave(Path(folder))
    os._exit(0)  # closing a damaged database might not end


def _end_with_the_service(folder: Path) -> None:
    """Wait until the other end of stdin is closed, also while the main thread is in a query."""
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    _leave(folder)


def _leave(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (bound, bound))


def _opened(path: Path) -> duckdb.DuckDBPyConnection:
    """The copy; an empty one where the file is damaged."""
    try:
        copy = duckdb.connect(str(path))
    except duckdb.Error:
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir(mode=0o700)
        copy = duckdb.connect(str(path))
    copy.execute(TABLES)
    copy.execute(MARKED)
    copy.execute(_SPILLED)
    copy.execute(SETTINGS)
    return copy


def _answered(copy: duckdb.DuckDBPyConnection, source: IO[bytes], sink: IO[bytes]) -> bool:
    """Take one question and answer it; whether the process can be used for the next one."""
    question = read(source, Question)
    try:
        tree = json.loads(
            copy.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [question.sql]).fetchall()[0][0]
        )
        check(tree)
        people = needs_people(tree)
        write(sink, Needs(people))
        try:
            receive(copy, source)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            write(sink, Failed("store", str(error), last=True))
            return False
        write(sink, Running())
        found = _answer(copy, question, tree, people=people)
    except RecursionError:
        problem = Failed("refused", "the query is nested too deeply", last=False)
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError, NotAllowed) as error:  # Arrow raises OSError too
        memory = isinstance(error, (duckdb.OutOfMemoryException, MemoryError)) or str(error).startswith("Out of Memory")
        text = str(error).partition("\n\nPossible solutions")[0]  # they name settings that a query cannot change
        problem = Failed("memory" if memory else "refused", text, last=not isinstance(error, _HARMLESS))
    else:
        write(sink, Answered(len(found)))
        sink.write(found)
        sink.flush()
        return True
    write(sink, problem)
    return not problem.last


def _answer(copy: duckdb.DuckDBPyConnection, question: Question, tree: Any, *, people: bool) -> bytes:
    """The JSON answer. Raises NotAllowed where it is too large."""
    with copy.cursor() as cursor:
        groups = None
        if people:
            listed = 'SELECT type FROM group_kinds WHERE project = ? ORDER BY "index"'
            groups = [name for (name,) in cursor.execute(listed, [question.project]).fetchall()]
        cursor.execute(views(question.project, groups))
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        relation = cursor.sql(question.sql)
        types = relation.types
        cut = None if limits(tree) else question.default_rows
        most = question.most_rows if cut is None else cut
        pieces: list[bytes] = []
        count = size = 0
        for batch in exact(relation).to_arrow_reader(min(most + 1, _ROWS)):
            kept = batch.slice(0, most - count)
            columns = [values(column, kind) for column, kind in zip(kept.columns, types, strict=True)]
            if len(kept):
                pieces.append(_encode(list(zip(*columns, strict=True)))[1:-1])
                size += len(pieces[-1])
            count += len(batch)
            if size > question.most_bytes:
                whole = question.most_bytes // 2**20
                raise NotAllowed(f"the answer is over {whole} MiB; ask for fewer rows or columns")
            if count > most:
                break
        if count > most and cut is None:
            raise NotAllowed(f"the answer has more than {most} rows; ask for fewer with LIMIT, and page on")
        names = relation.columns
        shape = {"columns": names, "types": list(zip(names, map(str, types), strict=True))}
        tail = b"}" if cut is None else b"," + _encode({"limit": cut, "hasMore": count > most})[1:]
        return b"".join([_encode(shape)[:-1], b',"results":[', b",".join(pieces), b"]", tail])
