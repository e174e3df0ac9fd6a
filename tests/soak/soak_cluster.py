"""Twenty million events on a cluster whose two workers are killed again and again, by the real commands (half an hour).

Planned once, and sent by two sender processes in runs of which the first ones are killed, and a sender process before
each. Each event arrives, once, or twice if a killed process left it in doubt; the memory of a worker is bounded. `make
soak` runs it; SOAK_CLUSTER_EVENTS is another number, of three million or more.

Before that, in a minute, every sample is planned on a cluster: `make test` plans one of each kind there.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from pipeline.ledger import read_batches, read_totals
from tests.golden import samples
from tests.soak.soak_million import peak_of
from tests.support.clusters import Cluster, a_cluster, dask, losing_workers, plan_sample
from tests.support.crashes import await_end, spawned
from tests.support.deliveries import COLUMNS, KEY

EVENTS = int(os.environ.get("SOAK_CLUSTER_EVENTS", "20000000"))
FILES = 20
KILLED_RUNS = 3
WORKER = 400 << 20
"""The peak memory of a worker: Python, the data libraries and Dask, and the blocks of a few units."""
COMMAND = [sys.executable, "-m", "pipeline"]
ENVIRONMENT = os.environ | {"BACKCAST_PROJECT_KEY": KEY}
NUMBER = re.compile(rb'"number":(\d+)')


def export(folder: Path) -> Path:
    folder.mkdir()
    for file in range(FILES):
        with (folder / f"part-{file:02d}.jsonl").open("w", encoding="ascii") as lines:
            for number in range(file * EVENTS // FILES, (file + 1) * EVENTS // FILES):
                lines.write(
                    f'{{"event":"Step {number % 11}","distinct_id":"person-{number * 31 % (EVENTS // 5 + 1)}",'
                    f'"timestamp":"20{18 + number % 5}-0{1 + number % 9}-1{number % 7}T0{number % 10}:00:00Z",'
                    f'"uuid":"{number:08x}-0000-4000-8000-{number * 2654435761 % (1 << 48):012x}","number":{number}}}\n'
                )
    return folder


class Counting(BaseHTTPRequestHandler):
    """Takes each batch, and counts how often each number came."""

    protocol_version = "HTTP/1.1"
    copies = np.zeros(EVENTS, np.uint8)
    lock = threading.Lock()

    def do_POST(self) -> None:
        body = zlib.decompress(self.rfile.read(int(self.headers["Content-Length"])), 31)
        numbers = np.array(NUMBER.findall(body), np.int64)
        with self.lock:
            np.add.at(self.copies, numbers, 1)
        answer = b'{"status":"Ok"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that is killed leaves its connections as they are."""


@contextmanager
def counting() -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Counting)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def watched(cluster: Cluster) -> Iterator[list[int]]:
    """Inside, the system's peak memory of each worker in bytes is read twice a second."""
    peaks = [0]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            for worker in list(cluster.workers):
                peaks[0] = max(peaks[0], peak_of(worker.pid))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def test_every_sample_is_planned_the_same_on_a_cluster(tmp_path: Path) -> None:
    """Every format, identities, profiles, rejects and counts: the digest seals everything."""
    with a_cluster(tmp_path / "dask") as cluster:
        for name in samples.GOLDEN:
            here = plan_sample(name, tmp_path / name / "here", workers=0)
            there = plan_sample(name, tmp_path / name / "there", engine=dask(cluster))
            assert there.digest == here.digest, name


def most_events(ledger: Path) -> int:
    return max(place.events for place in read_batches(ledger, "settled"))


def test_a_cluster_that_loses_its_workers_sends_everything(tmp_path: Path) -> None:
    """Equal sets, a ledger that balances, and workers of bounded memory."""
    source, plan = export(tmp_path / "export"), tmp_path / "plan"
    ledger = plan / "ledger.sqlite"
    settings = [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    chance = random.Random(1)
    seconds = {}
    doubtful = 0
    with (
        counting() as url,
        a_cluster(tmp_path / "dask") as cluster,
        watched(cluster) as peaks,
        losing_workers(cluster, 1, least=4, most=20) as killed,
    ):
        engine = ["--engine", f"dask={cluster.address}", "--quiet"]
        began = time.monotonic()
        command = [*COMMAND, "plan", str(source), "-m", "generic", *settings, "-o", str(plan), *engine]
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
        assert (done.returncode, done.stderr) == (0, "")
        seconds["plan"] = time.monotonic() - began
        command = [*COMMAND, "apply", str(plan), "--to", url, *engine, "--max-concurrency", "4", "--senders", "2"]
        for run in range(1, KILLED_RUNS + 1):
            parent = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
            for part in (1, 2):  # a sender process in the middle, and the parent at the end
                while read_totals(ledger).settled < (2 * run + part - 2) * EVENTS // (2 * KILLED_RUNS + 2):
                    assert parent.poll() is None
                    time.sleep(0.1)
                time.sleep(chance.uniform(0, 2))
                senders = spawned(parent.pid)
                os.kill(chance.choice(senders) if part == 1 else parent.pid, signal.SIGKILL)
                if part == 1:  # as much as one process may have in flight
                    doubtful += 2 * most_events(ledger)
            parent.wait(20)
            await_end(senders)
            doubtful += sum(place.events for place in read_batches(ledger, "begun"))
        began = time.monotonic()
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, env=ENVIRONMENT)
        assert (done.returncode, done.stderr) == (0, "")
        seconds["apply, the rest"] = time.monotonic() - began
        said = json.loads(done.stdout)
        assert said["balanced"] is True
        assert said["events"]["made"] == EVENTS
    copies = Counting.copies
    assert (int(copies.min()), read_totals(ledger).settled) == (1, EVENTS)
    assert int(copies.sum()) - EVENTS <= doubtful
    assert peaks[0] <= WORKER
    times = ", ".join(f"{name} {took:,.0f} s" for name, took in seconds.items())
    print(
        f"\n{EVENTS:,} events: {times}; {len(killed)} workers, {KILLED_RUNS} senders, {KILLED_RUNS} runs killed; "
        f"{int(copies.sum()) - EVENTS} of {doubtful} in doubt came twice; a worker's peak {peaks[0] >> 20} MiB"
    )
