"""Blocks on a cluster of Dask: the same plan, the same events, whatever is lost on the way."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import pipeline
from pipeline.batcher import Envelope
from pipeline.delivery import apply
from pipeline.delivery.apply import SendLimits
from pipeline.engines import dask as dask_engine
from pipeline.engines import open_engine
from pipeline.errors import BackcastError, Unfinished, UsageError
from pipeline.ledger import read_batches, read_totals
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.models import Block
from pipeline.options import PlanOptions
from pipeline.options.pace import read_limits
from pipeline.plan.estimate import estimate_plan
from pipeline.plan.sealed import phases
from pipeline.plan.sealed.contents import find_parts, task_of, tasks
from pipeline.plan.sealed.freshness import open_plan, transform_config_for
from pipeline.transform.block import make_batches
from pipeline.transform.tasks import Task
from tests.golden import samples
from tests.support.clusters import Cluster, a_cluster, end_process, losing_workers, retained
from tests.support.commands import process
from tests.support.deliveries import AT_ONCE, COLUMNS, KEY, ONE_AT_A_TIME, Identity, export, identities, planned, run
from tests.support.stores import a_bucket

KEYS = Keyring((Project(1, "Rehearsal", KEY),), {})
SLOWLY = SendLimits(3, AT_ONCE, rates=read_limits("300"))
"""Three requests at once at most, and 300 events a second: so that a run takes some seconds."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


def dask(cluster: Cluster) -> str:
    return f"dask={cluster.address}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(samples.GOLDEN))
def test_a_sample_is_planned_the_same_on_a_cluster(name: str, cluster: Cluster, tmp_path: Path) -> None:
    """Every format, identities, profiles, rejects and counts: the digest seals all of it."""
    sample = samples.GOLDEN[name]
    files = [samples.SAMPLES / file for file in sample.files]
    asked = {"as_of": samples.AS_OF, **sample.asked}
    here = pipeline.plan_export(files, tmp_path / "here", PlanOptions(workers=0, **asked))
    there = pipeline.plan_export(files, tmp_path / "there", PlanOptions(engine=dask(cluster), **asked))
    assert there.digest == here.digest


