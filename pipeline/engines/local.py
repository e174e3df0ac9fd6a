"""The engine of one machine: worker processes, blocks out, results back in order, memory bounded.

The bytes of a block that a worker cannot read by itself (an archive's member) travel through shared memory, since a
pipe copies them twice at a tenth of the speed.

`concurrent.futures.ProcessPoolExecutor` does not serve: its processes outlive a parent that is killed, take their
configuration only as they start, and cannot be asked one by one for what they have aggregated.

Processes take as long to start as a command takes to load, so they may be started first and configured later: nothing
heavy is imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pipeline.engines.processes import (
    content_of,
    default_workers,
    picklable,
    retain_freed_memory,
    start_quietly,
    with_content,
)
from pipeline.errors import BackcastError, Unfinished, UsageError

if TYPE_CHECKING:
    from multiprocessing import connection, context
    from multiprocessing.shared_memory import SharedMemory
    from pathlib import Path

    from pipeline.batcher import Envelope
    from pipeline.engines import Rest
    from pipeline.transform.block import BlockTransformer
    from pipeline.transform.tasks import TransformConfig

R = TypeVar("R")
W = TypeVar("W")

AHEAD = 2
"""Tasks a worker may have: one in work, one waiting, so that it never waits for the parent."""
SMALL = 8 * 1024 * 1024
"""An export of fewer bytes is read in this process: starting others would take longer."""
_COLLECT_EVERY = 64
"""A worker runs the cyclic garbage collector after this many tasks, instead of whenever Python would; a walk of more
tasks ends with the return of its memory."""


class _Sent(msgspec.Struct):
    """A task that a worker has; `memory` contains its block's bytes, None where the worker reads them itself."""

    task: Any
    memory: SharedMemory | None
    result: Any = None
    done: bool = False


class _Worker:
    """A process and the pipe to it. `sent` are the tasks that it has not answered, oldest first."""

    def __init__(self, spawning: context.SpawnContext) -> None:
        self.pipe, theirs = spawning.Pipe()
        self.process = spawning.Process(target=_serve, args=(theirs,), daemon=True, name="backcast-worker")
        self.process.start()
        theirs.close()
        self.sent: deque[_Sent] = deque()

    def send(self, message: Any) -> None:
        """Raises Unfinished where the process has died.

        `Connection.send` is not used: it leaves a buffer behind when the other end is gone, over which the garbage
        collector of Python 3.12 stumbles as the process ends.
        """
        try:
            self.pipe.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None

    def receive(self) -> Any:
        """The next result. Raises the exception of the task, and Unfinished where the process has died."""
        try:
            failed, result = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise self._died() from None
        if failed:
            raise result
        return result

    def _died(self) -> BackcastError:
        self.process.join(2)
        return Unfinished(
            f"a worker process ended by itself (exit {self.process.exitcode})",
            hint="run the same command again; with --workers 1 it needs less memory",
        )


