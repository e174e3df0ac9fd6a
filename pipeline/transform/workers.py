"""Worker processes: blocks out, results back in order, memory bounded.

The parent alone owns the network, the ledger and the plan; a worker only turns a block into something. What a block
holds that a worker cannot read by itself (an archive's bytes) travels through shared memory, since a pipe copies it
twice at a tenth of the speed.

Processes take as long to start as a command takes to load, so they may be started first and briefed later: nothing
heavy is imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from multiprocessing import connection, resource_tracker, shared_memory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pipeline.errors import BackcastError, Unfinished

if TYPE_CHECKING:
    from pipeline.transform.block import BlockTransformer
    from pipeline.transform.tasks import Task, TransformConfig

R = TypeVar("R")

AHEAD = 2
"""Tasks a worker may hold: one in hand, one waiting, so that it never waits for the parent."""


class _Shared(NamedTuple):
    """Where a block's bytes lie instead of in the message."""

    name: str
    length: int


class Workers:
    """A few processes that share one config. With `count` 0 the work is done in this process, one block at a time.

    Use as a context manager; one inside another on the same object goes on with the same processes, and ends them.
    Without a config they are to be briefed before the first walk. `walk` may be called several times, one after the
    other.
    """

    def __init__(self, count: int, config: TransformConfig | None = None, project_key: str = "") -> None:
        self._count = count
        self._config = config
        self._project_key = project_key
        self._briefed = False
        self._members: list[tuple[Any, connection.Connection]] = []
        self._free: list[shared_memory.SharedMemory] = []
        self._all: list[shared_memory.SharedMemory] = []
        self._transformer: BlockTransformer | None = None

    @property
    def count(self) -> int:
        """How many processes there are to be."""
        return self._count

    def __enter__(self) -> Workers:
        if self._count and not self._members:
            # numpy would start a thread for each processor, for algebra that nobody does here.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            context = multiprocessing.get_context("spawn")
            with _anonymous_main(), _deaf_to_interrupts():
                for _ in range(self._count):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_serve, args=(theirs,), daemon=True, name="backcast-worker")
                    process.start()
                    theirs.close()
                    self._members.append((process, ours))
        if self._config is not None:
            self.configure(self._config, self._project_key)
        return self

    def configure(self, config: TransformConfig, project_key: str = "") -> None:
        """Say what the work is, once. Raises Unfinished where a process has died."""
        self._briefed = True
        if self._count == 0:
            from pipeline.transform.block import BlockTransformer

            self._transformer = BlockTransformer(config, project_key)
        for _, pipe in self._members:
            try:
                _tell(pipe, (config, project_key))
            except (BrokenPipeError, ConnectionResetError):
                died = self._died(pipe)
                self.__exit__()
                raise died from None

    def __exit__(self, *raised: object) -> None:
        for _, pipe in self._members:
            pipe.close()
        for process, _ in self._members:
            process.join(0.2 if self._briefed else 0)
            if process.is_alive():
                process.terminate()
                process.join(5)
        for memory in self._all:
            memory.close()
            memory.unlink()
        self._members.clear()
        self._all.clear()
        self._free.clear()

    def walk(self, function: Callable[[BlockTransformer, Task], R], tasks: Iterable[Task]) -> Iterator[tuple[Task, R]]:
        """Each task with its result, in the tasks' order. A few tasks are ahead of the one given, no more."""
        if self._transformer is not None:
            for task in tasks:
                yield task, function(self._transformer, task)
            return
        yield from self._walk(function, iter(tasks))

    def ask_each(self, function: Callable[[BlockTransformer], R]) -> Iterator[R]:
        """What each process answers, after a walk, in no order that matters."""
        if self._transformer is not None:
            yield function(self._transformer)
            return
        for _, pipe in self._members:
            self._send_member(pipe, (function, None))
        for _, pipe in self._members:
            yield self._receive(pipe)

    def _walk(self, function: Callable[[BlockTransformer, Task], R], tasks: Iterator[Task]) -> Iterator[tuple[Task, R]]:
        window = len(self._members) * AHEAD + 1
        waiting: deque[Task] = deque()
        done: dict[int, R] = {}
        holding: dict[connection.Connection, deque[tuple[int, shared_memory.SharedMemory | None]]] = {
            pipe: deque() for _, pipe in self._members
        }
        sent = given = 0
        exhausted = False
        while not (exhausted and not waiting):
            while not exhausted and sent - given < window:
                pipe = min(holding, key=lambda one: len(holding[one]))
                if len(holding[pipe]) >= AHEAD:
                    break
                task = next(tasks, None)
                if task is None:
                    exhausted = True
                    break
                holding[pipe].append((sent, self._send(pipe, function, task)))
                waiting.append(task)
                sent += 1
            busy = [pipe for pipe, held in holding.items() if held]
            if busy and given not in done:
                for ready in connection.wait(busy):
                    pipe = ready  # type: ignore[assignment]
                    number, memory = holding[pipe].popleft()
                    done[number] = self._receive(pipe)
                    if memory is not None:
                        self._free.append(memory)
            while given in done:
                yield waiting.popleft(), done.pop(given)
                given += 1

    def _send(
        self, pipe: connection.Connection, function: Callable[[BlockTransformer, Task], R], task: Task
    ) -> shared_memory.SharedMemory | None:
        content = task.block.content
        memory = None
        if content is not None:
            size = len(content)
            memory = self._slot(size)
            if memory is not None:
                memory.buf[:size] = content  # type: ignore[index]
                task = task._replace(block=_with_content(task, _Shared(memory.name, size)))
        self._send_member(pipe, (function, task))
        return memory

    def _send_member(self, pipe: connection.Connection, message: Any) -> None:
        try:
            _tell(pipe, message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died(pipe) from None

    def _receive(self, pipe: connection.Connection) -> Any:
        try:
            failed, result = pickle.loads(pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise self._died(pipe) from None
        if failed:
            raise result
        return result

    def _died(self, pipe: connection.Connection) -> BackcastError:
        process = next(process for process, own in self._members if own is pipe)
        process.join(2)
        return Unfinished(
            f"a worker process ended by itself (exit {process.exitcode})",
            hint="run the same command again; with --workers 1 it needs less memory",
        )

    def _slot(self, size: int) -> shared_memory.SharedMemory | None:
        """Shared memory that is free and large enough; None where the machine has none to give."""
        for index, memory in enumerate(self._free):
            if memory.size >= size:
                return self._free.pop(index)
        try:
            memory = shared_memory.SharedMemory(create=True, size=size + size // 8)
            with contextlib.suppress(AttributeError):
                # Reserve it now: running out later would kill the process by a signal.
                os.posix_fallocate(memory._fd, 0, memory.size)  # type: ignore[attr-defined]
        except OSError:
            return None
        self._all.append(memory)
        return memory


def _tell(pipe: connection.Connection, message: Any) -> None:
    """Send a message as bytes of our own: `Connection.send` leaves a buffer behind when the other end is gone, over
    which the collector of Python 3.12 stumbles as the process ends."""
    pipe.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def _with_content(task: Task, content: Any) -> Any:
    block = task.block
    return type(block)(block.part, block.index, block.offset, block.length, content)


SMALL = 8 * 1024 * 1024
"""An export of fewer bytes is read in this process: starting others would take longer."""


def count_for(asked: int | None, size: int) -> int:
    """How many to start for an export of `size` bytes, unless somebody asked for a number."""
    if asked is not None:
        return asked
    return 0 if size < SMALL else default_workers()


def default_workers() -> int:
    """One for each processor that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@contextlib.contextmanager
def _anonymous_main() -> Iterator[None]:
    """Start processes without running the caller's script again in each.

    A script that calls the library from its top level would otherwise start itself anew in every worker.
    """
    real = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = real


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that never hear the terminal's Ctrl-C: it is their parent's to answer."""
    resource_tracker.ensure_running()  # by starting it, `multiprocessing` would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: connection.Connection) -> None:
    """A worker's life: the config first, then tasks until the parent is gone."""
    from pipeline.transform.block import BlockTransformer

    for name in ("pipeline.mapper", "pipeline.extractors.formats"):  # what a config will need
        import_module(name)
    keep_memory()
    attached: dict[str, shared_memory.SharedMemory] = {}
    try:
        transformer: BlockTransformer | Exception
        try:
            transformer = BlockTransformer(*pickle.loads(pipe.recv_bytes()))
        except EOFError:
            return
        except Exception as error:
            transformer = error
        gc.collect()
        gc.freeze()
        gc.disable()
        served = 0
        while True:
            function, task = pickle.loads(pipe.recv_bytes())
            try:
                if isinstance(transformer, Exception):
                    raise transformer
                result = (
                    False,
                    function(transformer) if task is None else function(transformer, _attach(task, attached)),
                )
            except Exception as error:
                result = (True, error if isinstance(error, BackcastError) else _portable(error))
            pipe.send_bytes(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
            served += 1
            if served % 64 == 0:
                gc.collect()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _attach(task: Task, attached: dict[str, shared_memory.SharedMemory]) -> Task:
    content: Any = task.block.content
    if not isinstance(content, _Shared):
        return task
    memory = attached.get(content.name)
    if memory is None:
        memory = attached[content.name] = shared_memory.SharedMemory(content.name)
    return task._replace(block=_with_content(task, bytes(memory.buf[: content.length])))  # type: ignore[index]


def _portable(error: Exception) -> Exception:
    """The error itself if it can cross to the parent, else its words."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def keep_memory() -> None:
    """Keep freed blocks of a few MiB for the next one: giving each back to the system costs a page fault per 4 KiB."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 64 << 20)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 128 << 20)  # M_TRIM_THRESHOLD
