"""Clusters of Dask whose processes a test may kill: a scheduler and workers that nothing restarts."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from typing import Any

import pytest

import pipeline
from pipeline.extractors import blocks, open_source
from pipeline.models import SealedOptions
from pipeline.options import Limits, PlanOptions
from pipeline.transform.staged import make_folders
from pipeline.transform.tasks import Task, TransformConfig, Unit
from tests.golden import samples
from tests.support.tiny_tool import AS_OF, TinyCompile, row, write


@dataclass
class Cluster:
    """A scheduler at `address`, and its workers."""

    folder: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: int = 0

    @property
    def file(self) -> Path:
        return self.folder / "scheduler.json"

    @property
    def address(self) -> str:
        until = time.monotonic() + 30
        while True:
            try:
                return str(json.loads(self.file.read_bytes())["address"])
            except (FileNotFoundError, json.JSONDecodeError):
                assert time.monotonic() < until, "the scheduler does not start"
                time.sleep(0.02)

    def start_worker(
        self,
        environment: Mapping[str, str] = {},
        *,
        threads: int = 1,
        folder: Path | None = None,
        mounts: Mapping[Path, Path | None] = {},
    ) -> subprocess.Popen[bytes]:
        """One more worker, in a working directory of its own if need be.

        At the paths of `mounts` it has other files or folders than this process, as on another machine; None stands for
        an empty folder. If that is not allowed, the test is skipped.
        """
        assert self.address
        self.started += 1
        words = (
            "--scheduler-file", self.file, "--no-nanny", "--no-dashboard", "--nthreads", threads,
            "--local-directory", self.folder, "--host", "127.0.0.1", "--name", f"worker-{self.started}",
        )  # fmt: skip
        worker = _started("dask_worker", *words, environment=environment, folder=folder, before=_mounting(mounts))
        self.workers.append(worker)
        return worker

    @contextmanager
    def one_worker(self, **asked: Any) -> Iterator[None]:
        """Inside, this is the only worker of the cluster; the arguments are those of `start_worker`."""
        worker = self.start_worker(**asked)
        try:
            yield
        finally:
            self.kill(worker)
            self.wait_for(0)

    def wait_for(self, count: int) -> None:
        """Wait until the scheduler has this many workers."""
        from distributed import Client

        until = time.monotonic() + 60
        with Client(self.address, set_as_default=False) as client:
            while len(client.scheduler_info(n_workers=-1)["workers"]) != count:
                assert time.monotonic() < until, f"the cluster has no {count} workers"
                time.sleep(0.02)

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.wait(20)
        self.workers.remove(worker)


def plan_sample(name: str, directory: str | Path, **options: Any) -> pipeline.Plan:
    """The plan of a sample that has a golden file."""
    sample = samples.GOLDEN[name]
    files = [samples.SAMPLES / file for file in sample.files]
    return pipeline.plan_export(files, directory, PlanOptions(as_of=samples.AS_OF, **options, **sample.asked))


def dask(cluster: Cluster) -> str:
    """Its value for `--engine`."""
    return f"dask={cluster.address}"


@contextmanager
def a_cluster(folder: Path, workers: int = 2, environment: Mapping[str, str] = {}) -> Iterator[Cluster]:
    """A cluster on this machine, in separate processes."""
    folder.mkdir(exist_ok=True)
    file = folder / "scheduler.json"
    command = "dask_scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file
    cluster = Cluster(folder, _started(*command, environment=environment))
    try:
        for _ in range(workers):
            cluster.start_worker()
        cluster.wait_for(workers)
        yield cluster
    finally:
        for one in [*cluster.workers, cluster.scheduler]:
            one.kill()
            one.wait(20)


@contextmanager
def losing_workers(cluster: Cluster, seed: int, *, least: float = 0.1, most: float = 1.2) -> Iterator[list[float]]:
    """Inside, one worker after the other is killed at random moments, and another one started. Yields the moments.

    They are `least` to `most` seconds after the scheduler has the last one that was started: on a busy machine a worker
    takes long to start, and a cluster without any for a minute is another test.
    """
    from distributed import Client

    chance = random.Random(seed)
    over = threading.Event()
    killed: list[float] = []

    def lose() -> None:
        with Client(cluster.address, set_as_default=False) as client:
            while not over.wait(chance.uniform(least, most)):
                known = {worker["name"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()}
                if f"worker-{cluster.started}" in known:
                    cluster.kill(chance.choice(cluster.workers))
                    killed.append(time.monotonic())
                    cluster.start_worker()

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join(60)


def end_process(*_: object) -> None:
    """Work that ends its worker, as a machine without free memory does."""
    os._exit(1)


def retained(dask_worker: Any) -> tuple[int, int]:
    """What a worker has of earlier runs of backcast: transformers, and results of tasks."""
    from pipeline.engines import worker

    return len(worker._OWN), len(dask_worker.data)


def work_for(folder: Path, *, files: int) -> tuple[TransformConfig, list[Unit]]:
    """A config of the tiny tool, and a unit for each of some files of one row."""
    paths = [write(folder / f"{number}.jsonl", [row("Seen", "u-1", key=str(number))]) for number in range(files)]
    parts = open_source([str(path) for path in paths]).parts
    staging = folder / "staged"
    make_folders(staging)
    config = TransformConfig(TinyCompile(), SealedOptions(AS_OF), Limits(), parts, staging=staging)
    units = [Unit(part.index, [Task(part.index, block) for block in blocks(part)]) for part in parts]
    return config, units


def _mounting(mounts: Mapping[Path, Path | None]) -> list[str]:
    """The start of the command line of a process that has other files at these paths."""
    if not mounts:
        return []
    tried = "unshare", "--mount", "mount", "-t", "tmpfs", "none", "/tmp"
    if shutil.which("unshare") is None or subprocess.run(tried, capture_output=True, check=False).returncode:
        pytest.skip("a process may not have mounts of its own here, as a worker of another machine has")
    steps = []
    for path, other in mounts.items():
        kind = ["-t", "tmpfs", "none"] if other is None else ["--bind", str(other)]
        steps.append(join(["mount", *kind, str(path)]))
    return ["unshare", "--mount", "sh", "-c", " && ".join([*steps, 'exec "$@"']), "worker"]


def _started(
    module: str,
    *words: object,
    environment: Mapping[str, str] = {},
    folder: Path | None = None,
    before: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    command = [*before, sys.executable, "-m", f"distributed.cli.{module}", *map(str, words)]
    root = Path(__file__).parent.parent.parent
    path = os.pathsep.join([environment.get("PYTHONPATH", str(root)), str(root)])
    variables = os.environ | {**environment, "PYTHONPATH": path}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, env=variables, cwd=folder, stdout=quiet, stderr=quiet)
