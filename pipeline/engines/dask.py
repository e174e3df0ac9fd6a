"""The Dask engine: tasks are futures of a cluster's scheduler.

Without an address, a cluster is started on this machine and ends with the run. Each task has its own key, so that Dask
never takes two for the same. If a worker dies, its tasks are run again elsewhere.

Only processes are counted, not their threads: work on rows does not release the interpreter's lock.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.engines.agreement import versions
from pipeline.engines.engine import AGAIN, AHEAD, MOST_AT_ONCE, Engine, WorkersEnded, check_asked
from pipeline.engines.processes import default_workers, start_quietly
from pipeline.engines.worker import forget, run_there
from pipeline.errors import BackcastError, Unfinished, UsageError

if TYPE_CHECKING:
    from distributed import Client

CONNECT = 10
"""Seconds within which the scheduler must answer and a first worker must be there."""
LOST_AFTER = 60
"""Seconds without any worker after which the run ends."""
FORGET = 10
"""Seconds that workers have at the end of a run to release what they keep for it."""
TICK = 5
"""Seconds after which a task without a result is checked on."""
HERE = "127.0.0.1:0"
"""Where a cluster started here answers HTTP, which cannot be turned off: a free port that only this machine reaches."""
SETTINGS = {
    "distributed.worker.memory.target": False,  # a cluster that is started here writes no events to disk
    "distributed.worker.memory.spill": False,
    "distributed.scheduler.allowed-failures": 10,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.large-graph-warning-threshold": "1GB",  # a task may carry the bytes of its blocks
}


def open_engine(address: str, requested: int | None, size: int) -> DaskEngine:
    """Raises UsageError if the library is missing, or if --workers is given for a running cluster."""
    check_asked("dask", "distributed", "", requested, address)
    return DaskEngine(address, requested or default_workers())


class DaskEngine(Engine):
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
        from distributed.comm import resolve_address

        cluster: Any = self._address
        try:
            if self._address:
                resolve_address(self._address)  # a client of an invalid address would stay open
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
            self.count = len(self._client.nthreads())
        except (OSError, ValueError, TimeoutError) as error:
            self.__exit__()
            raise UsageError(
                f"no Dask cluster with a worker answers at {self._address or 'this machine'}: {error}",
                hint="use --engine dask=tcp://HOST:8786 with the address that the scheduler prints; it needs a worker",
            ) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def _end(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._address and client.status == "running":
            with suppress(Exception):  # the run is over, and its result does not depend on this
                client.run(partial(forget, self.digest), on_error="ignore", callback_timeout=FORGET)
        self._opened.close()

    def _workers(self) -> int:
        """The number of workers now, as far as the scheduler knows."""
        with self._reached() as client:
            return len(client.scheduler_info(n_workers=-1).get("workers", {}))

    def _at_once(self) -> int:
        return min(max(1, self._workers()) * AHEAD + 1, MOST_AT_ONCE)  # workers may join, and leave

    def _call(self, task: bytes) -> bytes:
        from distributed import KilledWorker

        waited = 0
        key = f"backcast-{secrets.token_hex(16)}"
        with self._reached() as client:
            future = client.submit(run_there, self.digest, self.file, task, key=key, pure=False, retries=0)
        try:
            while waited < LOST_AFTER:
                with self._reached(), suppress(TimeoutError):
                    return bytes(future.result(timeout=TICK))
                waited = 0 if self._workers() else waited + TICK
        except KilledWorker as error:
            raise WorkersEnded(error.allowed_failures + 1) from None
        finally:
            future.release()
        raise self._lost(f"no worker for {LOST_AFTER} seconds")

    @contextmanager
    def _reached(self) -> Iterator[Client]:
        """Turns connection errors to the cluster into Unfinished, and failures to load backcast into UsageError."""
        from distributed import CancelledError, KilledWorker

        client = self._client
        if client is None or client.status in ("closing", "closed"):
            raise self._lost("its scheduler does not respond")
        try:
            yield client
        except (KilledWorker, BackcastError, TimeoutError):
            raise
        except (CancelledError, OSError, RuntimeError) as error:  # a client that is closing raises RuntimeError
            raise self._lost(f"{type(error).__name__}: {error}") from None
        except Exception as error:
            raise UsageError(
                f"a worker of the Dask cluster cannot run backcast: {type(error).__name__}: {error}",
                hint=f"install it on every worker: pip install 'backcast[dask]=={versions()['backcast']}'",
            ) from None

    def _lost(self, why: str) -> Unfinished:
        where = self._address or "on this machine"
        return Unfinished(f"the Dask cluster {where} was lost: {why}", hint=f"once it is there, {AGAIN}")
