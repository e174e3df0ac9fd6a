"""Blocks in the executors of Spark: the same plan and the same events, from a session that is started for real."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.batcher import Envelope
from pipeline.cli import run as command
from pipeline.engines import spark
from pipeline.engines.spark import SparkEngine, open_engine
from pipeline.errors import UsageError
from pipeline.local_service import LocalService
from pipeline.options import PlanOptions
from pipeline.plan.sealed.freshness import open_plan, transform_config_for
from tests.golden import samples
from tests.support.clusters import plan_sample
from tests.support.commands import generic
from tests.support.deliveries import COLUMNS, KEY, export, identities, landed, planned
from tests.support.required import require
from tests.support.stores import a_bucket

ROOT = Path(__file__).parent.parent.parent
CLUSTER = "local-cluster[2,1,512]"
"""Two executors, each a process with one task at once and 512 MiB of memory."""
OPTIONS = {"mapping": "generic", "settings": COLUMNS, "as_of": samples.AS_OF}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # Spark's own, to its Java process
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    require(importlib.util.find_spec("pyspark"), "pyspark is not installed")
    require(shutil.which("java"), "there is no Java runtime on this machine")


@pytest.fixture(scope="module")
def session(installed: None) -> Iterator[Any]:
    """A session of this process, whose executors are processes of their own. The engine takes it and leaves it."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master(CLUSTER).config("spark.ui.enabled", "false")
        builder = builder.config("spark.executor.memory", "512m").config("spark.driver.maxResultSize", "2m")
        builder = builder.config("spark.executorEnv.PYTHONPATH", str(ROOT))
        before = signal.getsignal(signal.SIGINT)
        session = builder.config("spark.log.level", "OFF").getOrCreate()
        signal.signal(signal.SIGINT, before)  # other tests of this process press Ctrl-C
        yield session
        assert session.range(3).count() == 3, "the engine ended a session that is not its own"
        session.stop()


def test_a_sample_is_planned_the_same_by_spark(session: object, tmp_path: Path) -> None:
    """Identities, profiles and counts: the digest seals all of it."""
    here = plan_sample("mixpanel-people", tmp_path / "here", workers=0)
    there = plan_sample("mixpanel-people", tmp_path / "there", engine="spark")
    assert there.digest == here.digest


def test_a_session_started_here_plans_sends_and_ends(tmp_path: Path) -> None:
    """By commands, whose result is alone on stdout: the plan of a bucket, and its events. No key is in a file of
    Spark's, and Ctrl-C is answered as before; a master that is not there is said."""
    to = tmp_path / "out"
    with a_bucket() as bucket, LocalService() as service:
        source = bucket.copy(export(tmp_path / "export", 400, files=12), "export")
        here = pipeline.plan_export(source, tmp_path / "here", PlanOptions(workers=0, **OPTIONS))
        code = f"from tests.engines.test_spark import commands; commands({source!r}, {str(to)!r}, {service.url!r})"
        folders = {"SPARK_LOCAL_DIRS": str(tmp_path), "LOOKED_AT": str(tmp_path)}  # workers are told another first
        env = folders | {"PYTHONPATH": str(ROOT), "BACKCAST_PROJECT_KEY": service.capture_key}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | env, check=True
        )
        arrived = landed(service)
    found, made, applied = map(json.loads, done.stdout.split("---\n"))
    assert "Error: no Spark session at no-such: " in done.stderr
    assert made["digest"] == here.digest
    assert (applied["events"]["accepted"], arrived) == (400, identities(400))
    assert (len(found), {files > 0 for files, _ in found}) == (4, {True})
    assert [names for _, names in found] == [[]] * 4


def commands(source: str, to: str, url: str) -> None:
    """What the test above asks of a process of its own, since one process has one session."""
    from pyspark import SparkContext

    before = signal.getsignal(signal.SIGINT)
    words = ["plan", source, *generic(), "-o", to, "--as-of", "2026-01-01", "--json", "--engine"]
    assert command([*words, "spark=no-such"]) == UsageError.exit_code
    with open_engine("", 1, 0) as engine:  # a config of more than a megabyte goes through files of Spark's
        config = transform_config_for(*open_plan(planned(Path(to).with_name("other"), 4)))
        engine.configure(config, Envelope(KEY * 200_000))
        print(json.dumps([made for _, made in engine.walk(_files_with_a_key, [KEY] * 4)]))
    print("---", flush=True)
    assert SparkContext._active_spark_context is None
    assert command([*words, "spark"]) == 0
    print("---", flush=True)
    assert command(["apply", to, "--to", url, "--engine", "spark", "--workers", "1", "--json"]) == 0
    assert signal.getsignal(signal.SIGINT) is before, "Ctrl-C is answered by Spark"


def _files_with_a_key(transformer: object, key: str) -> tuple[int, list[str]]:
    """How many files Spark has on its local disk, and those of them that have the key."""
    files = [file for file in Path(os.environ["LOOKED_AT"]).rglob("tmp*") if file.is_file()]
    return len(files), [str(file) for file in files if key.encode() in file.read_bytes()]


