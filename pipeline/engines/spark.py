"""The Spark engine: each task is a job of one partition, and `mapInArrow` runs it in an executor.

Without an address, the session that runs in this process is used, or one is started on this machine. A session that
exists already is left as it is. Spark runs a task again if its executor is lost.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.engines.agreement import versions
from pipeline.engines.engine import AGAIN, Engine, check_asked
from pipeline.engines.processes import default_workers, start_quietly
from pipeline.engines.worker import run_there
from pipeline.errors import BackcastError, Unfinished, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from pyarrow import RecordBatch

CANNOT_LOAD = re.compile(
    r"^(?:[\w.]+\.)?(?P<error>(?:ModuleNotFoundError|\w*ImportError|AttributeError|PySparkRuntimeError): .*)",
    re.MULTILINE,
)
"""The last line of the traceback of a process that lacks backcast or a library, or has another version of them or of
Python. What a task itself raises is part of its result."""
MEMORY = "1g"
"""Memory of the JVM that is started here: it does not process rows itself."""


def open_engine(address: str, requested: int | None, size: int) -> SparkEngine:
    """Raises UsageError if the library is missing, or if --workers is given for a running cluster."""
    check_asked("spark", "pyspark", "; it needs a Java runtime, too", requested, address)
    return SparkEngine(address, requested)


class SparkEngine(Engine):
    """The executors of the master at `address` (`spark://…`, `yarn`, `sc://…`); without one, those of this process's
    session, or `requested` tasks on this machine."""

    def __init__(self, address: str, requested: int | None) -> None:
        super().__init__(requested or default_workers())
        self._requested = requested
        self._master = address or f"local[{self.count}]"
        self._address = address
        self._session: Any = None
        self._own = self._remote = False
        self._tag = f"backcast-{secrets.token_hex(8)}"

    def __enter__(self) -> SparkEngine:
        if self._session is not None:
            return self
        from pyspark.sql import SparkSession, is_remote

        try:
            session = _session_of_this_process()
            self._own = session is None
            if session is None:
                with start_quietly(), _interrupts_as_before():
                    session = self._settings(SparkSession.builder).getOrCreate()
            self._session, self._remote = session, is_remote()
            if self._remote:  # a remote session does not say how many tasks it runs at once
                self.count = int(session.conf.get("spark.sql.shuffle.partitions", "200"))
            else:
                self.count = int(session.sparkContext.defaultParallelism)
            if not self._own:
                self._refuse_other()
        except _errors_of_spark() as error:
            self.__exit__()
            raise UsageError(
                f"no Spark session at {self._address or 'this machine'}: {_first_line(error)}",
                hint="--engine spark=ADDRESS takes spark-submit's `--master` value, or sc://HOST; Spark needs Java",
            ) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        with suppress(AttributeError, *_errors_of_spark()):  # the session has ended
            if self._remote:
                session.interruptTag(self._tag)
            else:
                session.sparkContext.cancelJobsWithTag(self._tag)
            if self._own:
                session.stop()

    def _settings(self, builder: Any) -> Any:
        """The settings of a session that is started here."""
        builder = builder.appName("backcast")
        if self._master.startswith("sc://"):
            return builder.remote(self._master)
        # Otherwise rows of the export that travel with a task would be in plain files.
        builder = builder.master(self._master).config("spark.io.encryption.enabled", "true")
        if re.fullmatch(r"local(\[.*\])?", self._master) is None:
            return builder
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.memory", MEMORY)
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF")
        return builder.config("spark.ui.showConsoleProgress", "false")

    def _refuse_other(self) -> None:
        """Raise UsageError if the existing session is not the one that was asked for."""
        if self._remote:
            from pyspark.sql.connect.client import DefaultChannelBuilder

            master, asked = f"sc://{self._session.client._builder.endpoint}", self._address
            if asked.startswith("sc://"):
                asked = f"sc://{DefaultChannelBuilder(asked).endpoint}"
        else:
            master, asked = self._session.sparkContext.master, self._address
        if asked not in ("", master):
            raise UsageError(
                f"--engine spark={asked} was given, but this process already has a Spark session of {master}",
                hint="leave the address out to use that session, or stop it first",
            )
        check_asked("spark", "pyspark", "", self._requested, master)
        self._address = master

    def _call(self, task: bytes) -> bytes:
        session = self._session
        try:
            if session is None:
                raise RuntimeError("the session has ended")
            if self._remote:
                session.addTag(self._tag)
            else:  # because `addTag` of a session in this process does not mark such jobs
                session.sparkContext.addJobTag(self._tag)
            table = session.createDataFrame([(task,)], "content binary").coalesce(1)
            results = table.mapInArrow(partial(_mapped, self.digest, self.file), "content binary").toArrow()
            return bytes(results.column("content")[0].as_py())
        except _errors_of_spark() as error:
            raise self._problem(error) from None

    def _problem(self, error: Exception) -> BackcastError:
        """What a failed job means: a set-up error, or a cluster that may come back later."""
        where = self._address or "on this machine"
        if found := CANNOT_LOAD.search(str(error)):
            return UsageError(
                f"an executor of the Spark cluster {where} cannot run backcast: {found['error']}",
                hint="install it for the Python of every executor, which PYSPARK_PYTHON names:"
                f" pip install 'backcast[spark]=={versions()['backcast']}'",
            )
        return Unfinished(f"the Spark cluster {where} gave up: {_first_line(error)}", hint=f"once it is there, {AGAIN}")


def _mapped(digest: str, file: Path, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Runs in an executor: returns an Arrow row with the result for each row with a task."""
    import pyarrow

    for batch in batches:
        for task in batch.column(0).to_pylist():
            made = pyarrow.array([run_there(digest, file, task)], "binary")
            yield pyarrow.RecordBatch.from_arrays([made], names=["content"])


def _session_of_this_process() -> Any:
    """The session that exists already, whichever thread started it; or None."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession, is_remote

    if is_remote():
        try:
            return SparkSession.active()
        except PySparkException:
            return None
    # No settings here: `getOrCreate` would apply them to an existing session.
    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


@contextmanager
def _interrupts_as_before() -> Iterator[None]:
    """Start a session without its own handling of Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _errors_of_spark() -> tuple[type[Exception], ...]:
    """What the libraries raise; a job that fails in the JVM may raise a plain `Py4JError`."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, OSError, RuntimeError


def _first_line(error: BaseException) -> str:
    """What happened, in one line; for an error of the JVM, its cause instead of the failed call."""
    lines = str(error).strip().splitlines()
    causes = [line.partition(": ")[2] for line in lines if line.startswith(("Caused by: ", ": "))]
    return next(iter([*causes[-1:], *lines]), type(error).__name__)
