"""Several processes that send one plan: what one would send, whichever of them dies, within the limits of one."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipeline
from pipeline.config import Secret
from pipeline.delivery import sender_processes
from pipeline.delivery.capture import CaptureDestination
from pipeline.delivery.outcome import RunCounts, SendLimits
from pipeline.delivery.sender_processes import SenderProcesses
from pipeline.delivery.shares import shares_of_blocks
from pipeline.errors import Refused, Unfinished, UsageError
from pipeline.ledger import Ledger, read_batches, read_totals
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.models import Dialect, Part
from pipeline.options import PlanOptions
from pipeline.options.pace import read_limits
from pipeline.plan.canary import Ranges
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import SealedBlock
from tests.delivery.test_resume import copies, landed
from tests.support.clusters import a_cluster, losing_workers
from tests.support.crashes import await_end, sender_pids
from tests.support.deliveries import (
    AT_ONCE,
    COLUMNS,
    KEY,
    Asked,
    Reply,
    applying,
    identities,
    passed_on,
    planned,
    row,
    run,
    serving,
)

KEYS = Keyring((Project(1, "Rehearsal", KEY),), {})
LIMITS = SendLimits(4, AT_ONCE)


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

        seen: list[tuple[int, int, int]] = []
        with serving(answer) as server:
            outcome = run(
                directory, server.url, send_limits=LIMITS, senders=2,
                progress=lambda counts: seen.append((counts.made, counts.batches_sent, counts.bytes_sent)),
            )  # fmt: skip
        assert len(killed) == 3
        for one in zip(*seen, strict=True):
            assert list(one) == sorted(one)  # counters that monitoring reads never go back
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
            assert "died 4 times without settling anything in between, the last time by signal 9" in str(
                outcome.problem
            )
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
    assert re.match(r"the service refused \d\d events; the last: 400 \w", outcome.problem.message)
    assert outcome.problem.status == 400
    assert outcome.problem.hint.startswith("list them with `backcast rejects`")
    assert 12 < outcome.counts.refused < 24
    assert outcome.unsent > 200


def test_more_were_refused_before_than_are_allowed_now(tmp_path: Path) -> None:
    """A run that resumes is stopped by what is refused in it, as where one process sends."""
    directory = planned(tmp_path, 200, files=4)
    poisoned = threading.Event()
    poisoned.set()
    with LocalService(keys=KEYS) as service:

        def answer(asked: Asked) -> Reply:
            if poisoned.is_set() and any(event["event"] == "Step 1" for event in asked.events):
                return Reply(400, b"no")
            return passed_on(service.url, asked.body)

        limits = SendLimits(4, AT_ONCE, max_refused=3)
        with serving(answer) as server:
            first = run(directory, server.url, send_limits=limits)
            poisoned.clear()
            outcome = run(directory, server.url, send_limits=limits, senders=2)
        assert first.counts.refused > 3
        assert (outcome.problem, outcome.counts.refused, outcome.unsent) == (None, first.counts.refused, 0)


def test_an_interrupt_ends_all_processes_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in flight is settled, the ledgers are one, and the next run sends the rest. Each process is asked once:
    more messages than one would fill these pipes, while a request takes long."""
    monkeypatch.setattr(sender_processes, "STOP", b"x" * 150_000)
    directory = planned(tmp_path, 400, files=4)
    interrupted, over = threading.Event(), threading.Event()
    with LocalService(keys=KEYS) as service:

        def answer(asked: Asked) -> Reply:
            if asked.number > 10 and not over.is_set():
                interrupted.set()
                time.sleep(1.5)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            outcome = run(directory, server.url, send_limits=LIMITS, senders=2, interrupted=interrupted)
            assert str(outcome.problem) == "stopped by hand; what was in flight is settled"
            assert outcome.counts.in_doubt == 0
            assert 100 < outcome.counts.accepted < 200
            assert not (directory / "senders").exists()
            over.set()
            assert run(directory, server.url, send_limits=LIMITS).balanced
        assert set(copies(service).values()) == {1}
        assert landed(service) == identities(400)


