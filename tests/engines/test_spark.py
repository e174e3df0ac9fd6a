"""Blocks in the executors of Spark: the same plan and the same events, from a session that is started for real."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.engines import spark
from pipeline.engines.spark import SparkEngine, open_engine
from pipeline.errors import UsageError
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.options import PlanOptions
from pipeline.plan.sealed.freshness import open_plan, transform_config_for
from tests.golden import samples
from tests.support.commands import process
from tests.support.deliveries import COLUMNS, KEY, Identity, export, identities, planned, run
from tests.support.required import require
from tests.support.stores import a_bucket

KEYS = Keyring((Project(1, "Rehearsal", KEY),), {})
ROOT = Path(__file__).parent.parent.parent
CLUSTER = "local-cluster[2,1,512]"
"""Two executors, each a process with one task at once and 512 MiB of memory."""
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
def session(installed: None) -> Iterator[object]:
    """A session of this process, whose executors are processes of their own. The engine takes it and leaves it."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master(CLUSTER).config("spark.ui.enabled", "false")
        builder = builder.config("spark.executor.memory", "512m").config("spark.driver.maxResultSize", "10m")
        builder = builder.config("spark.executorEnv.PYTHONPATH", str(ROOT))
        session = builder.config("spark.log.level", "OFF").getOrCreate()
        yield session
        assert session.range(3).count() == 3, "the engine ended a session that is not its own"
        session.stop()


@pytest.mark.parametrize("name", ["mixpanel-people", "amplitude", "ga4", "segment-warehouse", "rejects"])
def test_a_sample_is_planned_the_same_by_spark(name: str, session: object, tmp_path: Path) -> None:
    """Lines, archives and tables; identities, profiles, rejects and counts: the digest seals all of it."""
    sample = samples.GOLDEN[name]
    files = [samples.SAMPLES / file for file in sample.files]
    asked = {"as_of": samples.AS_OF, **sample.asked}
    here = pipeline.plan_export(files, tmp_path / "here", PlanOptions(workers=0, **asked))
    there = pipeline.plan_export(files, tmp_path / "there", PlanOptions(engine="spark", **asked))
    assert there.digest == here.digest


