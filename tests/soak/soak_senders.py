"""A plan is sent on a cluster by sender processes that die again and again, as do their parent and the workers.

Nothing is lost, and no more comes twice than was in flight of those that died. Three seeds, each of about a minute.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline.delivery.outcome import SendLimits
from pipeline.ledger import read_batches, read_totals
from pipeline.local_service import LocalService
from tests.support.clusters import a_cluster, dask, losing_workers
from tests.support.crashes import KEYS, await_end, sender_pids
from tests.support.deliveries import AT_ONCE, KEY, copies, identities, landed, planned, run

LIMITS = SendLimits(4, AT_ONCE)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_workers_senders_and_parent_that_die_lose_and_double_nothing(seed: int, tmp_path: Path) -> None:
    """On a cluster of two workers; senders go on to an orderly end where only their parent dies."""
    directory = planned(tmp_path, 1_800, files=60, batch=5)
    ledger = directory / "ledger.sqlite"
    chance = random.Random(seed)
    doubtful = 0
    killed: Counter[str] = Counter()
    with (
        LocalService(keys=KEYS) as service,
        a_cluster(tmp_path / "dask") as cluster,
        losing_workers(cluster, seed) as lost,
    ):
        command = [sys.executable, "-m", "pipeline", "apply", str(directory), "--to", service.url, "--quiet"]
        command += ["--engine", dask(cluster), "--max-concurrency", "4", "--senders", "2", "--rate", "300"]
        for _ in range(12):
            parent = subprocess.Popen(command, env=os.environ | {"BACKCAST_PROJECT_KEY": KEY}, stderr=subprocess.PIPE)
            for _ in range(chance.randint(1, 3)):
                before = read_totals(ledger).settled
                while parent.poll() is None and read_totals(ledger).settled < before + 40:
                    time.sleep(0.02)
                time.sleep(chance.uniform(0, 0.3))
                if parent.poll() is None and (victims := sender_pids(parent.pid)):
                    with suppress(ProcessLookupError):
                        os.kill(chance.choice(victims), signal.SIGKILL)
                        killed["sender"] += 1
                        doubtful += 4 * 5
            orphans = sender_pids(parent.pid)
            killed["parent"] += parent.poll() is None
            parent.kill()
            parent.communicate(timeout=20)
            await_end(orphans)
            doubts = sum(place.events for place in read_batches(ledger, "begun"))
            assert doubts <= 4 * 5
            doubtful += doubts
        outcome = run(directory, service.url, workers=None, engine=dask(cluster), send_limits=LIMITS, senders=2)
        assert (outcome.problem, outcome.balanced) == (None, True)
        assert landed(service) == identities(1_800)
        twice = copies(service)
    assert sum(count - 1 for count in twice.values()) <= doubtful
    assert min(killed["sender"], killed["parent"], len(lost)) >= 2
    assert read_totals(ledger).settled == 1_800
    assert not (directory / "senders").exists()
