"""Blocks in the executors of Spark: the same plan and the same events, from a session that is started for real."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from pipeline.errors import UsageError
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.options import PlanOptions
from tests.golden import samples
from tests.support.commands import process
from tests.support.deliveries import COLUMNS, KEY, Identity, export, identities, run
from tests.support.required import require
from tests.support.stores import a_bucket

KEYS = Keyring((Project(1, "Rehearsal", KEY),), {})
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
    """A session of this process, which the engine takes and leaves as it is."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
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


def test_a_master_that_is_not_there_is_said(tmp_path: Path) -> None:
    """In a process of its own, since one process has one session."""
    source = export(tmp_path / "export", 4)
    settings = [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    done = process("plan", source, "-m", "generic", *settings, "-o", tmp_path / "plan", "--engine", "spark=no-such")
    assert done.returncode == UsageError.exit_code
    assert "Error: no Spark session at no-such: " in done.stderr


def _identity(one: object) -> Identity:
    return one.uuid, one.event, one.distinct_id, one.timestamp  # type: ignore[attr-defined]
