"""Workers as on other machines: with other files at the same paths, other versions, another working directory.

A worker that joins late is as one that was there at the start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from pipeline.engines import open_engine
from pipeline.errors import UnreadableExport, UsageError
from pipeline.options import PlanOptions
from pipeline.plan import lookups, statements
from pipeline.transform.block import observe_unit
from tests.golden import samples
from tests.support.clusters import Cluster, a_cluster, dask, plan_sample, work_for
from tests.support.deliveries import COLUMNS, export
from tests.test_extensions import Site, acme

PEOPLE = "mixpanel-people"
ME = r"the worker on \S+ \(process \d+\)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler; each test starts the workers that it needs."""
    with a_cluster(tmp_path_factory.mktemp("dask"), workers=0) as cluster:
        yield cluster


def plan_by(cluster: Cluster, source: Path, directory: Path) -> pipeline.Plan:
    options = PlanOptions(mapping="generic", settings=COLUMNS, as_of=samples.AS_OF, engine=dask(cluster))
    return pipeline.plan_export(source, directory, options)


def other_copy(file: Path, folder: Path, *, later: float = 0, content: bytes | None = None) -> Path:
    """A copy of a file, changed `later` seconds later, optionally with other content of the same length."""
    folder.mkdir(exist_ok=True)
    copy = folder / file.name
    copy.write_bytes(file.read_bytes() if content is None else content.ljust(file.stat().st_size, b"\0"))
    changed = file.stat().st_mtime_ns + int(later * 1e9)
    os.utime(copy, ns=(changed, changed))
    return copy


def test_lookup_tables_on_disk_are_read_by_workers(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are in the plan's directory."""
    monkeypatch.setattr(lookups, "MOST_ENTRIES", 0)
    plan = plan_sample("customerio", tmp_path / "plan", workers=0)
    with cluster.one_worker():
        assert plan_sample("customerio", tmp_path / "there", engine=dask(cluster)).digest == plan.digest


def stopped(file: Path) -> bytes:
    return file.read_bytes().replace(b"Step", b"Stop")


@pytest.mark.parametrize("first", [True, False])
def test_another_file_of_the_export_is_refused(first: bool, cluster: Cluster, tmp_path: Path) -> None:
    """The worker's file is from another day."""
    source = export(tmp_path / "export", 40, files=3)
    file = source / f"part-{0 if first else 2}.jsonl"
    other = {file: other_copy(file, tmp_path / "yesterday", later=-86_400, content=stopped(file))}
    with cluster.one_worker(mounts=other), pytest.raises(UnreadableExport) as refused:
        plan_by(cluster, source, tmp_path / "plan")
    size = f"{file.stat().st_size:,} bytes, changed "
    assert_matches(refused.value, rf"{ME} has another file at {file}: {size}\S+; the machine that runs .* {size}")
    assert "the same files under the same path" in refused.value.hint


def test_a_copy_of_the_export_is_accepted(cluster: Cluster, tmp_path: Path) -> None:
    """Its time decides, which some file systems keep in whole seconds."""
    source = export(tmp_path / "export", 40, files=2)
    here = pipeline.plan_export(
        source, tmp_path / "here", PlanOptions(mapping="generic", settings=COLUMNS, as_of=samples.AS_OF, workers=0)
    )
    whole_seconds = {file: -(file.stat().st_mtime_ns % 10**9) / 1e9 for file in source.iterdir()}
    copies = {file: other_copy(file, tmp_path / "copy", later=later) for file, later in whole_seconds.items()}
    with cluster.one_worker(mounts=copies):
        assert plan_by(cluster, source, tmp_path / "there").digest == here.digest


def test_a_worker_that_joins_later_is_compared_as_well(cluster: Cluster, tmp_path: Path) -> None:
    """It replaces another one, and computes nothing."""
    config, units = work_for(tmp_path, files=2)
    good = cluster.start_worker()
    cluster.wait_for(1)
    with open_engine(dask(cluster), None, 0) as engine:
        engine.configure(config)
        assert len(list(engine.map(observe_unit, units))) == 2
        cluster.kill(good)
        asked = {"environment": {"PYTHONPATH": str(another_msgspec(tmp_path))}}
        with cluster.one_worker(**asked), pytest.raises(UsageError) as refused:
            list(engine.map(observe_unit, units))
    assert_matches(refused.value, rf"{ME} has msgspec 0.0.1, but the machine that runs the command has ")


def test_a_worker_that_would_make_other_events_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """It has another version, by its metadata, of a library that affects the bytes."""
    packages = {"PYTHONPATH": str(another_msgspec(tmp_path))}
    with cluster.one_worker(environment=packages), pytest.raises(UsageError) as refused:
        plan_by(cluster, export(tmp_path / "export"), tmp_path / "plan")
    assert_matches(refused.value, rf"{ME} has msgspec 0.0.1, but the machine that runs the command has ")
    assert refused.value.hint == "install the same versions on every machine"


def test_a_worker_with_several_threads_is_one_process(cluster: Cluster) -> None:
    """Threads do not make more events per second."""
    worker = cluster.start_worker(threads=3)
    with open_engine(dask(cluster), None, 0) as engine:
        assert engine.count == 1
    cluster.kill(worker)
    cluster.wait_for(0)


def another_msgspec(folder: Path) -> Path:
    """A folder of packages in which a library has another version, by its metadata."""
    other = folder / "other" / "msgspec-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: msgspec\nVersion: 0.0.1\n")
    return other.parent


def test_a_plug_in_that_a_worker_does_not_have_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """Its verbs affect values, too."""
    site = Site(tmp_path / "here")
    site.install("acme-backcast", "1.2", acme()[0], {})
    settings = [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    words = "plan", str(export(tmp_path / "export", 4)), "-m", "generic", *settings, "-o", "plan"
    with cluster.one_worker():
        cluster.wait_for(1)
        code, _, problem = site.run(*words, "--engine", dask(cluster))
    assert code == UsageError.exit_code
    assert_matches(problem, rf"Error: {ME} has no acme-backcast, but the machine that runs the command has 1\.2")


def test_a_worker_has_a_working_directory_of_its_own(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory of a plan is relative to that of the command; workers find its tables and its pieces."""
    monkeypatch.setattr(statements, "PIECE_BYTES", 1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    here = plan_sample(PEOPLE, "here", workers=0)
    with cluster.one_worker(folder=tmp_path / "elsewhere"):
        there = plan_sample(PEOPLE, "there", engine=dask(cluster))
        assert there.digest == here.digest


def test_the_directory_of_a_plan_has_to_be_seen(cluster: Cluster, tmp_path: Path) -> None:
    """A worker with nothing there computes nothing, nor does one that has another plan on its own disk."""
    source, other = export(tmp_path / "export"), tmp_path / "left"
    staged = other / "unfinished-plan" / "scratch" / "staged"
    staged.mkdir(parents=True)
    (staged / "config").write_bytes(b"of another plan")
    for name, seen in (("empty", None), ("stale", other)):
        (tmp_path / name).mkdir()
        with cluster.one_worker(mounts={tmp_path / name: seen}), pytest.raises(UsageError) as refused:
            plan_by(cluster, source, tmp_path / name)
        assert_matches(refused.value, rf"{ME} does not see the plan in {tmp_path / name}")
        assert refused.value.hint == "put the plan on storage that every worker has under the same path (-o)"
        assert not (tmp_path / name / "plan.json").exists()


def assert_matches(problem: object, pattern: str) -> None:
    assert re.match(pattern, str(problem)), str(problem)
