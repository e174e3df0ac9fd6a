"""Workers as those of other machines: with other files at the same paths, other versions, another working directory.

A worker that joins late is as one that was there at the start.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from pipeline.batcher import Envelope
from pipeline.delivery.outcome import Outcome
from pipeline.engines import open_engine
from pipeline.errors import BackcastError, UnreadableExport, UsageError
from pipeline.identity import ranged_files
from pipeline.local_service import LocalService
from pipeline.options import PlanOptions
from pipeline.plan import lookups
from pipeline.plan.sealed.contents import task_of, tasks
from pipeline.plan.sealed.freshness import open_plan, transform_config_for
from pipeline.transform.block import make_batches
from tests.golden import samples
from tests.support.clusters import Cluster, a_cluster, dask, plan_sample
from tests.support.deliveries import COLUMNS, KEY, export, planned, run
from tests.test_extensions import Site, acme

PEOPLE = "mixpanel-people"
ME = r"the worker on \S+ \(process \d+\)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler; each test starts the workers that it needs."""
    with a_cluster(tmp_path_factory.mktemp("dask"), workers=0) as cluster:
        yield cluster


def sent_by(cluster: Cluster, directory: Path) -> Outcome:
    with LocalService() as service:
        return run(directory, service.url, key=service.capture_key, workers=None, engine=dask(cluster))


def plan_by(cluster: Cluster, source: Path, directory: Path) -> pipeline.Plan:
    options = PlanOptions(mapping="generic", settings=COLUMNS, as_of=samples.AS_OF, engine=dask(cluster))
    return pipeline.plan_export(source, directory, options)


def with_people(folder: Path) -> Path:
    """A plan whose workers open a table: some of its ids get a profile, and some do not."""
    return planned(folder, 40, links=True, persons="identified")


def other_copy(file: Path, folder: Path, *, later: float = 0, content: bytes | None = None) -> Path:
    """A copy of a file, changed `later` seconds, with other content of the same length if need be."""
    folder.mkdir(exist_ok=True)
    copy = folder / file.name
    copy.write_bytes(file.read_bytes() if content is None else content.ljust(file.stat().st_size, b"\0"))
    changed = file.stat().st_mtime_ns + int(later * 1e9)
    os.utime(copy, ns=(changed, changed))
    return copy


