"""The engine of a Dask cluster: units are futures, and their results are taken in order as they come.

Without an address a cluster is started on this machine, and ended with the run. Each unit has a key of its own, so that
Dask takes no two for the same; the config is the result of a task, so that Dask can make it again wherever it is lost.
A worker that dies costs its units a second try elsewhere. Nothing is kept in the memory of a worker alone: what the
parent took is in its files, and the rest can be computed again.

Processes are counted, and not their threads: work on rows does not release the interpreter's lock.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count as counting
from typing import TYPE_CHECKING, Any

from pipeline.engines.agreement import refuse_other_versions, versions
from pipeline.engines.processes import default_workers, start_quietly
from pipeline.engines.units import AGAIN, UnitEngine, WorkersEnded, forget, run_unit
from pipeline.errors import BackcastError, Unfinished, UsageError

if TYPE_CHECKING:
    from distributed import Client, Future


AHEAD = 2
"""Units that a worker may have: one in work, one waiting."""
CONNECT = 10
"""Seconds in which the scheduler has to answer, and a first worker to be there."""
LOST_AFTER = 60
"""Seconds without any worker after which the run ends."""
FORGET = 10
"""Seconds that workers have at the end of a run to release what they retain of it."""
TICK = 5
"""Seconds after which a unit that has no result is looked after."""
HERE = "127.0.0.1:0"
"""Where a cluster that is started here answers HTTP, which cannot be turned off: a free port of this machine alone."""
SETTINGS = {
    "distributed.worker.memory.target": False,  # a cluster that is started here writes no event to its disk
    "distributed.worker.memory.spill": False,
    "distributed.scheduler.allowed-failures": 10,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.large-graph-warning-threshold": "1GB",  # a unit may have the bytes of its blocks with it
}


def open_engine(address: str, requested: int | None, size: int) -> DaskEngine:
    """Raises UsageError where the library is missing, or where --workers is given for a cluster that runs."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        hint = "install it: pip install 'backcast[dask]'"
        raise UsageError("the engine dask needs the library distributed", hint=hint) from None
    if requested == 0:
        raise UsageError("--workers 0 cannot be combined with --engine dask", hint="leave one of them out")
    if address and requested is not None:
        raise UsageError(
            f"--workers {requested} is for processes that are started here, and the workers of {address} are there",
            hint="leave --workers out",
        )
    return DaskEngine(address, requested or default_workers())


class DaskEngine(UnitEngine):
    """The workers of the scheduler at `address`; without one, `count` processes with one thread each."""

    def __init__(self, address: str, count: int) -> None:
        super().__init__(address, count)
        self._client: Client | None = None
        self._opened = ExitStack()

    def __enter__(self) -> DaskEngine:
        if self._client is not None:
            return self
        import dask
        from distributed import Client, LocalCluster
        from distributed.comm import resolve_address

        cluster: Any = self._address
        try:
            if self._address:
                resolve_address(self._address)  # a client of an address that is none would stay open
            self._opened.enter_context(dask.config.set(SETTINGS))
            if not self._address:
                with start_quietly():
                    cluster = LocalCluster(
                        n_workers=self.count, threads_per_worker=1, host="127.0.0.1", silence_logs=logging.CRITICAL,
                        scheduler_kwargs={"dashboard": False}, dashboard_address=HERE, worker_dashboard_address=HERE,
                    )  # fmt: skip
                self._opened.callback(cluster.close, timeout=10)
            # Otherwise results pass through the scheduler, which is a thread of this process here.
            direct = None if self._address else True
            self._client = Client(cluster, timeout=CONNECT, set_as_default=False, direct_to_workers=direct)
            self._opened.callback(self._client.close, timeout=10)
            self._client.wait_for_workers(1, timeout=CONNECT)
            self.count = len(self._client.nthreads())
            refuse_other_versions(self._ask(versions))
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
        client, self._client = self._client, None
        if client is not None and self._address and client.status == "running":
            with suppress(Exception):  # the run is over, and its result does not depend on that
                client.run(partial(forget, self._digests), on_error="ignore", callback_timeout=FORGET)
        self._opened.close()

    @contextmanager
    def elsewhere(self, count: int) -> Iterator[Callable[[], DaskEngine]]:
        with ExitStack() as stack:
            if not self._address and self._client is None:
                stack.enter_context(self)
            address = self._address or self._client.scheduler.address  # type: ignore[union-attr]
            yield partial(DaskEngine, address, self.count)

    def _ask(self, function: Callable[[], Any]) -> dict[str, Any]:
        """The result of a function in each worker, by its address. A worker that ends meanwhile has none.

        Raises UsageError where a worker cannot load it, and Unfinished where the scheduler does not answer.
        """
        assert self._client is not None
        with self._reached():
            answers: dict[str, Any] = self._client.run(function, on_error="return")
        for worker, answer in answers.items():
            if isinstance(answer, Exception) and not isinstance(answer, BackcastError | OSError):
                raise UsageError(
                    f"the worker {worker} cannot run backcast: {type(answer).__name__}: {answer}",
                    hint=f"install it on every worker: pip install 'backcast[dask]=={versions()['backcast']}'",
                )
        return {worker: answer for worker, answer in answers.items() if not isinstance(answer, OSError)}

    def _workers(self) -> int:
        """The number of workers now, as far as the scheduler knows."""
        assert self._client is not None
        with self._reached():
            return len(self._client.scheduler_info(n_workers=-1).get("workers", {}))

    def _run(self, units: Iterator[bytes]) -> Iterator[bytes]:
        client = self._client
        assert client is not None
        run = secrets.token_hex(8)
        with self._reached():
            config = client.submit(_given, self._config, key=f"backcast-config-{run}", pure=False)
        in_order: deque[Future] = deque()
        numbers = counting()
        try:
            while True:
                most = max(1, self._workers()) * AHEAD + 1
                while len(in_order) < most:
                    unit = next(units, None)
                    if unit is None:
                        break
                    key = f"backcast-{run}-{next(numbers)}"
                    with self._reached():
                        submitted = client.submit(run_unit, config, self._digest, unit, key=key, pure=False, retries=0)
                    in_order.append(submitted)
                if not in_order:
                    return
                yield self._result(in_order[0])
                in_order.popleft()
        finally:
            for future in in_order:
                future.release()
            config.release()

    def _result(self, future: Future) -> bytes:
        from distributed import KilledWorker

        waited = 0
        while waited < LOST_AFTER:
            try:
                with self._reached(), suppress(TimeoutError):
                    result: bytes = future.result(timeout=TICK)
                    return result
            except KilledWorker as error:
                raise WorkersEnded(error.allowed_failures + 1) from None
            waited = 0 if self._workers() else waited + TICK
        raise self._lost(f"no worker for {LOST_AFTER} seconds")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Inside, an error of the connection to the cluster is Unfinished."""
        from distributed import CancelledError

        if self._client is not None and self._client.status in ("closing", "closed"):
            raise self._lost("its scheduler does not answer")
        try:
            yield
        except (CancelledError, OSError, RuntimeError) as error:  # a client that is being closed raises the last
            raise self._lost(f"{type(error).__name__}: {error}") from None

    def _lost(self, why: str) -> Unfinished:
        where = self._address or "on this machine"
        return Unfinished(f"the Dask cluster {where} was lost: {why}", hint=f"once it is there, {AGAIN}")


def _given(config: bytes) -> bytes:
    """The config as the result of a task, which Dask makes again where the worker that has it is lost."""
    return config
