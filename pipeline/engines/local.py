"""The engine of one machine: this process, or worker processes on it.

`concurrent.futures.ProcessPoolExecutor` will not do: its processes outlive a killed parent, and get their configuration
only at their start. Processes take as long to start as a command takes to load, so they are started first and get their
tasks later: nothing heavy is imported here.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from queue import LifoQueue
from typing import TYPE_CHECKING, TypeVar

from pipeline.engines.engine import AGAIN, Engine
from pipeline.engines.processes import default_workers, start_quietly
from pipeline.errors import Unfinished, UsageError

if TYPE_CHECKING:
    from multiprocessing import connection, context

    from pipeline.transform.block import BlockTransformer
    from pipeline.transform.tasks import TransformConfig

R = TypeVar("R")
W = TypeVar("W")

SMALL = 8 * 1024 * 1024
"""A smaller export, in bytes, is read in this process: starting others would take longer."""


def open_engine(address: str, requested: int | None, size: int) -> Workers:
    """The default engine. Raises UsageError if it is given an address."""
    if address:
        raise UsageError(f"the engine local takes no address, but {address!r} was given", hint="use --engine local")
    return Workers(count_for(requested, size))


def count_for(requested: int | None, size: int) -> int:
    """How many to start for an export of `size` bytes: `requested`, or one per processor."""
    if requested is not None:
        return requested
    return 0 if size < SMALL else default_workers()


class _Worker:
    """A process and the pipe to it. `digest` is the digest of the config that it has."""

    def __init__(self, spawning: context.SpawnContext) -> None:
        self.pipe, theirs = spawning.Pipe()
        self.process = spawning.Process(target=_serve, args=(theirs,), daemon=True, name="backcast-worker")
        self.process.start()
        theirs.close()
        self.digest = ""

    def call(self, task: bytes, digest: str, given: bytes) -> bytes:
        """The packed result of a task. Raises Unfinished if the process has died."""
        try:
            # `Connection.send` leaves a buffer behind when the other end is gone; the garbage collector of Python 3.12
            # stumbles over it as the process ends.
            self.pipe.send_bytes(pickle.dumps((digest, given if digest != self.digest else b"")))
            self.pipe.send_bytes(task)
            self.digest = digest
            return self.pipe.recv_bytes()
        except (EOFError, OSError):
            self.process.join(2)
            raise Unfinished(
                f"a worker process ended by itself (exit {self.process.exitcode})",
                hint=f"{AGAIN}; --workers 1 needs less memory",
            ) from None


class Workers(Engine):
    """A few processes. With `count` 0, this process does the work, one task at a time."""

    elsewhere = False

    def __init__(self, count: int, config: TransformConfig | None = None) -> None:
        super().__init__(count)
        self._given_config = config
        self._workers: list[_Worker] = []
        self._idle: LifoQueue[_Worker] = LifoQueue()
        self._here: BlockTransformer | None = None

    def __enter__(self) -> Workers:
        if self.count and not self._workers:
            import multiprocessing

            spawning = multiprocessing.get_context("spawn")
            with start_quietly():
                self._workers = [_Worker(spawning) for _ in range(self.count)]
            for worker in self._workers:
                self._idle.put(worker)
        if self._given_config is not None:
            self.configure(self._given_config)
        return self

    def configure(self, config: TransformConfig) -> None:
        if self.count:
            super().configure(config)
        else:
            from pipeline.transform.block import BlockTransformer

            self._here = BlockTransformer(config)

    def map(self, function: Callable[[BlockTransformer, W], R], tasks: Iterable[W]) -> Iterator[tuple[W, R]]:
        if self._here is None:
            yield from super().map(function, tasks)
            return
        for task in tasks:
            yield task, function(self._here, task)

    def _call(self, task: bytes) -> bytes:
        idle = self._idle
        worker = idle.get()
        try:
            return worker.call(task, self.digest, self.given)
        finally:
            idle.put(worker)

    def _end(self) -> None:
        workers, self._workers, self._idle = self._workers, [], LifoQueue()
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join(5)


def _serve(pipe: connection.Connection) -> None:
    """Run in a worker: answer tasks until the parent is gone."""
    from pipeline.engines import worker

    for name in ("pipeline.transform.block", "pipeline.mapper.compiler", "pipeline.extractors.formats"):
        import_module(name)  # what a config will need
    gc.collect()
    gc.freeze()
    given = b""
    try:
        while True:
            digest, new = pickle.loads(pipe.recv_bytes())
            given = new or given
            task = pipe.recv_bytes()
            pipe.send_bytes(worker.run(digest, lambda: given, task))  # noqa: B023
            del task
            if not pipe.poll(0.2):
                worker.release_memory()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