def test_lookup_tables_on_disk_are_compared_as_well(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be missing, or be those of another plan; where they are the same the plan is the same."""
    monkeypatch.setattr(lookups, "MOST_ENTRIES", 0)
    plan = plan_sample("customerio", tmp_path / "plan", workers=0)
    entries, missing = tmp_path / "plan" / "lookups.entries", tmp_path / "there" / "lookups.entries"
    with cluster.one_worker():
        there = plan_sample("customerio", tmp_path / "there", engine=dask(cluster))
        assert there.digest == plan.digest
    with cluster.one_worker(mounts={entries: other_copy(entries, tmp_path / "stale", content=b"")}):
        problem = sent_by(cluster, tmp_path / "plan").problem
        assert_matches(problem, rf"{ME} has another file at {entries} than the one of this plan")
    with cluster.one_worker(mounts={tmp_path / "there": None}):
        problem = sent_by(cluster, tmp_path / "there").problem
        assert isinstance(problem, UsageError)
        assert_matches(problem, rf"{ME} cannot read {missing}: .*No such file")


def stopped(file: Path) -> bytes:
    return file.read_bytes().replace(b"Step", b"Stop")


@pytest.mark.parametrize("first", [True, False])
def test_another_file_of_the_export_is_refused(first: bool, cluster: Cluster, tmp_path: Path) -> None:
    """While a plan is made, where it is that of another day; the first file at the start, others as they are read."""
    source = export(tmp_path / "export", 40, files=3)
    file = source / f"part-{0 if first else 2}.jsonl"
    other = {file: other_copy(file, tmp_path / "yesterday", later=-86_400, content=stopped(file))}
    with cluster.one_worker(mounts=other), pytest.raises(UnreadableExport) as refused:
        plan_by(cluster, source, tmp_path / "plan")
    size = f"{file.stat().st_size:,} bytes, changed "
    assert_matches(refused.value, rf"{ME} has another file at {file}: {size}\S+; on the machine that runs .* {size}")
    assert "the same files by the same path" in refused.value.hint


def test_a_copy_of_the_export_is_accepted(cluster: Cluster, tmp_path: Path) -> None:
    """While a plan is made by its time, which some file systems keep in whole seconds; for a plan by its bytes."""
    source = export(tmp_path / "export", 40, files=2)
    here = pipeline.plan_export(
        source, tmp_path / "here", PlanOptions(mapping="generic", settings=COLUMNS, as_of=samples.AS_OF, workers=0)
    )
    whole_seconds = {file: -(file.stat().st_mtime_ns % 10**9) / 1e9 for file in source.iterdir()}
    copies = {file: other_copy(file, tmp_path / "copy", later=later) for file, later in whole_seconds.items()}
    with cluster.one_worker(mounts=copies):
        assert plan_by(cluster, source, tmp_path / "there").digest == here.digest
    later = {file: other_copy(file, tmp_path / "later", later=3_600) for file in source.iterdir()}
    with cluster.one_worker(mounts=later):
        assert sent_by(cluster, tmp_path / "there").balanced
    changed = {file: other_copy(file, tmp_path / "other", later=3_600, content=b"{}\n") for file in source.iterdir()}
    with cluster.one_worker(mounts=changed):
        assert isinstance(sent_by(cluster, tmp_path / "here").problem, UnreadableExport)


def test_a_worker_that_joins_later_is_compared_as_well(cluster: Cluster, tmp_path: Path) -> None:
    """It takes the place of another one, after everything was compared, and computes nothing."""
    directory = with_people(tmp_path)
    plan, place = open_plan(directory)
    config = transform_config_for(plan, place)
    work = list(tasks(place, lambda one: task_of(plan, one)))
    table = place.identified
    good = cluster.start_worker()
    cluster.wait_for(1)
    other_packages = {"environment": {"PYTHONPATH": str(another_msgspec(tmp_path))}}
    other_table = {"mounts": {table: other_copy(table, tmp_path / "stale", content=b"")}}
    with open_engine(dask(cluster), None, 0) as engine:
        engine.configure(config, Envelope(KEY))
        cluster.kill(good)
        for asked, message in (
            (other_table, rf"{ME} has another file at {table} than"),
            (other_packages, rf"{ME} has msgspec 0.0.1, and the machine that runs the command has "),
        ):
            with cluster.one_worker(**asked), pytest.raises(BackcastError) as refused:
                list(engine.walk(make_batches, work))
            assert_matches(refused.value, message)


def test_a_worker_that_would_make_other_events_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """Another version of a library that decides bytes, as its metadata say."""
    packages = {"PYTHONPATH": str(another_msgspec(tmp_path))}
    with cluster.one_worker(environment=packages), pytest.raises(UsageError) as refused:
        plan_by(cluster, export(tmp_path / "export"), tmp_path / "plan")
    assert_matches(refused.value, r"the worker tcp://\S+ has msgspec 0.0.1, and here ")
    assert refused.value.hint == "install the same versions everywhere"


def test_a_worker_with_several_threads_is_one_process_and_without_one_nothing_is_read(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Threads make no more events a second. To workers that come later a plan sends what they may not see."""
    plan, place = open_plan(planned(tmp_path, 4))
    worker = cluster.start_worker(threads=3)
    with open_engine(dask(cluster), None, 0) as engine:
        assert (engine.count, engine.reads(place.blocks)) == (1, True)
        cluster.kill(worker)
        cluster.wait_for(0)
        engine.configure(transform_config_for(plan, place))
        assert not engine.reads(place.blocks)


def another_msgspec(folder: Path) -> Path:
    """A folder of packages in which a library has another version, as its metadata say."""
    other = folder / "other" / "msgspec-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: msgspec\nVersion: 0.0.1\n")
    return other.parent


def test_a_plug_in_that_a_worker_does_not_have_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """Its verbs decide on values, too."""
    site = Site(tmp_path / "here")
    site.install("acme-backcast", "1.2", acme()[0], {})
    settings = [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    words = "plan", str(export(tmp_path / "export", 4)), "-m", "generic", *settings, "-o", "plan"
    with cluster.one_worker():
        cluster.wait_for(1)
        code, _, problem = site.run(*words, "--engine", dask(cluster))
    assert code == UsageError.exit_code
    assert_matches(problem, r"Error: the worker tcp://\S+ has no acme-backcast, and here 1\.2")


def test_a_worker_has_a_working_directory_of_its_own(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory of a plan is named relative to that of the command; workers find its tables and its pieces."""
    monkeypatch.setattr(ranged_files, "MOST_BYTES", 1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    here = plan_sample(PEOPLE, "here", workers=0)
    with cluster.one_worker(folder=tmp_path / "elsewhere"):
        there = plan_sample(PEOPLE, "there", engine=dask(cluster))
        assert there.digest == here.digest
        with_people(tmp_path)
        assert sent_by(cluster, Path("plan")).balanced


def test_the_directory_of_a_plan_need_not_be_seen(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in its files is then sent to the workers, or decided here; the plan is the same. An unfinished one that a
    worker has on its own disk at the same path is not this one: pieces are not read from there."""
    monkeypatch.setattr(ranged_files, "MOST_BYTES", 1)
    here = plan_sample(PEOPLE, tmp_path / "here", workers=0)
    left = tmp_path / "left" / "unfinished-plan"
    left.mkdir(parents=True)
    shutil.copy2(tmp_path / "here" / "blocks.jsonl", left)
    os.utime(left / "blocks.jsonl", (1, 1))
    for name, seen in (("empty", None), ("stale", left.parent)):
        (tmp_path / name).mkdir()
        with cluster.one_worker(mounts={tmp_path / name: seen}):
            assert plan_sample(PEOPLE, tmp_path / name, engine=dask(cluster)).digest == here.digest


def assert_matches(problem: object, pattern: str) -> None:
    assert re.match(pattern, str(problem)), str(problem)
