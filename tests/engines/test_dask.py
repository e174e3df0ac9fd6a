"""Blocks on a cluster of Dask: the same plan, the same events, whatever is lost on the way."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from pipeline.batcher import Envelope
from pipeline.delivery import apply
from pipeline.delivery.apply import SendLimits
from pipeline.engines import dask as dask_engine
from pipeline.engines import open_engine
from pipeline.errors import StalePlan, Unfinished, UsageError
from pipeline.ledger import read_batches, read_totals
from pipeline.local_service import LocalService
from pipeline.options import PlanOptions
from pipeline.options.pace import read_limits
from pipeline.plan.estimate import estimate_plan
from pipeline.plan.sealed import phases
from pipeline.plan.sealed.contents import task_of, tasks
from pipeline.plan.sealed.freshness import open_plan, transform_config_for
from pipeline.transform.block import make_batches
from tests.golden import samples
from tests.support.clusters import (
    Cluster,
    a_cluster,
    dask,
    end_process,
    losing_workers,
    plan_sample,
    retained,
)
from tests.support.commands import generic, process
from tests.support.deliveries import AT_ONCE, COLUMNS, KEY, copies, export, identities, landed, planned, run
from tests.support.phased_plans import planned_in_phases
from tests.support.stores import a_bucket

SLOWLY = SendLimits(3, AT_ONCE, rates=read_limits("300"))
"""Three requests at once at most, and 300 events a second: so that a run takes some seconds."""
LINK = {"anonymous_id": "anonymous_id"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixpanel-people", "amplitude", "segment-warehouse", "rejects"])
def test_a_sample_is_planned_the_same_on_a_cluster(name: str, cluster: Cluster, tmp_path: Path) -> None:
    """Lines, archives and tables; identities, profiles, rejects and counts: the digest seals all of it."""
    here = plan_sample(name, tmp_path / "here", workers=0)
    there = plan_sample(name, tmp_path / "there", engine=dask(cluster))
    assert there.digest == here.digest


def test_a_cluster_started_here_plans_a_bucket_sends_it_and_ends(tmp_path: Path) -> None:
    """By commands: workers of its own, and none of them left behind; nothing is said on the way."""
    with a_bucket() as bucket, LocalService() as service:
        source = bucket.copy(export(tmp_path / "export", 400, files=12), "export")
        asked = PlanOptions(mapping="generic", settings=COLUMNS, as_of=samples.AS_OF, workers=0)
        here = pipeline.plan_export(source, tmp_path / "here", asked)
        env = {"BACKCAST_PROJECT_KEY": service.capture_key, "MARK": str(tmp_path)}
        words = ["plan", source, *generic(), "-o", tmp_path / "plan", "--as-of", "2026-01-01", "--json"]
        made = process(*words, "--engine", "dask", "--workers", 2, env=env)
        assert (made.returncode, made.stderr, json.loads(made.stdout)["digest"]) == (0, "", here.digest)
        words = ["apply", tmp_path / "plan", "--to", service.url, "--engine", "dask", "--workers", 1, "--json"]
        done = process(*words, env=env)
        assert (done.returncode, done.stderr, json.loads(done.stdout)["events"]["accepted"]) == (0, "", 400)
        assert landed(service) == identities(400)
    left = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            left += [environment] if str(tmp_path).encode() in environment.read_bytes() else []
    assert left == []


def test_workers_and_parents_that_die_change_no_plan_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker after the other is killed and replaced, while a plan is made, while many small blocks of merges and
    groups are, and while it is sent by a run that is killed, too. No more than what that one had in flight may come
    twice, and it has the same uuids."""
    asked = {"as_of": samples.AS_OF, "max_batch_events": 5}
    here = planned(tmp_path / "here", 1_200, files=60, links=True, **asked)
    directory = planned_in_phases(tmp_path / "phases", 900, batch=5, files=60, as_of=samples.AS_OF)
    shutil.copytree(directory, tmp_path / "copy")
    with LocalService() as service:
        assert run(tmp_path / "copy", service.url, key=service.capture_key).balanced
        expected = service.events()
    monkeypatch.setattr(phases, "BLOCK_ROWS", 1)
    monkeypatch.setattr(apply, "SMALL", 0)
    ledger, doubtful = directory / "ledger.sqlite", 0
    with LocalService() as service, a_cluster(tmp_path / "dask") as cluster, losing_workers(cluster, 1) as killed:
        options = PlanOptions(mapping="generic", settings=COLUMNS | LINK, engine=dask(cluster), **asked)
        there = pipeline.plan_export(tmp_path / "here" / "export", tmp_path / "there", options)
        assert there.digest == pipeline.load_plan(here).digest
        limits = {"key": service.capture_key, "workers": None, "engine": dask(cluster), "send_limits": SLOWLY}
        assert run(directory, service.url, phases=("identities", "groups"), **limits).counts.accepted == 7 + 12
        command = [sys.executable, "-m", "pipeline", "apply", str(directory), "--to", service.url, "--quiet"]
        command += ["--engine", dask(cluster), "--max-concurrency", "3", "--rate", "300"]
        for settled in (200, 400):
            driver = subprocess.Popen(command, env=os.environ | {"BACKCAST_PROJECT_KEY": service.capture_key})
            while driver.poll() is None and read_totals(ledger).settled < settled:
                time.sleep(0.02)
            driver.kill()
            driver.wait(20)
            doubts = sum(place.events for place in read_batches(ledger, "begun"))
            assert doubts <= 3 * 5
            doubtful += doubts
        outcome = run(directory, service.url, **limits)
        assert (outcome.problem, outcome.balanced) == (None, True)
        assert service.events() == expected
        twice = copies(service)
    assert sum(count - 1 for count in twice.values()) <= doubtful
    assert killed


