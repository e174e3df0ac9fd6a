"""Blocks on a cluster of Dask: the same plan, whatever is lost during the run."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from pipeline.engines import dask as dask_engine
from pipeline.engines import open_engine
from pipeline.errors import StalePlan, Unfinished, UsageError
from pipeline.options import PlanOptions
from pipeline.plan.estimate import estimate_plan
from pipeline.transform.block import observe_promoted, observe_unit
from tests.golden import samples
from tests.support.clusters import (
    Cluster,
    a_cluster,
    dask,
    end_process,
    losing_workers,
    plan_sample,
    retained,
    work_for,
)
from tests.support.commands import generic, process
from tests.support.deliveries import COLUMNS, export, planned
from tests.support.stores import a_bucket

LINK = {"anonymous_id": "anonymous_id"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.mark.parametrize("name", ["mixpanel-people", "rejects"])
def test_a_sample_is_planned_the_same_on_a_cluster(name: str, cluster: Cluster, tmp_path: Path) -> None:
    """Identities, profiles, rejects and counts: the digest seals everything."""
    here = plan_sample(name, tmp_path / "here", workers=0)
    there = plan_sample(name, tmp_path / "there", engine=dask(cluster))
    assert there.digest == here.digest


def test_a_cluster_started_here_plans_a_bucket_and_ends(tmp_path: Path) -> None:
    """By commands: it has its own workers, none of which is left; nothing is printed meanwhile."""
    with a_bucket() as bucket:
        source = bucket.copy(export(tmp_path / "export", 400, files=12), "export")
        asked = PlanOptions(mapping="generic", settings=COLUMNS, as_of=samples.AS_OF, workers=0)
        here = pipeline.plan_export(source, tmp_path / "here", asked)
        words = ["plan", source, *generic(), "-o", tmp_path / "plan", "--as-of", "2026-01-01", "--json", "--quiet"]
        made = process(*words, "--engine", "dask", "--workers", 2, env={"MARK": str(tmp_path)})
        assert (made.returncode, made.stderr, json.loads(made.stdout)["digest"]) == (0, "", here.digest)
    left = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            left += [environment] if str(tmp_path).encode() in environment.read_bytes() else []
    assert left == []


def test_workers_that_die_change_no_plan(tmp_path: Path) -> None:
    """One worker after the other is killed and replaced."""
    asked = {"as_of": samples.AS_OF, "max_batch_events": 5, "canary": 0}
    here = planned(tmp_path / "here", 1_200, files=300, links=True, **asked)
    with a_cluster(tmp_path / "dask") as cluster, losing_workers(cluster, 1) as killed:
        options = PlanOptions(mapping="generic", settings=COLUMNS | LINK, engine=dask(cluster), **asked)
        there = pipeline.plan_export(tmp_path / "here" / "export", tmp_path / "there", options)
    assert there.digest == pipeline.load_plan(here).digest
    assert killed


def test_a_cluster_that_is_gone_ends_the_run_as_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler dies during the work: exit 6, with what to do."""
    monkeypatch.setattr(dask_engine, "CONNECT", 2)
    config, units = work_for(tmp_path, files=20)
    with a_cluster(tmp_path / "dask", workers=1) as cluster, open_engine(dask(cluster), None, 0) as engine:
        engine.configure(config)
        walk = engine.map(observe_unit, units)
        next(walk)
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        with pytest.raises(Unfinished, match=f"the Dask cluster {cluster.address} was lost") as lost:
            list(walk)
        assert "run the same command again" in lost.value.hint
        with pytest.raises(Unfinished, match="was lost"):  # and when the connection is known to be closed
            list(engine.map(observe_unit, units))


def test_an_estimate_asks_the_cluster_how_large_it_is(cluster: Cluster, tmp_path: Path) -> None:
    """Its workers share the time of the plan."""
    source = [str(export(tmp_path / "export", 2_000))]
    here = estimate_plan(source, PlanOptions(mapping="generic", settings=COLUMNS, workers=2), rate=10)
    there = estimate_plan(source, plan_on(cluster), rate=10)
    assert (there.events, there.requests, there.json_bytes) == (here.events, here.requests, here.json_bytes)
    assert (here.engine, there.engine) == ("local", dask(cluster))
    assert 1 <= there.workers <= 2  # those that have started by now


