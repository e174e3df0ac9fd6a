"""What engines of other machines have in common: a few blocks at a time, from bytes to bytes.

A *unit* is a function and a few consecutive tasks. A process that runs one gives back everything that came of it, and
retains nothing but the compiled mapping: so a unit may be run again anywhere when its process is lost, and its result
is the same. An exception of a task is part of the result, since an engine would log it with what the task was given.
"""

from __future__ import annotations

import gc
import hashlib
import pickle
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pipeline.engines.local import picklable
from pipeline.errors import BackcastError, UsageError

if TYPE_CHECKING:
    from pipeline.batcher import Envelope
    from pipeline.engines import Rest
    from pipeline.transform.block import BlockTransformer
    from pipeline.transform.tasks import TransformConfig

R = TypeVar("R")
W = TypeVar("W")

SEALING_LIBRARIES = ("msgspec", "tzdata", "pyarrow", "ua-parser", "ua-parser-builtins")
"""Libraries whose version can change an event; recorded in a plan, and named when a block's digest differs."""
BLOCKS = 4
"""Blocks of a unit: with fewer, the cost of a unit shows; with more, its result is large and the end uneven."""
MOST_BYTES = 2 * 4 * 1024 * 1024
"""Bytes of blocks that travel with a unit because no worker can read them by itself."""


class _Answer(NamedTuple):
    """The results of the tasks, in order; what was retained of them; and the error that ended the unit, if any."""

    results: list[Any]
    retained: Any
    error: Exception | None


class UnitEngine(ABC):
    """An engine that runs units. `count` is the number of processes that were there at its start."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._config = b""
        self._digest = ""

    @abstractmethod
    def __enter__(self) -> UnitEngine: ...

    @abstractmethod
    def __exit__(self, *raised: object) -> None: ...

    @abstractmethod
    def _run(self, units: Iterator[bytes]) -> Iterator[bytes]:
        """`run_unit` of each unit with the config, in order. Takes only a few units ahead."""

    def configure(self, config: TransformConfig, envelope: Envelope | None = None) -> None:
        self._config = pickle.dumps((config, envelope), pickle.HIGHEST_PROTOCOL)
        self._digest = hashlib.sha256(self._config).hexdigest()

    def walk(
        self, function: Callable[[BlockTransformer, W], R], tasks: Iterable[W], rest: Rest[Any] | None = None
    ) -> Iterator[tuple[W, R]]:
        """Each task with its result, in the order of the tasks."""
        waiting: deque[list[W]] = deque()

        def units() -> Iterator[bytes]:
            for some in _units_of(tasks):
                waiting.append([_without_content(task) for task in some])
                yield pickle.dumps(
                    (function, rest and rest.ask, [_sent(task) for task in some]), pickle.HIGHEST_PROTOCOL
                )

        for packed in self._run(units()):
            answer: _Answer = pickle.loads(packed)
            yield from zip(waiting.popleft(), answer.results, strict=False)  # fewer results where one failed
            if answer.error is not None:
                raise answer.error
            if rest is not None:
                rest.add(answer.retained)


def _units_of(tasks: Iterable[Any]) -> Iterator[list[Any]]:
    unit: list[Any] = []
    carried = 0
    for task in tasks:
        unit.append(task)
        carried += len(task.block.content or b"")
        if len(unit) == BLOCKS or carried >= MOST_BYTES:
            yield unit
            unit, carried = [], 0
    if unit:
        yield unit


def _sent(task: Any) -> Any:
    """The task as it can be pickled: what was cut from a larger buffer is a view of it."""
    content = task.block.content
    return task if content is None else task._replace(block=replace(task.block, content=bytes(content)))


def _without_content(task: Any) -> Any:
    return task if task.block.content is None else task._replace(block=replace(task.block, content=None))


# -- in a process of the engine ------------------------------------------------------------------------------

_own = threading.local()
"""The transformer of this thread, with the digest of its config: a process of Dask may have several threads."""


def run_unit(config: bytes, digest: str, unit: bytes) -> bytes:
    """Run a unit, with the transformer of an earlier one where it has the same config. Raises nothing of the tasks."""
    function, ask, tasks = pickle.loads(unit)
    results: list[Any] = []
    retained = error = None
    collects = gc.isenabled()
    gc.disable()  # a block makes millions of objects, none of them in a cycle
    try:
        transformer = _transformer(config, digest)
        results.extend(function(transformer, task) for task in tasks)
        retained = None if ask is None else ask(transformer)
    except Exception as raised:
        _own.digest = ""  # it may retain a part of this unit
        error = picklable(raised)
    finally:
        if collects:
            gc.enable()
    return pickle.dumps(_Answer(results, retained, error), pickle.HIGHEST_PROTOCOL)


def _transformer(config: bytes, digest: str) -> BlockTransformer:
    from pipeline.transform.block import BlockTransformer

    if getattr(_own, "digest", "") != digest:
        _own.transformer = BlockTransformer(*pickle.loads(config))
        _own.digest = digest
    transformer: BlockTransformer = _own.transformer
    return transformer


def unreadable(names: Sequence[str]) -> list[str]:
    """Why files and objects cannot be read in this process, a line each."""
    from pipeline import storage

    wrong = []
    for name in names:
        try:
            storage.status(name)
        except (OSError, BackcastError) as error:
            wrong.append(f"{name}: {error}")
    return wrong


def versions() -> dict[str, str]:
    """The versions of this process that decide the bytes of an event, by name."""
    from importlib.metadata import version

    return {name: version(name) for name in ("backcast", *SEALING_LIBRARIES)}


# -- in the parent, of what was asked of each process ----------------------------------------------------------


def refuse_others(found: Mapping[str, Mapping[str, str]]) -> None:
    """Raise UsageError where a process would make other events than this one: `versions` of each, by its name."""
    own = versions()
    for worker, theirs in sorted(found.items()):
        wrong = [f"{name} {theirs.get(name)}, and here {one}" for name, one in own.items() if theirs.get(name) != one]
        if wrong:
            raise UsageError(f"the worker {worker} has {'; '.join(wrong)}", hint="install the same versions everywhere")


def refuse_unreadable(found: Mapping[str, Sequence[str]]) -> None:
    """Raise UsageError where a process cannot read a file that it will need: `unreadable` of each, by its name."""
    for worker, wrong in sorted(found.items()):
        if wrong:
            raise UsageError(
                f"the worker {worker} cannot read {wrong[0]}",
                hint="put the export and the plan where every worker has them by the same path, or the export in an"
                " object store",
            )
