"""The engine of a Spark cluster: units are rows of a data frame, and `mapInArrow` runs them in the executors.

Without an address the session that runs in this process is taken, or one is started on this machine. A session that is
there already is left as it is. Spark runs a task again where its executor is lost. It transforms only: nothing is sent
from an executor.

Units go in waves, of which the next is at work while the parent takes the results of the last. Memory does not grow
with the cluster: the units of a wave have `WAVE_BYTES`, and so have its results, as the largest one of the wave before
lets expect. The parent has the units of one wave and the results of two, 400 MiB; in the first waves of a walk, whose
units grow, results may be twice as large. Spark's driver has the units of one wave, and passes each result on as it
arrives. A large cluster whose results are large has idle executors instead.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.engines.agreement import refuse_other_versions, versions
from pipeline.engines.processes import default_workers, start_quietly
from pipeline.engines.units import AGAIN, UnitEngine, run_unit
from pipeline.errors import BackcastError, Unfinished, UsageError

if TYPE_CHECKING:
    from pyarrow import RecordBatch


WAVE = 4
"""Units of a wave for each task that the cluster runs at once, at most."""
WAVE_BYTES = 128 * 1024 * 1024
"""Bytes of the units of a wave, and of its results, each."""
FIRST_RESULT = 16 * 1024 * 1024
"""Bytes that a result is taken to have while none is known: those of the rows of a first unit."""
CANNOT_LOAD = re.compile(
    r"^(?:[\w.]+\.)?(?P<error>(?:ModuleNotFoundError|\w*ImportError|AttributeError|PySparkRuntimeError): .*)",
    re.MULTILINE,
)
"""The last line of the traceback of a process that lacks backcast or a library, or has another backcast or Python: what
a unit raises is part of its result."""
RESULT_LIMIT = "spark.driver.maxResultSize"
CANCEL_EVERY = 1
"""Seconds after which a wave that has not ended is cancelled again: Spark cancels only jobs that have started."""
SCHEMA = "number long, content binary"
MEMORY = "1g"
"""Memory of the JVM that is started here: it has the units of a wave, and runs no row itself."""


def open_engine(address: str, requested: int | None, size: int) -> SparkEngine:
    """Raises UsageError where the library is missing, or where --workers is given for a cluster that runs."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        hint = "install it: pip install 'backcast[spark]'; it needs a Java runtime, too"
        raise UsageError("the engine spark needs the library pyspark", hint=hint) from None
    if requested == 0:
        raise UsageError("--workers 0 cannot be combined with --engine spark", hint="leave one of them out")
    if address:
        _refuse_workers(requested, address)
    return SparkEngine(address, requested)