def test_a_cluster_started_here_plans_sends_and_ends(tmp_path: Path) -> None:
    """By commands: two workers of its own, and none of them left behind; nothing is said on the way."""
    source = export(tmp_path / "export", 400, files=12)
    settings = [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    words = ["plan", source, "-m", "generic", *settings, "-o", tmp_path / "plan", "--engine", "dask", "--workers", 2]
    done = process(*words, "--promoted-properties", "final", "--json", env={"MARK": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    with LocalService(keys=KEYS) as service:
        words = ["apply", tmp_path / "plan", "--to", service.url, "--engine", "dask", "--workers", 2, "--json"]
        done = process(*words, env={"BACKCAST_PROJECT_KEY": KEY, "MARK": str(tmp_path)})
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["events"]["accepted"] == 400
        assert landed(service) == identities(400)
    assert _processes_with(str(tmp_path)) == []


def _processes_with(mark: str) -> list[str]:
    """The processes of this machine whose environment has this text."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            found += [environment.parent.name] if mark.encode() in environment.read_bytes() else []
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_workers_that_die_change_no_plan(seed: int, tmp_path: Path) -> None:
    """Killed one after the other, and replaced, while a plan is made again and again."""
    source = export(tmp_path / "export", 3_000, files=60, links=True)
    asked = {"mapping": "generic", "settings": COLUMNS | {"anonymous_id": "anonymous_id"}, "as_of": samples.AS_OF}
    here = pipeline.plan_export(source, tmp_path / "here", PlanOptions(workers=0, **asked))
    with a_cluster(tmp_path / "dask") as cluster, losing_workers(cluster, seed) as killed:
        for number in range(3):
            there = tmp_path / f"there-{number}"
            assert pipeline.plan_export(source, there, PlanOptions(engine=dask(cluster), **asked)).digest == here.digest
    assert killed


@pytest.mark.parametrize("seed", [1, 2])
def test_workers_that_die_while_sending_lose_and_double_nothing(seed: int, tmp_path: Path) -> None:
    """The parent lives, so that each event arrives once."""
    directory = planned(tmp_path, 1_200, files=60, batch=5)
    with (
        LocalService(keys=KEYS) as service,
        a_cluster(tmp_path / "dask") as cluster,
        losing_workers(cluster, seed) as killed,
    ):
        outcome = run(directory, service.url, workers=None, engine=dask(cluster), send_limits=SLOWLY)
        assert (outcome.problem, outcome.balanced) == (None, True)
        assert landed(service) == identities(1_200)
        assert service.select("select count(*) from raw_events") == [(1_200,)]
    assert killed


def test_merges_groups_and_profiles_survive_workers_that_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each arrives once, whether one process makes the requests or many small blocks of them go to workers."""
    monkeypatch.setattr(phases, "BLOCK_ROWS", 1)
    sample = samples.GOLDEN["posthog-persons"]
    asked = {"as_of": samples.AS_OF, "max_batch_events": 1, **sample.asked}
    pipeline.plan_export([samples.SAMPLES / file for file in sample.files], tmp_path / "here", PlanOptions(**asked))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    with LocalService(keys=KEYS) as service:
        assert run(tmp_path / "here", service.url, send_limits=ONE_AT_A_TIME).balanced
        expected = everything(service)
    monkeypatch.setattr(apply, "SMALL", 0)
    slowly = replace(ONE_AT_A_TIME, rates=read_limits("15"))  # what a service makes of a person depends on the order
    with (
        LocalService(keys=KEYS) as service,
        a_cluster(tmp_path / "dask") as cluster,
        losing_workers(cluster, 1) as killed,
    ):
        outcome = run(tmp_path / "there", service.url, workers=None, engine=dask(cluster), send_limits=slowly)
        assert (outcome.problem, outcome.balanced) == (None, True)
        assert everything(service) == expected
    assert killed


def everything(service: LocalService) -> list[object]:
    """What a service has of the events that it took, and how many of them it took."""
    return [service.events(), service.persons(), service.groups(), service.select("select count(*) from raw_events")]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_parent_and_workers_that_die_are_finished_by_the_next_run(seed: int, tmp_path: Path) -> None:
    """No more than what was in flight may have been sent twice, and it has the same uuids."""
    directory = planned(tmp_path, 1_200, files=60, batch=5)
    chance = random.Random(seed)
    doubtful = 0
    with (
        LocalService(keys=KEYS) as service,
        a_cluster(tmp_path / "dask") as cluster,
        losing_workers(cluster, seed),
    ):
        command = [sys.executable, "-m", "pipeline", "apply", str(directory), "--to", service.url, "--quiet"]
        command += ["--engine", dask(cluster), "--max-concurrency", "3", "--rate", "300"]
        for _ in range(4):
            before = read_totals(directory / "ledger.sqlite").settled
            driver = subprocess.Popen(command, env=os.environ | {"BACKCAST_PROJECT_KEY": KEY})
            while driver.poll() is None and read_totals(directory / "ledger.sqlite").settled < before + 100:
                time.sleep(0.02)
            time.sleep(chance.uniform(0, 0.3))
            driver.send_signal(signal.SIGKILL)
            driver.wait(20)
            doubts = sum(place.events for place in read_batches(directory / "ledger.sqlite", "begun"))
            assert doubts <= 3 * 5
            doubtful += doubts
        outcome = run(directory, service.url, workers=None, engine=dask(cluster), send_limits=SLOWLY)
        assert (outcome.problem, outcome.balanced) == (None, True)
        assert landed(service) == identities(1_200)
        copies = Counter(str(uuid) for (uuid,) in service.select("select uuid from raw_events"))
    assert sum(count - 1 for count in copies.values()) <= doubtful


def test_a_cluster_that_is_gone_ends_the_run_as_unfinished(tmp_path: Path) -> None:
    """The scheduler dies while a run sends: exit 6, with what to do; the next run sends the rest."""
    directory = planned(tmp_path, 1_200, files=60, batch=5)
    with LocalService(keys=KEYS) as service:
        with a_cluster(tmp_path / "dask") as cluster:
            after = iter(range(1_000))

            def progress(counts: object) -> None:
                if next(after) == 20:
                    cluster.scheduler.kill()

            outcome = run(
                directory, service.url, workers=None, engine=dask(cluster), send_limits=SLOWLY, progress=progress
            )
        assert isinstance(outcome.problem, Unfinished)
        assert f"the Dask cluster {cluster.address} was lost" in outcome.problem.message
        assert "a plan begins anew, and what was sent is not sent again" in outcome.problem.hint
        assert run(directory, service.url).balanced
        assert service.select("select count(*) from raw_events") == [(1_200,)]


def test_an_estimate_asks_the_cluster_how_large_it_is(cluster: Cluster, tmp_path: Path) -> None:
    """The sample goes through its workers, so that the share of this machine is one of the limits."""
    source = [str(export(tmp_path / "export", 2_000))]
    here = estimate_plan(source, PlanOptions(mapping="generic", settings=COLUMNS, workers=2), rate=10)
    there = estimate_plan(source, plan_on(cluster), rate=10)
    assert (there.events, there.requests, there.json_bytes) == (here.events, here.requests, here.json_bytes)
    assert (here.engine, there.engine) == ("local", dask(cluster))
    assert 1 <= there.workers <= 2  # those that have started by now
    assert sorted(limit.name for limit in there.limits) == ["cpu", "parent", "rate"]
    assert here.apply_parent < there.apply_parent


def test_a_cluster_that_is_gone_is_unfinished_whatever_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No error of the connection is taken for one of this machine's files."""
    monkeypatch.setattr(dask_engine, "CONNECT", 2)
    plan, place = open_plan(planned(tmp_path, 4))
    config = transform_config_for(plan, place)
    with a_cluster(tmp_path / "dask", workers=1) as cluster:
        cluster.wait_for(1)
        with open_engine(dask(cluster), None, 0) as engine:
            engine.configure(config)
            cluster.scheduler.kill()
            cluster.scheduler.wait()
            lost = f"the Dask cluster {cluster.address} was lost: "
            for _ in range(2):  # at once, and when the connection is known to be closed
                with pytest.raises(Unfinished, match=lost):
                    engine.configure(config)
            with pytest.raises(Unfinished, match=lost):
                engine.reads(place.blocks)
            with pytest.raises(Unfinished, match=lost):
                list(engine.walk(make_batches, [Task(0, Block(0, 0, 0, 1))]))


def test_a_cluster_without_workers_reads_nothing(tmp_path: Path) -> None:
    """A plan then sends to workers that come later what they may not see."""
    plan, place = open_plan(planned(tmp_path, 4))
    with a_cluster(tmp_path / "dask", workers=1) as cluster, open_engine(dask(cluster), None, 0) as engine:
        assert engine.reads(place.blocks)
        cluster.kill(*cluster.workers)
        cluster.wait_for(0)
        engine.configure(transform_config_for(plan, place))
        assert not engine.reads(place.blocks)


def test_a_block_that_ends_its_workers_is_named(tmp_path: Path) -> None:
    """As one that needs more memory than they have."""
    plan, place = open_plan(planned(tmp_path, 4, files=2))
    config = transform_config_for(plan, place)
    work = tasks(plan, place, config.parts, lambda one: task_of(plan, one))
    allowed = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    with a_cluster(tmp_path / "dask", environment=allowed) as cluster, open_engine(dask(cluster), None, 0) as engine:
        engine.configure(config)
        with pytest.raises(Unfinished) as ended:
            list(engine.walk(end_process, work))
    assert ended.value.message == (
        "2 workers ended, one after the other, while they worked on block 0 of part-0.jsonl to block 0 of part-1.jsonl;"
        " the usual reason is too little memory"
    )
    assert ended.value.hint.startswith("give each worker more memory, ")


def test_nothing_of_a_run_stays_in_the_workers_of_others(tmp_path: Path) -> None:
    """Neither the mapping and the project key, nor requests that have it."""
    from distributed import Client

    directory = planned(tmp_path, 40)
    plan, place = open_plan(directory)
    work = tasks(plan, place, find_parts(plan), lambda one: task_of(plan, one))
    with a_cluster(tmp_path / "dask") as cluster, Client(cluster.address, set_as_default=False) as client:
        with open_engine(dask(cluster), None, 0) as engine:
            engine.configure(transform_config_for(plan, place), Envelope(KEY))
            assert sum(made.events for _, made in engine.walk(make_batches, work)) == 40
            assert any(transformers for transformers, _ in client.run(retained).values())
        assert {transformers for transformers, _ in client.run(retained).values()} == {0}
        until = time.monotonic() + 20
        while any(results for _, results in client.run(retained).values()):  # the scheduler releases them soon
            assert time.monotonic() < until


def test_a_worker_with_several_threads_is_one_process(tmp_path: Path) -> None:
    """Threads of a process make no more events a second than one."""
    with a_cluster(tmp_path / "dask", workers=0) as cluster:
        cluster.start_worker(threads=3)
        with open_engine(dask(cluster), None, 0) as engine:
            assert engine.count == 1


@pytest.mark.parametrize("small", [True, False])
def test_merges_and_profiles_alone_are_made_by_the_engine(
    small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a wrong address is noticed, though no event is sent; but few of them are made here, and start no process."""
    if not small:
        monkeypatch.setattr(apply, "SMALL", 0)
    directory = planned(tmp_path, 40, links=True)
    with LocalService(keys=KEYS) as service:
        asked = {"workers": None, "engine": "dask=nowhere", "phases": ("identities",)}
        outcome = run(directory, service.url, **asked)
        if small:
            assert (outcome.problem, outcome.counts.accepted) == (None, 7)
        else:
            assert isinstance(outcome.problem, UsageError)
            assert outcome.problem.message.startswith("no Dask cluster with a worker answers at nowhere: ")
    assert "IO loop" not in {thread.name for thread in threading.enumerate()}  # nothing of Dask is left open


def test_a_worker_that_would_make_other_events_is_refused(tmp_path: Path) -> None:
    """Another version of a library that decides bytes, as its metadata say."""
    other = tmp_path / "other" / "msgspec-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: msgspec\nVersion: 0.0.1\n")
    with a_cluster(tmp_path / "dask", workers=0) as cluster:
        cluster.start_worker({"PYTHONPATH": str(other.parent)})
        with pytest.raises(UsageError, match=r"the worker tcp://\S+ has msgspec 0.0.1, and here ") as refused:
            pipeline.plan_export(export(tmp_path / "export"), tmp_path / "plan", plan_on(cluster))
    assert refused.value.hint == "install the same versions everywhere"


def test_a_worker_that_cannot_read_the_export_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """Here an object of a store that only this process knows."""
    with a_bucket() as bucket:
        bucket.put("rows.jsonl", (export(tmp_path / "export") / "part-0.jsonl").read_bytes())
        with pytest.raises(UsageError, match=r"the worker on \S+ .* cannot read .*rows.jsonl") as refused:
            pipeline.plan_export(bucket.url, tmp_path / "plan", plan_on(cluster))
    assert "by the same path" in refused.value.hint


def test_an_error_of_a_block_is_that_of_this_machine(cluster: Cluster, tmp_path: Path) -> None:
    """It crosses whole, with its place, and leaves the cluster as it was."""
    directory = planned(tmp_path, 40)
    plan, _ = open_plan(directory)
    file = Path(plan.parts[1].file)
    text = file.read_bytes()
    status = file.stat()
    file.write_bytes(text.replace(b"Step 1", b"Step X"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with LocalService(keys=KEYS) as service:
        here = run(directory, service.url).problem
        there = run(directory, service.url, workers=None, engine=dask(cluster)).problem
    assert isinstance(there, BackcastError)
    assert (str(there), there.hint) == (str(here), here and here.hint)


@pytest.mark.parametrize(
    ("engine", "workers", "message"),
    [
        ("dask=tcp://127.0.0.1:9", None, "no Dask cluster with a worker answers at tcp://127.0.0.1:9: "),
        ("dask=nowhere", None, "no Dask cluster with a worker answers at nowhere: "),
        ("dask=tcp://127.0.0.1:9", 3, "--workers 3 is for processes that are started here"),
        ("dask", 0, "--workers 0 cannot be combined with --engine dask"),
        ("local=here", None, "the engine local has no address, and 'here' is given"),
    ],
)
def test_an_engine_that_cannot_be_had_is_said(engine: str, workers: int | None, message: str, tmp_path: Path) -> None:
    """Before anything is read."""
    options = PlanOptions(mapping="generic", settings=COLUMNS, engine=engine, workers=workers)
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        pipeline.plan_export(export(tmp_path / "export"), tmp_path / "plan", options)
    assert not (tmp_path / "plan" / "plan.json").exists()


def landed(service: LocalService) -> set[Identity]:
    return {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in service.events()}


def plan_on(cluster: Cluster) -> PlanOptions:
    return PlanOptions(mapping="generic", settings=COLUMNS, engine=dask(cluster))
