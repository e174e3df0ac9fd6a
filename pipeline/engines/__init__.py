"""Where blocks are transformed: one protocol, and a file for each engine.

    local    worker processes of this machine: the default
    dask     the workers of a Dask cluster (`backcast[dask]`)
    spark    the executors of a Spark cluster (`backcast[spark]`)

An engine is given a function and tasks, and gives back each task with its result, in the order of the tasks. Blocks are
pure work: an engine may run one anywhere and any number of times, and whatever of it is lost is computed again. The
process that asked, the *parent*, owns the ledger and the network: measured, an engine's retries around a request made
31 thousand to 3.4 million events too many, so no request is ever made in a worker.

A file here is an engine where it has a function `open_engine(address, requested, size)`. Nothing is imported before it
is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline.batcher import Envelope
    from pipeline.transform.block import BlockTransformer
    from pipeline.transform.tasks import TransformConfig

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
"""What a worker is given, a NamedTuple. Where it has a `block` with `content`, those bytes travel apart from it."""


class Rest(NamedTuple, Generic[S]):
    """What processes retain of several tasks. `ask` runs in a process after some of its tasks, at the latest after the
    last one; `add` gets its result in the parent. In what order and how often, only the engine decides."""

    ask: Callable[[BlockTransformer], S]
    add: Callable[[S], object]


class Engine(Protocol):
    """Use as a context manager; one inside another on the same object goes on with the same processes, and ends them.

    `count` is the number of processes, 0 where the work is done in this one.
    """

    @property
    def count(self) -> int: ...

    def __enter__(self) -> Engine: ...

    def __exit__(self, *raised: object) -> None: ...

    def configure(self, config: TransformConfig, envelope: Envelope | None = None) -> None:
        """Say what decides the events; before each first walk. Raises Unfinished where no process can be reached."""

    def elsewhere(self, count: int) -> AbstractContextManager[Callable[[], Engine]]:
        """Inside, what makes in each of `count` other processes an engine, not started, that has its part of the
        processes of this one, or all of a cluster's together with the others."""

    def reads(self, file: Path) -> bool:
        """Whether every process can read a file of this machine by the same name."""

    def walk(
        self, function: Callable[[BlockTransformer, W], R], tasks: Iterable[W], rest: Rest[Any] | None = None
    ) -> Iterator[tuple[W, R]]:
        """Each task with its result, in the order of the tasks, of which only a few are taken ahead.

        Raises what the function raises, and Unfinished where a process was lost and its work cannot be done again.
        """


def open_engine(named: str, requested: int | None, size: int) -> Engine:
    """The engine that `--engine NAME[=ADDRESS]` names, not started. `requested` is its number of processes, None for
    its own choice for an export of `size` bytes. Raises UsageError."""
    name, _, address = named.partition("=")
    engine: Engine = import_module(f"{__name__}.{name}").open_engine(address, requested, size)
    return engine
