"""Runs a plan's work: `map(function, tasks)`, with one file for each engine.

    local    this process, or worker processes of this machine: the default
    dask     the workers of a Dask cluster (`backcast[dask]`)
    spark    the executors of a Spark cluster (`backcast[spark]`)

Tasks are pure work: an engine may run one anywhere and any number of times, and whatever is lost is computed again.
Workers write large results to the plan's directory, which all see under the same path, and return a few numbers. The
process that asked, the *parent*, owns the ledger and the network: in measurements, an engine's retries around a request
sent 31 thousand to 3.4 million events too many, so a worker never makes a request.

A file here is an engine if it has a function `open_engine(address, requested, size)`. Nothing is imported before it is
asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.engines.engine import Engine


def open_engine(named: str, requested: int | None, size: int) -> Engine:
    """The engine that `--engine NAME[=ADDRESS]` names, not started. `requested` is its number of processes; None lets
    it choose for an export of `size` bytes. Raises UsageError."""
    name, _, address = named.partition("=")
    engine: Engine = import_module(f"{__name__}.{name}").open_engine(address, requested, size)
    return engine
