"""Clusters of Dask whose processes a test may kill: a scheduler and workers without anybody who starts them again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Cluster:
    """A scheduler at `address`, and its workers."""

    folder: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

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

    def start_worker(self, environment: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
        """One more worker of one thread."""
        assert self.address
        worker = _started(
            "dask_worker", "--scheduler-file", self.file, "--no-nanny", "--no-dashboard", "--nthreads", 1,
            "--local-directory", self.folder, "--host", "127.0.0.1", environment=environment,
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.wait(20)
        self.workers.remove(worker)


@contextmanager
def a_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster on this machine, in processes of their own."""
    folder.mkdir(exist_ok=True)
    file = folder / "scheduler.json"
    command = "dask_scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file
    cluster = Cluster(folder, _started(*command))
    try:
        for _ in range(workers):
            cluster.start_worker()
        yield cluster
    finally:
        for one in [*cluster.workers, cluster.scheduler]:
            one.kill()
            one.wait(20)


@contextmanager
def losing_workers(cluster: Cluster, seed: int, *, least: float = 0.1, most: float = 1.2) -> Iterator[list[float]]:
    """Inside, one worker after the other is killed at random moments, `least` to `most` seconds apart, and another one
    started. Yields the moments."""
    chance = random.Random(seed)
    over = threading.Event()
    killed: list[float] = []

    def lose() -> None:
        while not over.wait(chance.uniform(least, most)):
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


def _started(module: str, *words: object, environment: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.{module}", *map(str, words)]
    root = Path(__file__).parent.parent.parent
    path = os.pathsep.join([environment.get("PYTHONPATH", str(root)), str(root)])
    variables = os.environ | {**environment, "PYTHONPATH": path}
    return subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