def test_a_signal_to_all_processes_ends_them_in_order(tmp_path: Path) -> None:
    """As a service manager sends it."""
    directory = planned(tmp_path, 400, files=4)
    with LocalService(keys=KEYS) as service:
        arrived = threading.Event()

        def answer(asked: Asked) -> Reply:
            if asked.number > 10:
                arrived.set()
                time.sleep(0.7)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            command = [sys.executable, "-m", "pipeline", "apply", str(directory), "--to", server.url, "--json"]
            command += ["--senders", "2", "--workers", "0"]
            parent = subprocess.Popen(
                command, env=os.environ | {"BACKCAST_PROJECT_KEY": KEY}, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, start_new_session=True,
            )  # fmt: skip
            assert arrived.wait(60)
            os.killpg(parent.pid, signal.SIGTERM)
            told, said = parent.communicate(timeout=60)
        assert parent.returncode == 130
        assert "stopped by hand; what was in flight is settled" in said
        events = json.loads(told)["events"]
        assert (events["in_doubt"], events["accepted"]) == (0, len(copies(service)))
        assert set(copies(service).values()) == {1}


def test_a_pause_that_is_asked_of_one_process_is_kept_by_all(tmp_path: Path) -> None:
    """No request leaves within the seconds of a Retry-After, but for those that were on their way."""
    directory = planned(tmp_path, 400, files=4)
    arrivals: list[float] = []
    asked_at: list[float] = []
    turn = threading.Lock()
    with LocalService(keys=KEYS) as service:

        def answer(asked: Asked) -> Reply:
            with turn:
                arrivals.append(time.monotonic())
                if len(arrivals) == 12:
                    asked_at.append(arrivals[-1])
                    return Reply(429, b"slow down", {"Retry-After": "3"})
            time.sleep(0.25)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            outcome = run(directory, server.url, send_limits=LIMITS, senders=4)
        assert (outcome.problem, outcome.balanced) == (None, True)
    assert not [at for at in arrivals if asked_at[0] + 0.8 < at < asked_at[0] + 2.8]


