"""Several processes that send one plan: what one would send, whichever of them dies, within the limits of one."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline.delivery.outcome import SendLimits
from pipeline.errors import Refused, Unfinished, UsageError
from pipeline.ledger import read_batches, read_totals
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.options.pace import read_limits
from tests.support.clusters import a_cluster, losing_workers
from tests.support.crashes import await_end, sender_pids
from tests.support.deliveries import AT_ONCE, KEY, Asked, Identity, Reply, identities, passed_on, planned, run, serving

KEYS = Keyring((Project(1, "Rehearsal", KEY),), {})
LIMITS = SendLimits(4, AT_ONCE)


def landed(service: LocalService) -> set[Identity]:
    return {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in service.events()}


def copies(service: LocalService) -> Counter[str]:
    return Counter(str(uuid) for (uuid,) in service.select("select uuid from raw_events"))


def senders() -> Sequence[multiprocessing.process.BaseProcess]:
    """The sender processes that this one has now."""
    return [one for one in multiprocessing.active_children() if one.name == "backcast-sender"]


def test_processes_send_what_one_sends(tmp_path: Path) -> None:
    """Each event once, after the merges; the ledgers are one in the end, and the counts are those of all."""
    directory = planned(tmp_path, 600, files=6, links=True)
    seen: list[tuple[str, int, int]] = []
    with LocalService(keys=KEYS) as service:
        outcome = run(
            directory, service.url, send_limits=LIMITS, senders=3,
            progress=lambda counts: seen.append((counts.phase, counts.made, counts.limit)),
        )  # fmt: skip
        assert (outcome.problem, outcome.balanced, outcome.counts.accepted) == (None, True, outcome.planned)
        assert set(copies(service).values()) == {1}
        assert sum(copies(service).values()) == outcome.planned
    assert [made for _, made, _ in seen] == sorted(made for _, made, _ in seen)
    assert max(limit for _, _, limit in seen) <= LIMITS.concurrency
    totals = read_totals(directory / "ledger.sqlite")
    assert totals.settled == outcome.planned
    assert totals.batches_sent == outcome.counts.batches_sent == 61
    assert not (directory / "senders").exists()


def test_a_sender_that_dies_is_started_again_and_resumes(tmp_path: Path) -> None:
    """While the service has one of its requests: only what was in flight may be sent twice."""
    directory = planned(tmp_path, 400, files=4)
    with LocalService(keys=KEYS) as service:
        chance, turn = random.Random(5), threading.Lock()
        killed: list[int] = []

        def answer(asked: Asked) -> Reply:
            reply = passed_on(service.url, asked.body)
            with turn:
                if asked.number in (5, 12, 23) and (alive := senders()):
                    victim = chance.choice(alive)
                    victim.kill()
                    killed.append(victim.pid or 0)
            return reply

        with serving(answer) as server:
            outcome = run(directory, server.url, send_limits=LIMITS, senders=2)
        assert len(killed) == 3
        assert (outcome.problem, outcome.balanced) == (None, True)
        assert landed(service) == identities(400)
        assert sum(count - 1 for count in copies(service).values()) <= len(killed) * LIMITS.concurrency * 10
    assert read_totals(directory / "ledger.sqlite").settled == 400


def test_senders_that_die_again_and_again_end_the_run(tmp_path: Path) -> None:
    """Without progress: the error says how often, readers see what all ledgers have, and the next run finishes."""
    directory = planned(tmp_path, 100, files=2)
    deadly = threading.Event()
    deadly.set()
    with LocalService(keys=KEYS) as service:

        def answer(asked: Asked) -> Reply:
            if deadly.is_set():
                for one in senders():
                    one.kill()
                return Reply(0)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            outcome = run(directory, server.url, send_limits=LIMITS, senders=2, target_known=True)
            assert isinstance(outcome.problem, Unfinished)
            assert "a sender process ended by itself 4 times, the last time with exit -9" in str(outcome.problem)
            doubts = sum(place.events for place in read_batches(directory / "ledger.sqlite", "begun"))
            assert 0 < doubts <= LIMITS.concurrency * 10
            deadly.clear()
            assert run(directory, server.url, send_limits=LIMITS, senders=2).balanced
        assert landed(service) == identities(100)


def test_refused_events_of_all_processes_count(tmp_path: Path) -> None:
    """More than --max-refused in all stop all, though no process has so many."""
    directory = planned(tmp_path, 400, files=4)
    with LocalService(keys=KEYS, faults=("poison,event=Step 1",)) as service:
        limits = SendLimits(4, AT_ONCE, max_refused=12, rates=read_limits("200"))
        outcome = run(directory, service.url, send_limits=limits, senders=4)
    assert isinstance(outcome.problem, Refused)
    assert outcome.problem.message.startswith("the service refused ")
    assert outcome.problem.hint.startswith("list them with `backcast rejects`")
    assert 12 < outcome.counts.refused < 24
    assert outcome.unsent > 200


def test_an_interrupt_ends_all_processes_in_order(tmp_path: Path) -> None:
    """What is in flight is settled, the ledgers are one, and the next run sends the rest."""
    directory = planned(tmp_path, 400, files=4)
    interrupted = threading.Event()
    with LocalService(keys=KEYS) as service:
        limits = SendLimits(4, AT_ONCE, rates=read_limits("200"))
        outcome = run(
            directory, service.url, send_limits=limits, senders=2, interrupted=interrupted,
            progress=lambda counts: interrupted.set() if counts.accepted > 50 else None,
        )  # fmt: skip
        assert outcome.problem is not None
        assert outcome.problem.exit_code == 130
        assert outcome.counts.in_doubt == 0
        assert 50 < outcome.counts.accepted < 400
        assert not (directory / "senders").exists()
        assert run(directory, service.url, send_limits=LIMITS).balanced
        assert set(copies(service).values()) == {1}
        assert landed(service) == identities(400)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"senders": 5}, "--senders 5 is more than --max-concurrency 4, and each process has a request in flight"),
        ({"senders": 2, "order": "person"}, "--senders 2 cannot keep the events of one person in order, and --order"),
    ],
)
def test_limits_that_several_processes_cannot_keep_are_refused(
    options: dict[str, object], message: str, tmp_path: Path
) -> None:
    """Before anything is sent."""
    with LocalService(keys=KEYS) as service, pytest.raises(UsageError, match=re.escape(message)):
        run(planned(tmp_path, 20), service.url, send_limits=LIMITS, **options)


@pytest.mark.slow
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
        command += ["--engine", f"dask={cluster.address}", "--max-concurrency", "4", "--senders", "2", "--rate", "300"]
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
        outcome = run(
            directory, service.url, workers=None, engine=f"dask={cluster.address}", send_limits=LIMITS, senders=2
        )
        assert (outcome.problem, outcome.balanced) == (None, True)
        assert landed(service) == identities(1_800)
        twice = copies(service)
    assert sum(count - 1 for count in twice.values()) <= doubtful
    assert min(killed["sender"], killed["parent"], len(lost)) >= 2
    assert read_totals(ledger).settled == 1_800
    assert not (directory / "senders").exists()