def test_a_cluster_that_is_gone_ends_the_run_as_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler dies while a run sends: exit 6, with what to do; the next run sends the rest. Whatever the cluster
    is asked, no error of the connection is taken for one of this machine's files."""
    monkeypatch.setattr(dask_engine, "CONNECT", 2)
    directory = planned(tmp_path, 600, files=30, batch=5)
    plan, place = open_plan(directory)
    config = transform_config_for(plan, place)
    with LocalService() as service, a_cluster(tmp_path / "dask", workers=1) as cluster:
        cluster.wait_for(1)
        lost = f"the Dask cluster {cluster.address} was lost"
        after = iter(range(1_000))

        def progress(counts: object) -> None:
            if next(after) == 20:
                cluster.scheduler.kill()
                cluster.scheduler.wait()

        limits = {"key": service.capture_key, "send_limits": SLOWLY}
        with open_engine(dask(cluster), None, 0) as engine:
            engine.configure(config)
            outcome = run(directory, service.url, workers=None, engine=dask(cluster), progress=progress, **limits)
            assert isinstance(outcome.problem, Unfinished)
            assert lost in outcome.problem.message
            assert "a plan begins anew, and what was sent is not sent again" in outcome.problem.hint
            for _ in range(2):  # at once, and when the connection is known to be closed
                with pytest.raises(Unfinished, match=lost):
                    engine.configure(config)
            with pytest.raises(Unfinished, match=lost):
                engine.reads(place.blocks)
        assert run(directory, service.url, key=service.capture_key).balanced
        assert service.select("select count(*) from raw_events") == [(600,)]


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


def test_a_block_that_ends_its_workers_is_named(tmp_path: Path) -> None:
    """As one that needs more memory than they have."""
    plan, place = open_plan(planned(tmp_path, 4, files=2))
    config = transform_config_for(plan, place)
    work = tasks(place, lambda one: task_of(plan, one))
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


def test_nothing_of_a_run_stays_in_the_workers_of_others(cluster: Cluster, tmp_path: Path) -> None:
    """Neither the mapping and the project key, nor requests that have it."""
    from distributed import Client

    plan, place = open_plan(planned(tmp_path, 40))
    work = tasks(place, lambda one: task_of(plan, one))
    with Client(cluster.address, set_as_default=False) as client:
        with open_engine(dask(cluster), None, 0) as engine:
            engine.configure(transform_config_for(plan, place), Envelope(KEY))
            assert sum(made.events for _, made in engine.walk(make_batches, work)) == 40
            assert any(transformers for transformers, _ in client.run(retained).values())
        assert {transformers for transformers, _ in client.run(retained).values()} == {0}
        until = time.monotonic() + 20
        while any(results for _, results in client.run(retained).values()):  # the scheduler releases them soon
            assert time.monotonic() < until


@pytest.mark.parametrize("small", [True, False])
def test_merges_and_profiles_alone_are_made_by_the_engine(
    small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a wrong address is noticed, though no event is sent; but few of them are made here, and start no process."""
    if not small:
        monkeypatch.setattr(apply, "SMALL", 0)
    directory = planned(tmp_path, 40, links=True)
    threads = set(threading.enumerate())
    with LocalService() as service:
        asked = {"workers": None, "engine": "dask=nowhere", "phases": ("identities",)}
        outcome = run(directory, service.url, key=service.capture_key, **asked)
        if small:
            assert (outcome.problem, outcome.counts.accepted) == (None, 7)
        else:
            assert isinstance(outcome.problem, UsageError)
            assert outcome.problem.message.startswith("no Dask cluster with a worker answers at nowhere: ")
    assert "IO loop" not in {one.name for one in set(threading.enumerate()) - threads}  # nothing of Dask is left open


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
    plan, place = open_plan(directory)
    config = transform_config_for(plan, place)
    work = [task._replace(seal="other") for task in tasks(place, lambda one: task_of(plan, one))]
    told = []
    for engine in (open_engine("local", 0, 0), open_engine(dask(cluster), None, 0)):
        with engine:
            engine.configure(config, Envelope(KEY))
            with pytest.raises(StalePlan) as raised:
                list(engine.walk(make_batches, work))
        told.append((raised.value.message, raised.value.hint, raised.value.differences))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("engine", "workers", "message"),
    [
        ("dask=tcp://127.0.0.1:9", None, "no Dask cluster with a worker answers at tcp://127.0.0.1:9: "),
        ("dask=tcp://127.0.0.1:9", 3, "--workers 3 is for processes that are started here"),
        ("dask", 0, "--workers 0 cannot be combined with --engine dask"),
        ("local=here", None, "the engine local has no address, and 'here' is given"),
    ],
)
def test_an_engine_that_cannot_be_had_is_said(
    engine: str, workers: int | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is read."""
    monkeypatch.setattr(dask_engine, "CONNECT", 0.3)
    options = PlanOptions(mapping="generic", settings=COLUMNS, engine=engine, workers=workers)
    with pytest.raises(UsageError, match=re.escape(message)):
        pipeline.plan_export(export(tmp_path / "export"), tmp_path / "plan", options)
    assert not (tmp_path / "plan" / "plan.json").exists()


def plan_on(cluster: Cluster) -> PlanOptions:
    return PlanOptions(mapping="generic", settings=COLUMNS, engine=dask(cluster))