def test_no_id_is_faster_than_one_process_would_send_it(tmp_path: Path) -> None:
    """Also where a batch has more events of it than the limit of a process."""
    export = tmp_path / "export"
    export.mkdir()
    for file in range(8):
        rows = [row(number) | {"distinct_id": "server"} for number in range(file * 30, file * 30 + 30)]
        (export / f"part-{file}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    options = PlanOptions(mapping="generic", settings=COLUMNS, max_batch_events=30)
    pipeline.plan_export(export, tmp_path / "plan", options)
    with LocalService(keys=KEYS) as service:
        limits = SendLimits(4, AT_ONCE, max_seconds=6)
        outcome = run(tmp_path / "plan", service.url, send_limits=limits, senders=4, per_id=48)
    assert 40 <= outcome.counts.accepted <= 48


def test_a_process_that_cannot_be_started_again_ends_the_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others settle what is in flight."""
    directory = planned(tmp_path, 400, files=4)
    start, starts = multiprocessing.context.SpawnProcess.start, []

    def start_two(process: multiprocessing.context.SpawnProcess) -> None:
        starts.append(process.name)
        if starts.count("backcast-sender") > 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(process)

    monkeypatch.setattr(multiprocessing.context.SpawnProcess, "start", start_two)
    with LocalService(keys=KEYS) as service:

        def answer(asked: Asked) -> Reply:
            if asked.number == 6:
                senders()[0].kill()
            time.sleep(0.1)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            outcome = run(directory, server.url, send_limits=LIMITS, senders=2)
    assert isinstance(outcome.problem, Unfinished)
    assert str(outcome.problem) == "a sender process cannot be started: Resource temporarily unavailable"
    assert outcome.counts.in_doubt <= LIMITS.concurrency // 2 * 10  # of the one that was killed
    assert outcome.counts.accepted >= 40


def test_a_merge_that_fails_leaves_the_counts_of_all(tmp_path: Path) -> None:
    """The rows stay where they are, and the next run merges them."""
    directory = planned(tmp_path, 100, files=4)
    full = threading.Event()
    full.set()

    def disk(stage: str, steps: Sequence[str]) -> None:
        if full.is_set() and "merge senders" in steps:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorname = "SQLITE_FULL"
            raise error

    plan, place = open_plan(directory)
    with LocalService(keys=KEYS) as service:
        connect = partial(CaptureDestination, service.url)
        with closing(connect(key=Secret(KEY))) as destination, closing(Ledger(place.ledger, disk)) as ledger:
            ledger.open(plan.digest, "test", destination.address, Secret(KEY))
            others = SenderProcesses(2, connect)
            outcome = applying(plan, place, destination, ledger, LIMITS, others=others).run()
        assert (outcome.counts.accepted, outcome.unsent) == (100, 0)
        assert (directory / "senders").exists()
        full.clear()
        assert run(directory, service.url, send_limits=LIMITS).counts.already_settled == 100
        assert set(copies(service).values()) == {1}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=9), st.integers(1, 4))
def test_each_block_is_of_one_process(parts: list[tuple[bool, int]], count: int) -> None:
    """And where enough parts can only be read from their beginning, all blocks of each of them are of one."""
    named = [
        Part(number, "a", "a", "", ("gzip",) if stream else (), "jsonl", Dialect(), 1, 1)
        for number, (stream, _) in enumerate(parts)
    ]
    of_parts = [part for part, (_, many) in enumerate(parts) for _ in range(many)]
    blocks = [(part, SealedBlock(number, part, 0, 0, 0, 1, 1, 1, "")) for number, part in enumerate(of_parts)]
    shares = shares_of_blocks(named, count, frozenset({2}))
    owners = {block.number: [share.number for share in shares if share.has(block)] for _, block in blocks}
    assert all(len(found) == (number != 2) for number, found in owners.items())
    if sum(stream for stream, _ in parts) >= count:
        for part, (stream, _) in enumerate(parts):
            mine = {owner for of, block in blocks for owner in owners[block.number] if of == part}
            assert not stream or len(mine) <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"senders": 5}, "--senders 5 is more than --max-concurrency 4, and each process has a request in flight"),
        ({"senders": 4, "per_id": 3}, "--senders 4 is more than --per-id 3, and each process has a part of that limit"),
        ({"senders": 2, "order": "person"}, "--senders 2 cannot keep the events of one person in order, and --order"),
    ],
)
def test_limits_that_several_processes_cannot_keep_are_refused(
    options: dict[str, object], message: str, tmp_path: Path
) -> None:
    """Before anything is sent."""
    with LocalService(keys=KEYS) as service, pytest.raises(UsageError, match=re.escape(message)):
        run(planned(tmp_path, 20), service.url, send_limits=LIMITS, **options)


def test_a_rate_that_several_processes_cannot_keep_is_refused(tmp_path: Path) -> None:
    """It would be less than an event a second for each."""
    limits = SendLimits(4, AT_ONCE, rates=read_limits("3"))
    with LocalService(keys=KEYS) as service, pytest.raises(UsageError, match="--senders 4 is more than --rate 3"):
        run(planned(tmp_path, 20), service.url, send_limits=limits, senders=4)


def test_what_a_run_or_a_canary_left_is_sent_by_all(tmp_path: Path) -> None:
    """Also the rest of each block of which something is sent already; and no more processes than blocks are started."""
    directory = planned(tmp_path, 300, files=3)
    ranges: Ranges = {("events", block): [(0, 14), (40, 44)] for block in range(3)}
    started: set[str] = set()

    def look(counts: RunCounts) -> None:
        started.update(one.name for one in (directory / "senders").glob("*-*"))

    with LocalService(keys=KEYS) as service:
        canary = run(directory, service.url, send_limits=LIMITS, only=ranges, senders=3)
        assert canary.counts.accepted == 60
        outcome = run(directory, service.url, send_limits=LIMITS, senders=4, progress=look)
        assert (outcome.counts.accepted, outcome.counts.already_settled) == (240, 60)
        assert started == {"2-1", "2-2", "2-3"}
        assert set(copies(service).values()) == {1}
        assert landed(service) == identities(300)


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
