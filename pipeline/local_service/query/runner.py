"""Runs queries one after another in a separate process, which is started for the first of them.

The process is killed when a query's time is over, when its client disconnects, and when the service closes; the next
query starts another one. Before each query, the process gets what its copy of the store lacks, so a query reads all
that was accepted before it. Copying does not count as the query's time, and a client that disconnects does not undo it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

from pipeline.local_service.query.protocol import (
    CopyState,
    QueryAnswer,
    QueryFailed,
    QueryRequest,
    Ready,
    Reply,
    Running,
    UpdateNeeded,
    read,
    send_update,
    write,
)
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import CLOSING, BadQuery, SlowQuery, Store, Unavailable

_START = (
    "import gc, sys; gc.set_threshold(200_000); sys.modules['numpy'] = None; sys.path[:] = {path!r}; "
    "from pipeline.local_service.query.worker import main; main({folder!r}, {memory}, {timezone!r})"
)
"""Arrow works without numpy; loading numpy would take a third of the process's start-up time."""
_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}
"""Libraries must not reserve memory in advance, since it would count as the query's."""

Kind = TypeVar("Kind", bound=Reply)


EndReason = Literal["slow", "closing", "abandoned"]


class MemoryExceeded(Exception):
    """A query needed more memory than its process may have; the message is the database's, or how the process ended."""


class Abandoned(Exception):
    """The client disconnected before the answer."""


class QueryRunner:
    """The queries over one store. It has a thread and, from the first query on, a process until it is closed."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._worker = ThreadPoolExecutor(1, "service-query")
        self._lock = threading.Lock()
        self._closing = False
        self._turn: _Turn | None = None
        self._folder: Path | None = None
        self._process: _Process | None = None

    async def answer(self, sql: str, project: int, disconnected: Coroutine[Any, Any, None]) -> bytes:
        """The JSON answer to a query over the views of a project, abandoned once `disconnected` returns.

        Raises BadQuery, SlowQuery, MemoryExceeded, Abandoned, Unavailable.
        """
        turn = _Turn()
        leaving: asyncio.Future[Any] = asyncio.ensure_future(disconnected)
        loop = asyncio.get_running_loop()
        work: asyncio.Future[Any] = loop.run_in_executor(self._worker, self._run, sql, project, turn)
        try:
            await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                turn.end("abandoned")
            answer: bytes = await work
            return answer
        finally:
            turn.end("abandoned")
            leaving.cancel()

    def stop(self) -> None:
        """End the running query; no other can begin."""
        with self._lock:
            self._closing = True
            turn, process = self._turn, self._process
        if turn is not None:
            turn.end("closing")
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the thread and the process, and remove the copy of the store."""
        self.stop()
        self._worker.shutdown()
        self._drop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, sql: str, project: int, turn: _Turn) -> bytes:
        with self._lock:
            if self._closing:
                raise Unavailable(CLOSING)
            if turn.ended is not None:
                raise Abandoned
            process = self._running_process()
            self._turn = turn
        usable = False
        try:
            answer = self._ask(process, sql, project, turn)
            usable = True
            return answer
        except _QueryFailure as error:
            usable = not error.failed.last
            raise _problem(error.failed) from None
        except (EOFError, OSError):
            raise self._ending(process, turn) from None
        finally:
            with self._lock:
                self._turn = None
            if turn.killed or not usable:
                self._drop()

    def _ask(self, process: _Process, sql: str, project: int, turn: _Turn) -> bytes:
        settings = self._settings
        request = QueryRequest(
            sql, project, settings.query_default_rows, settings.query_most_rows, settings.query_most_bytes
        )
        if process.have is None:
            process.have = process.read(Ready).state
        with turn.limited(process, settings.query_seconds):
            write(process.sink, request)
            people = process.read(UpdateNeeded).people
        with (
            self._store.snapshot(people=people) as cursor,
            suppress(BrokenPipeError),
        ):  # its last message has the reason
            process.have = send_update(cursor, process.have, process.sink, people=people)
        process.read(Running)
        with turn.limited(process, settings.query_seconds):
            return process.read_bytes(process.read(QueryAnswer).length)

    def _ending(self, process: _Process, turn: _Turn) -> Exception:
        process.close()
        if self._closing:
            return Unavailable(CLOSING)
        if turn.ended is not None:
            return SlowQuery() if turn.ended == "slow" else Abandoned()
        if process.have is None:
            return Unavailable(f"the process of queries cannot start: {process.exit_reason()}")
        return MemoryExceeded(f"its process ended ({process.exit_reason()})")

    def _running_process(self) -> _Process:
        if self._process is not None and self._process.has_ended():
            self._drop()
        if self._process is None:
            try:
                if self._folder is None:
                    self._folder = Path(tempfile.mkdtemp(prefix="backcast-queries-"))
                self._process = _Process(self._folder, self._settings.query_memory, self._settings.project_timezone)
            except OSError as error:
                raise Unavailable(f"the process of queries cannot start: {error}") from None
        return self._process

    def _drop(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


class _QueryFailure(Exception):
    """The process answered why there is no result."""

    def __init__(self, failed: QueryFailed) -> None:
        super().__init__(failed.why)
        self.failed = failed


def _problem(failed: QueryFailed) -> Exception:
    kinds = {"refused": BadQuery, "memory": MemoryExceeded, "store": Unavailable}
    return kinds[failed.why](failed.text)


class _Turn:
    """One query's turn in the process; any thread may end it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self.ended: EndReason | None = None
        self.killed = False

    def end(self, why: EndReason) -> None:
        """Kill the process if it works on the query; a query that has not started never starts."""
        with self._lock:
            self.ended = self.ended or why
            if self._process is not None:
                self._process.kill()
                self.killed = True

    @contextmanager
    def limited(self, process: _Process, seconds: float) -> Iterator[None]:
        """Let the process work on the query for this many seconds. Raises EOFError if the turn has already ended."""
        with self._lock:
            if self.ended is not None:
                raise EOFError
            self._process = process
        timer = threading.Timer(seconds, self.end, ["slow"])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._process = None


class _Process:
    """The running process and the pipes to it. It ends when this process does, however this one ends."""

    def __init__(self, folder: Path, memory: int, timezone: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKCAST_")}
        self._running = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=sys.path, folder=str(folder), memory=memory, timezone=timezone)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment | _ENVIRONMENT,
            start_new_session=True,  # Ctrl-C in a terminal is for the service
        )
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        self.sink: IO[bytes] = self._running.stdin
        self._source: IO[bytes] = self._running.stdout
        self.have: CopyState | None = None
        """How much of the store it has; None before its first message."""

    def read(self, kind: type[Kind]) -> Kind:
        """The next message, which must be of this kind. Raises _QueryFailure, EOFError."""
        reply = read(self._source, Reply)
        if isinstance(reply, QueryFailed):
            raise _QueryFailure(reply)
        assert isinstance(reply, kind)
        return reply

    def read_bytes(self, length: int) -> bytes:
        """The bytes after a message. Raises EOFError if there are fewer."""
        content = self._source.read(length)
        if len(content) < length:
            raise EOFError
        return content

    def kill(self) -> None:
        self._running.kill()

    def has_ended(self) -> bool:
        return self._running.poll() is not None

    def exit_reason(self) -> str:
        code = self._running.wait()
        return signal.Signals(-code).name if code < 0 else f"exit {code}"

    def close(self) -> None:
        self.kill()
        self._running.wait()
        for pipe in (self.sink, self._source):
            with suppress(OSError):  # the buffered bytes cannot be sent
                pipe.close()
