"""The engine of a Spark cluster: units are rows of a data frame, and `mapInArrow` runs them in the executors.

Without an address the session that runs in this process is taken, or one is started on this machine. Units go in waves,
of which the next is at work while the parent takes the results of the last. Spark runs a task again where its executor
is lost. It transforms only: a session that others use is left as it is, and nothing is sent from an executor.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pipeline.engines.local import default_workers, start_quietly
from pipeline.engines.units import UnitEngine, refuse_others, refuse_unreadable, run_unit, unreadable, versions
from pipeline.errors import Unfinished, UsageError

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from pipeline.batcher import Envelope
    from pipeline.transform.tasks import TransformConfig

WAVE = 4
"""Units of a wave for each task that the cluster runs at once."""
SCHEMA = "number long, content binary"
MEMORY = "1g"
"""Memory of the JVM that is started here: it holds the results of two waves, and runs no row itself."""


def open_engine(address: str, requested: int | None, size: int) -> SparkEngine:
    """Raises UsageError where the library is missing, or where a cluster of others is to have so many workers."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        hint = "install it: pip install 'backcast[spark]'; it needs a Java runtime, too"
        raise UsageError("the engine spark needs the library pyspark", hint=hint) from None
    if requested == 0:
        raise UsageError("--workers 0 works in this process, and --engine spark does not", hint="leave one of them out")
    if address and requested is not None:
        raise UsageError(
            f"--workers {requested} is for processes that are started here, and the executors of {address} are its own",
            hint="leave --workers out",
        )
    return SparkEngine(address, requested or default_workers())


class SparkEngine(UnitEngine):
    """The executors of the master at `address` (`spark://…`, `yarn`, `sc://…`); without one, `count` tasks here."""

    def __init__(self, address: str, count: int) -> None:
        super().__init__(count)
        self._address = address
        self._session: Any = None
        self._own = False
        self._remote = address.startswith("sc://")

    def __enter__(self) -> SparkEngine:
        if self._session is not None:
            return self
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("backcast")
        if self._remote:
            builder = builder.remote(self._address)
        elif self._address:
            builder = builder.master(self._address)
        else:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.master(f"local[{self.count}]").config("spark.driver.memory", MEMORY)
            builder = builder.config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
            builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF")
            builder = builder.config("spark.ui.showConsoleProgress", "false")
        try:
            self._own = SparkSession.getActiveSession() is None
            with start_quietly():
                self._session = builder.getOrCreate()
            self.count = self._parallelism()
            refuse_others(self._ask(versions))
        except (PySparkException, OSError, RuntimeError) as error:
            self.__exit__()
            raise UsageError(
                f"no Spark session at {self._address or 'this machine'}: {_first_line(error)}",
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

    def _parallelism(self) -> int:
        """How many tasks the cluster runs at once; of a remote session, which does not say, what its setting is."""
        if self._remote:
            return int(self._session.conf.get("spark.sql.shuffle.partitions", "200"))
        return int(self._session.sparkContext.defaultParallelism)

    def configure(self, config: TransformConfig, envelope: Envelope | None = None) -> None:
        super().configure(config, envelope)
        if self._address:
            names = [part.file for part in config.parts[:1]]
            names += [] if config.identified is None else [str(config.identified)]
            refuse_unreadable(self._ask(partial(unreadable, names)))

    def _run(self, units: Iterator[bytes]) -> Iterator[bytes]:
        run = partial(run_unit, self._config, self._digest)
        with ThreadPoolExecutor(1, "spark") as pool:
            following = pool.submit(self._map, run, self._wave(units))
            while True:
                answers = following.result()
                if not answers:
                    return
                following = pool.submit(self._map, run, self._wave(units))
                yield from answers

    def _wave(self, units: Iterator[bytes]) -> list[bytes]:
        return list(islice(units, self.count * WAVE))

    def _map(self, function: Callable[[bytes], bytes], given: Sequence[bytes]) -> list[bytes]:
        """The function of each of these, in order, computed by the executors. Raises Unfinished."""
        from pyspark.errors import PySparkException

        if not given:
            return []
        try:
            table = self._session.createDataFrame(list(enumerate(given)), SCHEMA)
            if self._remote:  # it arrives as one partition; a session in this process cuts it by itself
                table = table.repartitionByRange(len(given), "number")
            rows = table.mapInArrow(partial(_mapped, function), SCHEMA).collect()
        except (PySparkException, OSError, RuntimeError) as error:
            raise Unfinished(
                f"the Spark cluster {self._address or 'on this machine'} gave up: {_first_line(error)}",
                hint="run the same command again once it is there; what was sent is not sent again",
            ) from None
        return [bytes(row.content) for row in sorted(rows, key=lambda row: row.number)]

    def _ask(self, function: Callable[[], Any]) -> dict[str, Any]:
        """The function in each executor that has a turn, by a number."""
        answers = self._map(partial(_called, function), [b""] * self.count)
        return {f"{number} of Spark": pickle.loads(answer) for number, answer in enumerate(answers)}


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
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
