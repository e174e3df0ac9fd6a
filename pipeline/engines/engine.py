"""What all engines share: tasks go out, results come back in order, only a few ahead.

A thread waits for each running task, so an engine only has to say how it runs one (`_call`).
"""

from __future__ import annotations

import copyreg
import hashlib
import io
import pickle
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pipeline.engines.agreement import versions
from pipeline.errors import Unfinished, UsageError
from pipeline.text import pluralize

if TYPE_CHECKING:
    from pipeline.transform.block import BlockTransformer
    from pipeline.transform.tasks import TransformConfig

R = TypeVar("R")
W = TypeVar("W")

AHEAD = 2
"""Tasks that a worker may have: one running, one waiting, so that it never waits for the parent."""
MOST_AT_ONCE = 256
AGAIN = "run the same command again: it continues after the blocks that are finished"


class WorkersEnded(Exception):
    """`times` processes ended, one after another, while running the same task."""

    def __init__(self, times: int) -> None:
        super().__init__(times)
        self.times = times


def check_asked(name: str, library: str, more: str, requested: int | None, address: str) -> None:
    """Raise UsageError if the library of an engine is missing, or if --workers is impossible."""
    if find_spec(library) is None:
        hint = f"install it: pip install 'backcast[{name}]'{more}"
        raise UsageError(f"the engine {name} needs the library {library}", hint=hint)
    if requested == 0:
        raise UsageError(f"--workers 0 cannot be combined with --engine {name}", hint="leave one of them out")
    if address and requested is not None:
        raise UsageError(
            f"--workers {requested} applies to processes started here, but {address} has its own",
            hint="leave out --workers",
        )


class Engine(ABC):
    """Use as a context manager. One inside another on the same object continues with the same processes and ends them.

    `count` is the number of processes, 0 if the work is done in this one. The processes of an engine that is
    `elsewhere` read the config from `file`, in the plan's directory.
    """

    elsewhere = True

    def __init__(self, count: int) -> None:
        self.count = count
        self.given = b""
        """The versions that a process must have, and the config, pickled."""
        self.digest = ""
        self.file = Path()
        self._config: TransformConfig | None = None
        self._threads: ThreadPoolExecutor | None = None

    @abstractmethod
    def __enter__(self) -> Self:
        """Start. Raises UsageError if no process can be started or reached."""

    def __exit__(self, *raised: object) -> None:
        self._end()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    @abstractmethod
    def _end(self) -> None:
        """End the processes. Running tasks fail."""

    @abstractmethod
    def _call(self, task: bytes) -> bytes:
        """`pipeline.engines.worker.run` on a task in any process. Called from many threads. Raises WorkersEnded,
        Unfinished, UsageError."""

    def configure(self, config: TransformConfig) -> None:
        """Set the config that decides the events; call it before the first `map`."""
        self._config = config
        self.given = packed((versions(), config))
        self.digest = hashlib.sha256(self.given).hexdigest()
        if self.elsewhere and config.staging is not None:
            self.file = config.staging.absolute() / "config"
            self.file.write_bytes(self.given)

    def _at_once(self) -> int:
        """How many tasks run or wait at once."""
        return min(max(self.count, 1) * AHEAD + 1, MOST_AT_ONCE)

    def map(self, function: Callable[[BlockTransformer, W], R], tasks: Iterable[W]) -> Iterator[tuple[W, R]]:
        """Each task with its result, in the order of the tasks; only a few tasks are taken ahead.

        Raises what the function raises, and Unfinished if a process was lost and its work cannot be done again.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "engine")
        remaining = iter(tasks)
        waiting: deque[tuple[W, Future[R]]] = deque()
        try:
            while True:
                for task in remaining:
                    waiting.append((task, self._threads.submit(self._run, function, task)))
                    if len(waiting) >= self._at_once():
                        break
                if not waiting:
                    return
                task, future = waiting.popleft()
                try:
                    result = future.result()
                except WorkersEnded as ended:
                    raise self._too_often(ended, task) from None
                yield task, result
        finally:
            for _, future in waiting:
                future.cancel()

    def _run(self, function: Callable[[BlockTransformer, W], R], task: W) -> R:
        result, error = pickle.loads(self._call(packed((function, task))))
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def _too_often(self, ended: WorkersEnded, task: Any) -> Unfinished:
        parts = () if self._config is None else self._config.parts
        blocks = [one.block for one in getattr(task, "tasks", ())]
        names = [f"block {block.index} of {parts[block.part].path}" for block in blocks[:1] + blocks[-1:]]
        work = " to ".join(dict.fromkeys(names)) or "a table of the plan"
        return Unfinished(
            f"{pluralize(ended.times, 'worker')} ended, one after another, while working on {work}; the usual reason is"
            " too little memory",
            hint=f"give each worker more memory, or start fewer per machine; then {AGAIN}",
        )


def packed(value: object) -> bytes:
    content = io.BytesIO()
    _Pickler(content, pickle.HIGHEST_PROTOCOL).dump(value)
    return content.getvalue()


class _Pickler(pickle.Pickler):
    """A path that leaves this process is made absolute, since another process has another working directory; a slice of
    a larger buffer is copied."""

    dispatch_table = copyreg.dispatch_table | {
        type(Path()): lambda path: (Path, (str(path.absolute()),)),
        memoryview: lambda content: (bytes, (bytes(content),)),
    }