def test_a_block_that_ends_its_workers_is_named(tmp_path: Path) -> None:
    """The error says that it needs more memory than the workers have."""
    config, units = work_for(tmp_path, files=1)
    allowed = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    with a_cluster(tmp_path / "dask", environment=allowed) as cluster, open_engine(dask(cluster), None, 0) as engine:
        engine.configure(config)
        with pytest.raises(Unfinished) as ended:
            list(engine.map(end_process, units))
    assert ended.value.message == (
        "2 workers ended, one after another, while working on block 0 of 0.jsonl; the usual reason is too little memory"
    )
    assert ended.value.hint.startswith("give each worker more memory, ")


def test_nothing_of_a_run_stays_in_the_workers_of_others(cluster: Cluster, tmp_path: Path) -> None:
    """Neither the mapping nor results."""
    from distributed import Client

    config, units = work_for(tmp_path, files=4)
    with Client(cluster.address, set_as_default=False) as client:
        with open_engine(dask(cluster), None, 0) as engine:
            engine.configure(config)
            assert sum(events for _, events in engine.map(observe_unit, units)) == 4
            assert any(transformers for transformers, _ in client.run(retained).values())
        assert {transformers for transformers, _ in client.run(retained).values()} == {0}
        until = time.monotonic() + 20
        while any(results for _, results in client.run(retained).values()):  # the scheduler releases them soon
            assert time.monotonic() < until


def test_a_worker_that_cannot_read_the_export_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """For example, an object in a store that only this process knows, too large to be read here for them."""
    with a_bucket() as bucket:
        bucket.put("rows.jsonl", (export(tmp_path / "export", 4_000) / "part-0.jsonl").read_bytes())
        with pytest.raises(UsageError, match=r"the worker on \S+ .* cannot read .*rows.jsonl") as refused:
            pipeline.plan_export(bucket.url, tmp_path / "plan", plan_on(cluster))
    assert "under the same path" in refused.value.hint


def test_an_error_of_a_block_is_that_of_this_machine(cluster: Cluster, tmp_path: Path) -> None:
    """It arrives whole, with its place, and leaves the cluster as it was."""
    config, units = work_for(tmp_path, files=1)
    work = [task._replace(seal="other") for unit in units for task in unit.tasks]
    problems = []
    for engine in (open_engine("local", 0, 0), open_engine("local", 1, 0), open_engine(dask(cluster), None, 0)):
        with engine:
            engine.configure(config)
            with pytest.raises(StalePlan) as raised:
                list(engine.map(observe_promoted, work))  # whose events were not written
        problems.append((raised.value.message, raised.value.hint, raised.value.differences))
    assert problems[0] == problems[1] == problems[2]


@pytest.mark.parametrize(
    ("engine", "workers", "message"),
    [
        ("dask=tcp://127.0.0.1:9", None, "no Dask cluster with a worker answers at tcp://127.0.0.1:9: "),
        ("dask=tcp://127.0.0.1:9", 3, "--workers 3 applies to processes started here"),
        ("dask", 0, "--workers 0 cannot be combined with --engine dask"),
        ("local=here", None, "the engine local takes no address, but 'here' was given"),
    ],
)
def test_an_unavailable_engine_is_named(
    engine: str, workers: int | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes before anything is read."""
    monkeypatch.setattr(dask_engine, "CONNECT", 0.3)
    options = PlanOptions(mapping="generic", settings=COLUMNS, engine=engine, workers=workers)
    with pytest.raises(UsageError, match=re.escape(message)):
        pipeline.plan_export(export(tmp_path / "export"), tmp_path / "plan", options)
    assert not (tmp_path / "plan" / "plan.json").exists()


def plan_on(cluster: Cluster) -> PlanOptions:
    return PlanOptions(mapping="generic", settings=COLUMNS, engine=dask(cluster))
