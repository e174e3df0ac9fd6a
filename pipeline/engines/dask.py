"""The engine of a Dask cluster: units are futures, and their results are taken in order as they come.

Without an address a cluster is started on this machine, and ended with the run. Each unit has a key of its own, so that
Dask takes no two for the same; the config is the result of a task, so that Dask can make it again wherever it is lost.
A worker that dies costs its units a second try elsewhere. Nothing is kept in the memory of a worker alone: what the
parent took is in its files, and the rest can be computed again.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count as counting
from typing import TYPE_CHECKING, Any

from pipeline.engines.local import default_workers, start_quietly
from pipeline.engines.units import UnitEngine, refuse_others, refuse_unreadable, run_unit, unreadable, versions
from pipeline.errors import Unfinished, UsageError

if TYPE_CHECKING:
    from distributed import Client, Future

    from pipeline.batcher import Envelope
    from pipeline.transform.tasks import TransformConfig

AHEAD = 2
"""Units that a thread of a worker may have: one in work, one waiting."""
CONNECT = 10
"""Seconds in which the scheduler has to answer, and a first worker to be there."""
LOST_AFTER = 60
"""Seconds without any worker after which the run ends."""
TICK = 5
"""Seconds after which a unit that has no result is looked after."""
HERE = "127.0.0.1:0"
"""Where a cluster that is started here answers HTTP, which cannot be turned off: a free port of this machine alone."""
SETTINGS = {
    "distributed.worker.memory.target": False,  # a cluster that is started here writes no event to its disk
    "distributed.worker.memory.spill": False,
    "distributed.scheduler.allowed-failures": 10,
    "distributed.admin.large-graph-warning-threshold": "1GB",  # a unit may have the bytes of its blocks with it
}


def open_engine(address: str, requested: int | None, size: int) -> DaskEngine:
    """Raises UsageError where the library is missing, or where a cluster of others is to have so many workers."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        hint = "install it: pip install 'backcast[dask]'"
        raise UsageError("the engine dask needs the library distributed", hint=hint) from None
    if requested == 0:
        raise UsageError("--workers 0 works in this process, and --engine dask does not", hint="leave one of them out")
    if address and requested is not None:
        raise UsageError(
            f"--workers {requested} is for processes that are started here, and the workers of {address} are there",
            hint="leave --workers out",
        )
    return DaskEngine(address, requested or default_workers())


class DaskEngine(UnitEngine):
    """The workers of the scheduler at `address`; without one, `count` processes with one thread each."""

    def __init__(self, address: str, count: int) -> None:
        super().__init__(count)
        self._address = address
        self._client: Client | None = None
        self._opened = ExitStack()

    def __enter__(self) -> DaskEngine:
        if self._client is not None:
            return self
        import dask
        from distributed import Client, LocalCluster

        cluster: Any = self._address
        try:
            self._opened.enter_context(dask.config.set(SETTINGS))
            if not self._address:
                with start_quietly():
                    cluster = LocalCluster(
                        n_workers=self.count, threads_per_worker=1, host="127.0.0.1", silence_logs=logging.CRITICAL,
                        scheduler_kwargs={"dashboard": False}, dashboard_address=HERE, worker_dashboard_address=HERE,
                    )  # fmt: skip
                self._opened.callback(cluster.close, timeout=10)
            self._client = Client(cluster, timeout=CONNECT, set_as_default=False)
            self._opened.callback(self._client.close, timeout=10)
            self._client.wait_for_workers(1, timeout=CONNECT)
            self.count = sum(self._client.nthreads().values())
            refuse_others(self._ask(versions))
        except (OSError, ValueError, TimeoutError) as error:
            self.__exit__()
            raise UsageError(
                f"no Dask cluster with a worker answers at {self._address or 'this machine'}: {error}",
                hint="--engine dask=tcp://HOST:8786 is the address that the scheduler prints; it needs a worker",
            ) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._client = None
        self._opened.close()

    def configure(self, config: TransformConfig, envelope: Envelope | None = None) -> None:
        super().configure(config, envelope)
        if self._address:
            names = [part.file for part in config.parts[:1]]
            names += [] if config.identified is None else [str(config.identified)]
            refuse_unreadable(self._ask(unreadable, names))

    def _ask(self, function: Callable[..., Any], *given: Any) -> dict[str, Any]:
        """The result of a function in each worker, by its address. A worker that ends meanwhile has none.

        Raises UsageError where a worker cannot load it.
        """
        assert self._client is not None
        answers: dict[str, Any] = self._client.run(function, *given, on_error="return")
        for worker, answer in answers.items():
            if isinstance(answer, Exception) and not isinstance(answer, OSError):
                raise UsageError(
                    f"the worker {worker} cannot run backcast: {type(answer).__name__}: {answer}",
                    hint=f"install it on every worker: pip install 'backcast[dask]=={versions()['backcast']}'",
                )
        return {worker: answer for worker, answer in answers.items() if not isinstance(answer, Exception)}

    def _threads(self) -> int:
        """Those of all workers now, as far as the scheduler has told."""
        assert self._client is not None
        workers = self._client.scheduler_info(n_workers=-1).get("workers", {})
        return sum(one["nthreads"] for one in workers.values())

    def _run(self, units: Iterator[bytes]) -> Iterator[bytes]:
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError

        client = self._client
        assert client is not None
        run = secrets.token_hex(8)
        config = client.submit(_given, self._config, key=f"backcast-config-{run}", pure=False)
        in_order: deque[Future] = deque()
        numbers = counting()
        try:
            while True:
                most = max(1, self._threads()) * AHEAD + 1
                while len(in_order) < most:
                    unit = next(units, None)
                    if unit is None:
                        break
                    key = f"backcast-{run}-{next(numbers)}"
                    in_order.append(client.submit(run_unit, config, self._digest, unit, key=key, pure=False, retries=0))
                if not in_order:
                    return
                yield self._result(in_order[0])
                in_order.popleft()
        except (CancelledError, CommClosedError, KilledWorker) as error:
            raise self._lost(f"{type(error).__name__}: {error}") from None
        finally:
            for future in in_order:
                future.release()
            config.release()

    def _result(self, future: Future) -> bytes:
        waited = 0
        while True:
            try:
                result: bytes = future.result(timeout=TICK)
                return result
            except TimeoutError:
                waited = 0 if self._threads() else waited + TICK
                if waited >= LOST_AFTER:
                    raise self._lost(f"no worker for {LOST_AFTER} seconds") from None

    def _lost(self, why: str) -> Unfinished:
        where = self._address or "on this machine"
        return Unfinished(
            f"the Dask cluster {where} was lost: {why}",
            hint="run the same command again once it is there; what was sent is not sent again",
        )


def _given(config: bytes) -> bytes:
    """The config as the result of a task, which Dask makes again where the worker that has it is lost."""
    return config
