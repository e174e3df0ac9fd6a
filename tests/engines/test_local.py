"""Worker processes may be started before they are told what to do, and end without a word."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import pipeline
from pipeline.batcher import Envelope
from pipeline.engines.local import Workers
from pipeline.errors import Unfinished
from pipeline.ledger import Ledger
from pipeline.options import PlanOptions
from pipeline.plan.sealed.contents import task_of, tasks
from pipeline.plan.sealed.freshness import open_plan, transform_config_for
from pipeline.transform.block import make_batches
from pipeline.transform.tasks import BatchedBlock
from tests.support.crashes import spawned
from tests.support.deliveries import COLUMNS, KEY, Asked, Reply, export, planned, scripted, serving


def applying(directory: Path, url: str, *words: str) -> subprocess.Popen[str]:
    """`backcast apply` with two workers."""
    command = [sys.executable, "-m", "pipeline", "apply", str(directory), "--to", url, "--workers", "2", "--quiet"]
    return subprocess.Popen(
        [*command, *words], env=os.environ | {"BACKCAST_PROJECT_KEY": KEY}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def is_gone(group: int) -> bool:
    """Whether a group of processes ends, soon: Python's own tracker of shared memory goes last."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def walked(workers: Workers, directory: Path) -> list[BatchedBlock]:
    plan, place = open_plan(directory)
    return [made for _, made in workers.walk(make_batches, tasks(place, lambda one: task_of(plan, one)))]


@pytest.mark.parametrize("count", [0, 2])
def test_workers_that_are_configured_later_make_the_same(tmp_path: Path, count: int) -> None:
    """As those that are configured as they start, also for parts that travel through shared memory."""
    for file in export(tmp_path / "export", 40, files=3).iterdir():
        file.with_suffix(".jsonl.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    directory = tmp_path / "plan"
    pipeline.plan_export(tmp_path / "export", directory, PlanOptions(mapping="generic", settings=COLUMNS, workers=0))
    config = transform_config_for(*open_plan(directory))
    with Workers(count, config, Envelope(KEY)) as workers:
        expected = walked(workers, directory)
    with Workers(count) as outer:
        with outer as workers:
            workers.configure(config, Envelope(KEY))
            assert walked(workers, directory) == expected
        assert spawned(os.getpid()) == []
    assert sum(made.events for made in expected) == 40


def test_a_worker_that_died_before_it_was_configured_ends_the_run(tmp_path: Path) -> None:
    config = transform_config_for(*open_plan(planned(tmp_path, 4)))
    with Workers(1) as workers:
        while not (found := spawned(os.getpid())):
            continue
        (child,) = found
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with pytest.raises(Unfinished, match=r"a worker process ended by itself \(exit -9\)"):
            workers.configure(config, Envelope(KEY))


def test_a_second_apply_is_refused_and_its_idle_workers_end_quietly(tmp_path: Path) -> None:
    """Exit 2 with who holds the plan; nothing was sent, and no worker is left or says a word."""
    directory = planned(tmp_path, 20)
    plan, place = open_plan(directory)
    with serving(scripted(Reply())) as server:
        with closing(Ledger(place.ledger).open(plan.digest, "test", server.url)):
            process = applying(directory, server.url)
            _, told = process.communicate(timeout=60)
        assert server.asked == []
    assert (process.returncode, len(told.splitlines())) == (2, 2)
    assert told.startswith("Error: this plan is in use by another run: process ")
    assert is_gone(process.pid)


def test_an_interrupt_of_the_whole_group_is_the_parent_s_to_answer(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of a terminal: workers, just started and at work, leave it to their parent."""
    directory = planned(tmp_path, 40, files=4)
    release, asked = threading.Event(), threading.Event()

    def answer(one: Asked) -> Reply:
        asked.set()
        assert release.wait(30)
        return Reply()

    with serving(answer) as server:
        process = applying(directory, server.url)
        try:
            for _ in range(2):
                while len(found := spawned(process.pid)) < 2:
                    assert process.poll() is None
                for child in found:
                    os.kill(child, signal.SIGINT)
                assert asked.wait(30)
            release.set()
            _, told = process.communicate(timeout=60)
        finally:
            release.set()
            process.kill()
            process.wait()
        assert (process.returncode, told) == (0, "")
        assert sum(len(one.events) for one in server.asked) == 40