class SparkEngine(UnitEngine):
    """The executors of the master at `address` (`spark://…`, `yarn`, `sc://…`); without one, those of the session of
    this process, or `requested` tasks here.

    What `UnitEngine` takes for the address is that of the executors: empty where they are on this machine, which the
    master of the session decides.
    """

    def __init__(self, address: str, requested: int | None) -> None:
        super().__init__(address, requested or default_workers())
        self._requested = requested
        self._master = address or f"local[{self.count}]"
        self._named = bool(address)
        self._session: Any = None
        self._own = self._remote = False
        self._result_bytes = WAVE_BYTES
        """What the results of a wave may have; less where the session's own limit is less."""

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
            master = self._where()
            if not self._own:
                self._refuse_other(master)
            self._address = "" if _is_here(master) else master
            self.count = self._parallelism()
            refuse_other_versions(self._ask(versions))
        except _errors_of_spark() as error:
            self.__exit__()
            raise UsageError(
                f"no Spark session at {self._master if self._named else 'this machine'}: {_first_line(error)}",
                hint="--engine spark=ADDRESS is what `--master` of spark-submit takes, or sc://HOST; Spark needs Java",
            ) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        session, self._session = self._session, None
        if session is not None and self._own:
            session.stop()

    @contextmanager
    def elsewhere(self, count: int) -> Iterator[Callable[[], SparkEngine]]:
        """A session belongs to one process, so each has its own."""
        requested = None if self._named else max(1, self.count // count)
        yield partial(SparkEngine, self._master if self._named else "", requested)

    def _settings(self, builder: Any) -> Any:
        """Those of a session that is started here."""
        builder = builder.appName("backcast")
        if self._master.startswith("sc://"):
            return builder.remote(self._master)
        # Otherwise units, and a config of more than a megabyte with the project key in it, are in plain files.
        builder = builder.master(self._master).config("spark.io.encryption.enabled", "true")
        if not _is_here(self._master):
            return builder
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.memory", MEMORY)
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF")
        return builder.config("spark.ui.showConsoleProgress", "false")

    def _where(self) -> str:
        """The master of the session; of Spark Connect, the server."""
        if self._remote:
            return f"sc://{self._session.client._builder.endpoint}"
        master: str = self._session.sparkContext.master
        return master

    def _refuse_other(self, master: str) -> None:
        """Raise UsageError where the session that is there already is not the one that was asked for."""
        asked = self._master if self._named else master
        if asked.startswith("sc://") and self._remote:
            from pyspark.sql.connect.client import DefaultChannelBuilder

            asked = f"sc://{DefaultChannelBuilder(asked).endpoint}"
        if asked != master:
            raise UsageError(
                f"--engine spark={self._master} is asked for, and this process has a Spark session of {master} already",
                hint="leave the address out to use that session, or stop it first",
            )
        _refuse_workers(self._requested, master)

    def _parallelism(self) -> int:
        """How many tasks the cluster runs at once; of a remote session, which does not say, what its setting is."""
        if self._remote:
            return int(self._session.conf.get("spark.sql.shuffle.partitions", "200"))
        return int(self._session.sparkContext.defaultParallelism)

    def _run(self, units: Iterator[bytes]) -> Iterator[bytes]:
        run = partial(run_unit, self._config, self._digest)
        session, tag = self._session, f"backcast-{secrets.token_hex(8)}"
        with ThreadPoolExecutor(1, "spark") as pool:
            following = pool.submit(self._map, run, self._wave(units, FIRST_RESULT), tag)
            try:
                while answers := following.result():
                    largest = max(map(len, answers))
                    following = pool.submit(self._map, run, self._wave(units, largest), tag)
                    yield from map(bytes, answers)
            finally:
                while not following.done():
                    self._cancel(session, tag)
                    wait([following], CANCEL_EVERY)

    def _wave(self, units: Iterator[bytes], result: int) -> list[bytes]:
        """The next units, as many as the bounds of a wave allow where each has a result of so many bytes."""
        most = max(1, min(self.count * WAVE, self._result_bytes // result))
        wave: list[bytes] = []
        carried = 0
        while len(wave) < most and carried < WAVE_BYTES and (unit := next(units, None)) is not None:
            wave.append(unit)
            carried += len(unit)
        return wave

    def _cancel(self, session: Any, tag: str) -> None:
        with suppress(AttributeError, *_errors_of_spark()):  # the session has ended
            if self._remote:
                session.interruptTag(tag)
            else:
                session.sparkContext.cancelJobsWithTag(tag)

    def _map(self, function: Callable[[bytes], bytes], given: Sequence[bytes], tag: str = "") -> list[memoryview]:
        """The function of each of these, in order, computed by the executors. `tag` marks all jobs of this thread.

        Where all results are more than the session takes at once, by halves, and the next waves are smaller. Raises
        UsageError where it does not take one, or where an executor cannot run backcast, and Unfinished.
        """
        if not given:
            return []
        try:
            if tag and self._remote:
                self._session.addTag(tag)
            elif tag:  # since `addTag` of a session in this process marks no such job
                self._session.sparkContext.addJobTag(tag)
            table = self._session.createDataFrame(list(enumerate(given)), SCHEMA)
            if self._remote:  # it arrives as one partition; a session in this process cuts it by itself
                table = table.repartitionByRange(len(given), "number")
            # As Arrow, which the driver passes on partition by partition: of rows, it would have all at once.
            results = table.mapInArrow(partial(_mapped, function), SCHEMA).toArrow()
        except _errors_of_spark() as error:
            if RESULT_LIMIT not in str(error) or len(given) == 1:
                raise self._problem(error) from None
        else:
            numbers, contents = results.column("number").to_pylist(), results.column("content")
            in_order = sorted(range(len(numbers)), key=numbers.__getitem__)
            return [memoryview(contents[place].as_buffer()) for place in in_order]
        self._result_bytes //= 2
        half = len(given) // 2
        return [*self._map(function, given[:half], tag), *self._map(function, given[half:], tag)]

    def _problem(self, error: Exception) -> BackcastError:
        """What a failed job means: an error of the set-up, or a cluster that may be there again later."""
        text = str(error)
        where = self._address or "on this machine"
        if found := CANNOT_LOAD.search(text):
            return UsageError(
                f"an executor of the Spark cluster {where} cannot run backcast: {found['error']}",
                hint="install it for the Python of every executor, which PYSPARK_PYTHON names:"
                f" pip install 'backcast[spark]=={versions()['backcast']}'",
            )
        if RESULT_LIMIT in text:
            return UsageError(
                f"the results of a few blocks are more than {RESULT_LIMIT} of the Spark session {where} allows",
                hint=f"set {RESULT_LIMIT} to 1g or more where the session is started",
            )
        return Unfinished(
            f"the Spark cluster {where} gave up: {_first_line(error)}",
            hint=f"once it is there, {AGAIN}",
        )

    def _ask(self, function: Callable[[], Any]) -> dict[str, Any]:
        """The function in each executor that has a turn, by a number."""
        answers = self._map(partial(_called, function), [b""] * self.count)
        return {f"{number} of Spark": pickle.loads(answer) for number, answer in enumerate(answers)}


def _session_of_this_process() -> Any:
    """The session that is there already, in whatever thread it was started; None where there is none."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession, is_remote

    if is_remote():
        try:
            return SparkSession.active()
        except PySparkException:
            return None
    # Without settings, since `getOrCreate` applies those that it is given to a session that is there.
    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


@contextmanager
def _interrupts_as_before() -> Iterator[None]:
    """Start a session without its own answer to Ctrl-C: a run that sends ends what is in flight first."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _errors_of_spark() -> tuple[type[Exception], ...]:
    """What the libraries raise; a job that fails in the JVM may be a plain `Py4JError`."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, OSError, RuntimeError


def _is_here(master: str) -> bool:
    """Whether the executors of a master are in this machine's own process: those of `local-cluster[…]` are not."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _refuse_workers(requested: int | None, where: str) -> None:
    """Raise UsageError where a number of workers is given for a session that is not started here."""
    if requested is not None:
        raise UsageError(
            f"--workers {requested} is for processes that are started here, and the executors of {where} are its own",
            hint="leave --workers out",
        )


def _mapped(function: Callable[[bytes], bytes], batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Run in an executor: a row of Arrow for each row, its content mapped."""
    import pyarrow

    for batch in batches:
        for number, content in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            columns = [pyarrow.array([number], "int64"), pyarrow.array([function(content)], "binary")]
            yield pyarrow.RecordBatch.from_arrays(columns, names=["number", "content"])


def _called(function: Callable[[], Any], _: bytes) -> bytes:
    return pickle.dumps(function())


def _first_line(error: BaseException) -> str:
    """What happened, in one line: of an error of the JVM, its cause instead of the call that failed."""
    lines = str(error).strip().splitlines()
    causes = [line.partition(": ")[2] for line in lines if line.startswith(("Caused by: ", ": "))]
    return next(iter([*causes[-1:], *lines]), type(error).__name__)