def test_the_engines_make_one_plan_of_a_bucket(session: object, tmp_path: Path) -> None:
    """Local processes, a Dask cluster and Spark, over the same objects."""
    with a_bucket() as bucket:
        for file in export(tmp_path / "export", 600, files=20).iterdir():
            bucket.put(file.name, file.read_bytes())
        asked = {"mapping": "generic", "settings": COLUMNS, "as_of": samples.AS_OF}
        digests = {
            engine: pipeline.plan_export(bucket.url, tmp_path / engine, PlanOptions(engine=engine, **asked)).digest
            for engine in ("local", "dask")
        }
        # Its Python processes were started before the bucket, and do not know it.
        code = f"""
import pipeline
from pipeline.options import PlanOptions
options = PlanOptions(engine="spark", **{asked!r})
print(pipeline.plan_export({bucket.url!r}, {str(tmp_path / "spark")!r}, options).digest)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert set(digests.values()) == {done.stdout.strip()}


def test_a_session_started_here_sends_and_ends(tmp_path: Path) -> None:
    """By commands, which have Spark's own lines on stderr, and their result alone on stdout."""
    source = export(tmp_path / "export", 400, files=12)
    settings = [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    words = ["plan", source, "-m", "generic", *settings, "-o", tmp_path / "plan", "--engine", "spark", "--json"]
    done = process(*words, "--promoted-properties", "final")
    assert (done.returncode, json.loads(done.stdout)["rows"]["mapped"]) == (0, 400)
    with LocalService(keys=KEYS) as service:
        words = ["apply", tmp_path / "plan", "--to", service.url, "--engine", "spark", "--workers", 1, "--json"]
        done = process(*words, env={"BACKCAST_PROJECT_KEY": KEY})
        assert (done.returncode, json.loads(done.stdout)["events"]["accepted"]) == (0, 400)
        assert {_identity(one) for one in service.events()} == identities(400)


def test_a_session_of_another_thread_is_left_as_it_is(session: Any, tmp_path: Path) -> None:
    """It is taken in whatever thread it was started; its settings stay, and it goes on."""
    settings = dict(session.conf.getAll)
    source, digests = export(tmp_path / "export"), []
    options = PlanOptions(mapping="generic", settings=COLUMNS, engine="spark", as_of=samples.AS_OF)
    here = pipeline.plan_export(source, tmp_path / "here", replace(options, engine="local", workers=0))
    thread = threading.Thread(
        target=lambda: digests.append(pipeline.plan_export(source, tmp_path / "there", options).digest)
    )
    thread.start()
    thread.join()
    assert digests == [here.digest]
    assert dict(session.conf.getAll) == settings
    assert session.range(3).count() == 3


@pytest.mark.parametrize(
    ("engine", "workers", "message"),
    [
        (
            "spark=local[3]",
            None,
            f"spark=local[3] is asked for, and this process has a Spark session of {CLUSTER} already",
        ),
        ("spark=sc://localhost", None, "spark=sc://localhost is asked for, and this process has a Spark session of "),
        ("spark", 3, f"--workers 3 is for processes that are started here, and the executors of {CLUSTER} are its own"),
    ],
)
def test_what_a_session_of_this_process_is_not_is_refused(
    engine: str, workers: int | None, message: str, session: Any, tmp_path: Path
) -> None:
    """Before anything is read, and without a change of its settings."""
    settings = dict(session.conf.getAll)
    options = PlanOptions(mapping="generic", settings=COLUMNS, engine=engine, workers=workers)
    with pytest.raises(UsageError, match=re.escape(message)):
        pipeline.plan_export(export(tmp_path / "export"), tmp_path / "plan", options)
    assert dict(session.conf.getAll) == settings


def test_the_address_of_the_session_of_this_process_may_be_named(session: object, tmp_path: Path) -> None:
    """It is the one that is taken."""
    options = PlanOptions(mapping="generic", settings=COLUMNS, engine=f"spark={CLUSTER}")
    assert pipeline.plan_export(export(tmp_path / "export"), tmp_path / "plan", options).rows.mapped == 100


def test_executors_that_cannot_read_the_export_are_refused(session: object, tmp_path: Path) -> None:
    """Also those of a session that is taken without an address: an object of a store that only this process knows."""
    with a_bucket() as bucket:
        bucket.put("rows.jsonl", (export(tmp_path / "export") / "part-0.jsonl").read_bytes())
        options = PlanOptions(mapping="generic", settings=COLUMNS, engine="spark")
        with pytest.raises(UsageError, match=r"the worker on .* cannot read .*rows.jsonl") as refused:
            pipeline.plan_export(bucket.url, tmp_path / "plan", options)
    assert "by the same path" in (refused.value.hint or "")


@pytest.fixture
def engine(session: object, tmp_path: Path) -> Iterator[SparkEngine]:
    """The engine of the session, configured with some plan."""
    config = transform_config_for(*open_plan(planned(tmp_path, 4)))
    with open_engine("", None, 0) as engine:
        engine.configure(config)
        yield engine


def test_more_results_than_a_session_takes_at_once_arrive(engine: SparkEngine) -> None:
    """The session takes 10 MiB at once, and the results of the first wave are 56."""
    expected = [(number, zlib.crc32(_a_mebibyte(None, number))) for number in range(72)]
    assert [(number, zlib.crc32(made)) for number, made in engine.walk(_a_mebibyte, range(72))] == expected


def test_one_result_that_a_session_does_not_take_is_an_error_of_its_settings(engine: SparkEngine) -> None:
    """It would be the same at every run."""
    with pytest.raises(UsageError, match=r"more than spark\.driver\.maxResultSize of the Spark session") as refused:
        list(engine.walk(_four_mebibytes, range(4)))
    assert refused.value.hint == "set spark.driver.maxResultSize to 1g or more where the session is started"


def test_a_wave_has_no_more_units_than_its_bytes_allow(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit of 8 tasks has results of 512 KiB, so that a mebibyte is a wave of two; two waves are on their way."""
    monkeypatch.setattr(spark, "FIRST_RESULT", 1 << 19, raising=False)
    monkeypatch.setattr(engine, "_result_bytes", 1 << 20, raising=False)
    ahead = taken = given = 0

    def tasks() -> Iterator[int]:
        nonlocal taken
        for number in range(200):
            taken += 1
            yield number

    for _ in engine.walk(_64_kibibytes, tasks()):
        ahead = max(ahead, taken - given)
        given += 1
    assert given == 200
    assert ahead <= 32


def test_a_walk_that_is_left_cancels_what_runs(session: Any, engine: SparkEngine) -> None:
    """An error of the target or Ctrl-C does not wait for a wave: here of 32 seconds."""
    walk = engine.walk(_slow_after_a_wave, range(8 * 16))
    next(walk)
    time.sleep(2)  # the next wave has started
    left = time.monotonic()
    walk.close()  # type: ignore[attr-defined]
    assert time.monotonic() - left < 10
    assert session.sparkContext.statusTracker().getActiveJobsIds() == []


def _a_mebibyte(transformer: object, number: int) -> bytes:
    return random.Random(number).randbytes(1 << 20)


def _four_mebibytes(transformer: object, number: int) -> bytes:
    return random.Random(number).randbytes(1 << 22)


def _64_kibibytes(transformer: object, number: int) -> bytes:
    return random.Random(number).randbytes(1 << 16)


def _slow_after_a_wave(transformer: object, number: int) -> int:
    """A wave of two executors is eight units: two of 4 tasks, and six of 8."""
    time.sleep(4 if number >= 2 * 4 + 6 * 8 else 0)
    return number


def test_a_session_started_here_writes_no_key_and_leaves_ctrl_c_alone(tmp_path: Path) -> None:
    """A config of more than a megabyte goes through files of Spark's, which are encrypted."""
    code = f"""
import json, signal
from pipeline.batcher import Envelope
from pipeline.engines.spark import open_engine
from pipeline.plan.sealed.freshness import open_plan, transform_config_for
from tests.engines.test_spark import _files_with_a_key
from tests.support.deliveries import KEY
before = signal.getsignal(signal.SIGINT)
with open_engine("", 1, 0) as engine:
    engine.configure(transform_config_for(*open_plan({str(planned(tmp_path, 4))!r})), Envelope(KEY * 200_000))
    found = [made for _, made in engine.walk(_files_with_a_key, [KEY] * 4)]
print(json.dumps([found, signal.getsignal(signal.SIGINT) is before]))
"""
    env = os.environ | {"SPARK_LOCAL_DIRS": str(tmp_path), "LOOKED_AT": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    found, same = json.loads(done.stdout)
    assert (len(found), {files > 0 for files, _ in found}) == (4, {True})
    assert [names for _, names in found] == [[]] * 4
    assert same, "Ctrl-C is answered by Spark"


def _files_with_a_key(transformer: object, key: str) -> tuple[int, list[str]]:
    """How many files Spark has on its local disk, and those of them that have the key."""
    files = [file for file in Path(os.environ["LOOKED_AT"]).rglob("tmp*") if file.is_file()]
    return len(files), [str(file) for file in files if key.encode() in file.read_bytes()]


def test_no_workers_are_refused() -> None:
    """What works in this process is the engine `local`."""
    with pytest.raises(UsageError, match=r"^--workers 0 cannot be combined with --engine spark$"):
        open_engine("", 0, 0)


def test_an_error_of_a_block_is_that_of_this_machine(session: object, tmp_path: Path) -> None:
    """It crosses whole, with its place."""
    source = export(tmp_path / "export", 40)
    options = PlanOptions(mapping="generic", settings=COLUMNS)
    pipeline.plan_export(source, tmp_path / "plan", options)
    file = source / "part-1.jsonl"
    status = file.stat()
    file.write_bytes(file.read_bytes().replace(b"Step 1", b"Step X"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with LocalService(keys=KEYS) as service:
        here = run(tmp_path / "plan", service.url).problem
        there = run(tmp_path / "plan", service.url, workers=None, engine="spark").problem
    assert (str(there), there and there.hint) == (str(here), here and here.hint)


def test_executors_without_backcast_are_refused(tmp_path: Path) -> None:
    """Here a Python whose packages are those of this one, without what is installed from a folder."""
    other = tmp_path / "python"
    packages = sysconfig.get_paths()["purelib"]
    lines = ["#!/bin/sh", "cd /", f'PYTHONPATH="{packages}:$PYTHONPATH" exec "{sys.executable}" -S "$@"', ""]
    other.write_text("\n".join(lines), "utf-8")
    other.chmod(0o755)
    words = ["plan", export(tmp_path / "export", 4), "-m", "generic", "-o", tmp_path / "plan", "--engine", "spark"]
    settings = [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    done = process(*words, *settings, env={"PYSPARK_PYTHON": str(other)})
    assert done.returncode == UsageError.exit_code
    wrong = (
        "an executor of the Spark cluster on this machine cannot run backcast: ModuleNotFoundError: No module named "
    )
    assert f"Error: {wrong}'pipeline" in done.stderr
    assert "Try: install it for the Python of every executor" in done.stderr


def test_a_master_that_is_not_there_is_said(tmp_path: Path) -> None:
    """In a process of its own, since one process has one session."""
    source = export(tmp_path / "export", 4)
    settings = [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    done = process("plan", source, "-m", "generic", *settings, "-o", tmp_path / "plan", "--engine", "spark=no-such")
    assert done.returncode == UsageError.exit_code
    assert "Error: no Spark session at no-such: " in done.stderr


def _identity(one: object) -> Identity:
    return one.uuid, one.event, one.distinct_id, one.timestamp  # type: ignore[attr-defined]