def test_a_session_of_another_thread_is_left_as_it_is(session: Any, tmp_path: Path) -> None:
    """It is taken by its address in whatever thread it was started; its settings stay, and it goes on."""
    settings = dict(session.conf.getAll)
    source, mapped = export(tmp_path / "export"), []
    options = PlanOptions(engine=f"spark={CLUSTER}", **OPTIONS)
    thread = threading.Thread(
        target=lambda: mapped.append(pipeline.plan_export(source, tmp_path / "plan", options).rows.mapped)
    )
    thread.start()
    thread.join()
    assert mapped == [100]
    assert dict(session.conf.getAll) == settings


@pytest.mark.parametrize(
    ("engine", "workers", "message"),
    [
        ("spark=local[3]", None, f"=local[3] is asked for, and this process has a Spark session of {CLUSTER} already"),
        ("spark=sc://localhost", None, "spark=sc://localhost is asked for, and this process has a Spark session of "),
        ("spark", 3, f"--workers 3 is for processes that are started here, and the executors of {CLUSTER} are its own"),
        ("spark", 0, "--workers 0 cannot be combined with --engine spark"),
    ],
)
def test_what_a_session_of_this_process_is_not_is_refused(
    engine: str, workers: int | None, message: str, session: Any, tmp_path: Path
) -> None:
    """Before anything is read, and without a change of its settings."""
    settings = dict(session.conf.getAll)
    options = PlanOptions(engine=engine, workers=workers, **OPTIONS)
    with pytest.raises(UsageError, match=re.escape(message)):
        pipeline.plan_export(export(tmp_path / "export"), tmp_path / "plan", options)
    assert dict(session.conf.getAll) == settings


def test_executors_without_backcast_are_refused(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a Python whose packages are those of this one, without what is installed from a folder."""
    other = tmp_path / "python"
    packages = sysconfig.get_paths()["purelib"]
    other.write_text(f'#!/bin/sh\ncd /\nPYTHONPATH="{packages}:$SPARK_HOME/python" exec "{sys.executable}" -S "$@"\n')
    other.chmod(0o755)
    monkeypatch.setattr(session.sparkContext, "pythonExec", str(other))
    message = (
        rf"^an executor of the Spark cluster {re.escape(CLUSTER)} cannot run backcast: .*No module named 'pipeline"
    )
    with pytest.raises(UsageError, match=message) as refused, open_engine("", None, 0):
        pass
    assert refused.value.hint.startswith("install it for the Python of every executor")


@pytest.fixture(scope="module")
def engine(session: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    config = transform_config_for(*open_plan(planned(tmp_path_factory.mktemp("plan"), 4)))
    with open_engine("", None, 0) as engine:
        engine.configure(config)
        yield engine


def test_more_results_than_a_session_takes_at_once_arrive(engine: SparkEngine) -> None:
    """The session takes 2 MiB at once, and the results of the first wave are 3.5."""
    expected = [(number, zlib.crc32(_64_kibibytes(None, number))) for number in range(72)]
    assert [(number, zlib.crc32(made)) for number, made in engine.walk(_64_kibibytes, range(72))] == expected


def test_one_result_that_a_session_does_not_take_is_an_error_of_its_settings(engine: SparkEngine) -> None:
    """It would be the same at every run."""
    with pytest.raises(UsageError, match=r"more than spark\.driver\.maxResultSize of the Spark session") as refused:
        list(engine.walk(_a_mebibyte, range(4)))
    assert refused.value.hint == "set spark.driver.maxResultSize to 1g or more where the session is started"


def test_a_wave_has_no_more_units_than_its_bytes_allow(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit of 8 tasks has results of 512 KiB, so that a mebibyte is a wave of two; two waves are on their way."""
    monkeypatch.setattr(spark, "FIRST_RESULT", 1 << 19, raising=False)
    monkeypatch.setattr(engine, "_result_bytes", 1 << 20, raising=False)
    ahead = taken = given = 0

    def tasks() -> Iterator[int]:
        nonlocal taken
        for number in range(64):
            taken += 1
            yield number

    for _ in engine.walk(_64_kibibytes, tasks()):
        ahead = max(ahead, taken - given)
        given += 1
    assert given == 64
    assert ahead <= 32


def test_a_walk_that_is_left_cancels_what_runs(session: Any, engine: SparkEngine) -> None:
    """An error of the target or Ctrl-C does not wait for a wave: here of 32 seconds."""
    walk = engine.walk(_slow_after_a_wave, range(8 * 16))
    next(walk)
    time.sleep(1)  # the next wave has started
    left = time.monotonic()
    walk.close()  # type: ignore[attr-defined]
    assert time.monotonic() - left < 10
    assert session.sparkContext.statusTracker().getActiveJobsIds() == []


def _64_kibibytes(transformer: object, number: int) -> bytes:
    return random.Random(number).randbytes(1 << 16)


def _a_mebibyte(transformer: object, number: int) -> bytes:
    return random.Random(number).randbytes(1 << 20)


def _slow_after_a_wave(transformer: object, number: int) -> int:
    """A wave of two executors is eight units: two of 4 tasks, and six of 8."""
    time.sleep(4 if number >= 2 * 4 + 6 * 8 else 0)
    return number