class Workers:
    """A few processes that share one config. With `count` 0 the work is done in this process, one block at a time.

    Use as a context manager; one inside another on the same object goes on with the same processes, and ends them.
    Without a config `configure` has to be called before the first walk. `walk` may be called several times, one after
    the other.
    """

    def __init__(self, count: int, config: TransformConfig | None = None, envelope: Envelope | None = None) -> None:
        self.count = count
        self._config = config
        self._envelope = envelope
        self._configured = False
        self._workers: list[_Worker] = []
        self._free: list[SharedMemory] = []
        self._all: list[SharedMemory] = []
        self._transformer: BlockTransformer | None = None

    def __enter__(self) -> Workers:
        if self.count and not self._workers:
            import multiprocessing

            spawning = multiprocessing.get_context("spawn")
            with start_quietly():
                for _ in range(self.count):
                    self._workers.append(_Worker(spawning))
        if self._config is not None:
            self.configure(self._config, self._envelope)
        return self

    def configure(self, config: TransformConfig, envelope: Envelope | None = None) -> None:
        """Send the config to all processes, once. Raises Unfinished where a process has died."""
        self._configured = True
        if self.count == 0:
            from pipeline.transform.block import BlockTransformer

            self._transformer = BlockTransformer(config, envelope)
        for worker in self._workers:
            try:
                worker.send((config, envelope))
            except Unfinished:
                self.__exit__()
                raise

    @contextlib.contextmanager
    def elsewhere(self, count: int) -> Iterator[Callable[[], Workers]]:
        yield partial(Workers, -(-self.count // count))

    def reads(self, file: Path) -> bool:
        return True

    def __exit__(self, *raised: object) -> None:
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(0.2 if self._configured else 0)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join(5)
        for memory in self._all:
            memory.close()
            memory.unlink()
        self._workers.clear()
        self._all.clear()
        self._free.clear()

    def walk(
        self, function: Callable[[BlockTransformer, W], R], tasks: Iterable[W], rest: Rest[Any] | None = None
    ) -> Iterator[tuple[W, R]]:
        """Each task with its result, in the order of the tasks, of which only a few are taken ahead."""
        if self._transformer is not None:
            for task in tasks:
                yield task, function(self._transformer, task)
            if rest is not None:
                rest.add(rest.ask(self._transformer))
            return
        answered = 0
        for result in self._walk(function, tasks):
            answered += 1
            yield result
        if rest is not None:
            for result in self._ask(rest.ask):
                rest.add(result)
        if answered > _COLLECT_EVERY:  # a short walk, such as one of a few blocks under --limit, is followed by others
            self._ask(_release_memory)

    def _ask(self, function: Callable[[BlockTransformer], R]) -> list[R]:
        """The result of a function in each process."""
        for worker in self._workers:
            worker.send((function, None, None))
        return [worker.receive() for worker in self._workers]

    def _walk(self, function: Callable[[BlockTransformer, W], R], tasks: Iterable[W]) -> Iterator[tuple[W, R]]:
        window = len(self._workers) * AHEAD + 1
        remaining = iter(tasks)
        in_order: deque[_Sent] = deque()
        while True:
            while len(in_order) < window:
                worker = min(self._workers, key=lambda worker: len(worker.sent))
                following = next(remaining, None) if len(worker.sent) < AHEAD else None
                if following is None:
                    break
                in_order.append(self._send(worker, function, following))
            if not in_order:
                return
            if not in_order[0].done:
                self._receive_ready()
            while in_order and in_order[0].done:
                first = in_order.popleft()
                yield first.task, first.result

    def _send(self, worker: _Worker, function: Callable[[BlockTransformer, Any], R], task: Any) -> _Sent:
        content = content_of(task)
        memory = None if content is None else self._shared_memory(len(content))
        shared: tuple[str, int] | None = None
        if content is not None and memory is not None:
            memory.buf[: len(content)] = content  # type: ignore[index]
            shared = memory.name, len(content)
            task = with_content(task, None)
        worker.send((function, task, shared))
        worker.sent.append(_Sent(task, memory))
        return worker.sent[-1]

    def _receive_ready(self) -> None:
        """Wait for a result, and take one from each worker that has any."""
        from multiprocessing import connection

        busy = {worker.pipe: worker for worker in self._workers if worker.sent}
        for pipe in connection.wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            sent = worker.sent.popleft()
            sent.result = worker.receive()
            sent.done = True
            if sent.memory is not None:
                self._free.append(sent.memory)

    def _shared_memory(self, size: int) -> SharedMemory | None:
        """Shared memory that is free and large enough; None where the machine has none left."""
        for index, memory in enumerate(self._free):
            if memory.size >= size:
                return self._free.pop(index)
        from multiprocessing.shared_memory import SharedMemory

        try:
            memory = SharedMemory(create=True, size=size + size // 8)
            with contextlib.suppress(AttributeError):
                # Reserve it now: running out later would kill the process by a signal.
                os.posix_fallocate(memory._fd, 0, memory.size)  # type: ignore[attr-defined]
        except OSError:
            return None
        self._all.append(memory)
        return memory


def count_for(requested: int | None, size: int) -> int:
    """How many to start for an export of `size` bytes: `requested`, or one for each processor."""
    if requested is not None:
        return requested
    return 0 if size < SMALL else default_workers()


def open_engine(address: str, requested: int | None, size: int) -> Workers:
    """The engine that runs where nothing else is asked for. Raises UsageError where it is given an address."""
    if address:
        raise UsageError(f"the engine local has no address, and {address!r} is given", hint="use --engine local")
    return Workers(count_for(requested, size))


def _serve(pipe: connection.Connection) -> None:
    """Run in a worker: receive the config, then answer tasks until the parent is gone."""
    gc.disable()
    from pipeline.transform.block import BlockTransformer

    for name in ("pipeline.mapper.compiler", "pipeline.extractors.formats"):  # what a config will need
        import_module(name)
    retain_freed_memory()
    attached: dict[str, SharedMemory] = {}
    transformer: BlockTransformer | Exception
    try:
        config = pipe.recv_bytes()
        try:
            transformer = BlockTransformer(*pickle.loads(config))
        except Exception as error:
            transformer = error
        gc.collect()
        gc.freeze()
        for answered in count(1):
            function, task, shared = pickle.loads(pipe.recv_bytes())
            try:
                if isinstance(transformer, Exception):
                    raise transformer
                if shared is not None:
                    task = with_content(task, _copy_shared(shared, attached))
                answer = False, function(transformer) if task is None else function(transformer, task)
            except Exception as error:
                answer = True, error if isinstance(error, BackcastError) else picklable(error)
            pipe.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
            if answered % _COLLECT_EVERY == 0:
                gc.collect()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _release_memory(_: BlockTransformer) -> None:
    """Return what blocks needed to the system: the process waits now, while the parent may need memory."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _copy_shared(shared: tuple[str, int], attached: dict[str, SharedMemory]) -> bytes:
    name, length = shared
    memory = attached.get(name)
    if memory is None:
        from multiprocessing.shared_memory import SharedMemory

        memory = attached[name] = SharedMemory(name)
    return bytes(memory.buf[:length])  # type: ignore[index]
