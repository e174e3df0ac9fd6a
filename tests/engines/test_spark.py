"""Blocks in the executors of Spark: the same plan, from a session that is really started."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.cli import run as command
from pipeline.engines.spark import open_engine
from pipeline.errors import UsageError
from pipeline.options import PlanOptions
from pipeline.transform.block import observe_unit
from tests.golden import samples
from tests.support.clusters import plan_sample, work_for
from tests.support.commands import generic
from tests.support.deliveries import COLUMNS, export
from tests.support.required import require
from tests.support.stores import a_bucket

ROOT = Path(__file__).parent.parent.parent
CLUSTER = "local-cluster[2,1,512]"
"""Two executors, each a process with one task at a time and 512 MiB of memory."""
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
    """A session of this process, whose executors are separate processes. The engine uses it and does not stop it."""
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
    """Identities, profiles and counts: the digest seals everything."""
    here = plan_sample("mixpanel-people", tmp_path / "here", workers=0)
    there = plan_sample("mixpanel-people", tmp_path / "there", engine="spark")
    assert there.digest == here.digest


def test_a_session_started_here_plans_and_ends(tmp_path: Path) -> None:
    """By commands, whose result is the only output on stdout: the plan of a bucket. Ctrl-C works as before; a master
    that does not exist is named."""
    to = tmp_path / "out"
    with a_bucket() as bucket:
        source = bucket.copy(export(tmp_path / "export", 400, files=12), "export")
        here = pipeline.plan_export(source, tmp_path / "here", PlanOptions(workers=0, **OPTIONS))
        code = f"from tests.engines.test_spark import commands; commands({source!r}, {str(to)!r})"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True,
        )  # fmt: skip
    assert "Error: no Spark session at no-such: " in done.stderr
    assert json.loads(done.stdout)["digest"] == here.digest


def commands(source: str, to: str) -> None:
    """The part of the test above that needs a separate process, since one process has one session."""
    from pyspark import SparkContext

    before = signal.getsignal(signal.SIGINT)
    words = ["plan", source, *generic(), "-o", to, "--as-of", "2026-01-01", "--json", "--engine"]
    assert command([*words, "spark=no-such"]) == UsageError.exit_code
    assert command([*words, "spark"]) == 0
    assert SparkContext._active_spark_context is None
    assert signal.getsignal(signal.SIGINT) is before, "Ctrl-C is answered by Spark"


def test_a_session_of_another_thread_is_left_as_it_is(session: Any, tmp_path: Path) -> None:
    """It is used by its address in whatever thread it was started; its settings stay, and it continues."""
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
        ("spark=local[3]", None, f"=local[3] was given, but this process already has a Spark session of {CLUSTER}"),
        (
            "spark=sc://localhost",
            None,
            "spark=sc://localhost was given, but this process already has a Spark session of ",
        ),
        ("spark", 3, f"--workers 3 applies to processes started here, but {CLUSTER} has its own"),
        ("spark", 0, "--workers 0 cannot be combined with --engine spark"),
    ],
)
def test_what_a_session_of_this_process_is_not_is_refused(
    engine: str, workers: int | None, message: str, session: Any, tmp_path: Path
) -> None:
    """The error comes before anything is read, and its settings do not change."""
    settings = dict(session.conf.getAll)
    options = PlanOptions(engine=engine, workers=workers, **OPTIONS)
    with pytest.raises(UsageError, match=re.escape(message)):
        pipeline.plan_export(export(tmp_path / "export"), tmp_path / "plan", options)
    assert dict(session.conf.getAll) == settings


def test_executors_without_backcast_are_refused(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example a Python whose packages are those of this one, without what is installed from a folder."""
    other = tmp_path / "python"
    packages = sysconfig.get_paths()["purelib"]
    other.write_text(f'#!/bin/sh\ncd /\nPYTHONPATH="{packages}:$SPARK_HOME/python" exec "{sys.executable}" -S "$@"\n')
    other.chmod(0o755)
    monkeypatch.setattr(session.sparkContext, "pythonExec", str(other))
    message = (
        rf"^an executor of the Spark cluster {re.escape(CLUSTER)} cannot run backcast: .*No module named 'pipeline"
    )
    config, units = work_for(tmp_path, files=1)
    with open_engine("", None, 0) as engine:
        engine.configure(config)
        with pytest.raises(UsageError, match=message) as refused:
            list(engine.map(observe_unit, units))
    assert refused.value.hint.startswith("install it for the Python of every executor")


def test_a_walk_that_is_left_cancels_what_runs(session: Any, tmp_path: Path) -> None:
    """Ctrl-C does not wait for an hour of work."""
    config, units = work_for(tmp_path, files=3)
    left = 0.0
    with open_engine("", None, 0) as engine:
        engine.configure(config)
        walk = engine.map(_slow_after_the_first, units)
        next(walk)
        time.sleep(1)  # the others have started
        left = time.monotonic()
    assert time.monotonic() - left < 10
    assert session.sparkContext.statusTracker().getActiveJobsIds() == []


def _slow_after_the_first(transformer: object, unit: Any) -> None:
    time.sleep(3_600 if unit.number else 0)
