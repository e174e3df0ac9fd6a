"""Several processes that send one plan: what one would send, whichever of them dies, within the limits of one.

With a parent and workers that die, too, again and again: `make soak` (soak_cluster).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipeline
from pipeline.delivery.outcome import RunCounts, SendLimits
from pipeline.delivery.shares import shares_of_blocks
from pipeline.errors import Refused, Unfinished, UsageError
from pipeline.ledger import read_batches, read_totals
from pipeline.local_service import LocalService
from pipeline.models import Dialect, Part
from pipeline.options import PlanOptions
from pipeline.options.pace import read_limits
from pipeline.plan.canary import Ranges
from pipeline.plan.sealed.manifest import SealedBlock
from tests.support.crashes import KEYS
from tests.support.deliveries import (
    AT_ONCE,
    COLUMNS,
    KEY,
    Asked,
    Reply,
    copies,
    identities,
    landed,
    passed_on,
    planned,
    row,
    run,
    serving,
)

LIMITS = SendLimits(4, AT_ONCE)


def senders() -> Sequence[multiprocessing.process.BaseProcess]:
    """The sender processes that this one has now."""
    return [one for one in multiprocessing.active_children() if one.name == "backcast-sender"]


def test_a_sender_that_dies_is_started_again_and_resumes(tmp_path: Path) -> None:
    """Killed while the service has one of its requests: only what was in flight may come twice. The rest of each block
    is sent of which a canary was sent, after the merges; the ledgers are one in the end, the counts those of all."""
    directory = planned(tmp_path, 300, files=2, links=True)
    ranges: Ranges = {("events", block): [(0, 14), (40, 44)] for block in range(2)}
    killed: list[int | None] = []
    turn = threading.Lock()
    with LocalService(keys=KEYS) as service:

        def answer(asked: Asked) -> Reply:
            reply = passed_on(service.url, asked.body)
            with turn:
                if not killed and asked.number > 9 and (alive := senders()):
                    alive[-1].kill()
                    killed.append(alive[-1].pid)
            return reply

        started: set[str] = set()
        seen: list[tuple[int, int, int]] = []
        limits: set[int] = set()

        def look(counts: RunCounts) -> None:
            started.update(one.name for one in (directory / "senders").glob("*-*"))
            seen.append((counts.made, counts.batches_sent, counts.bytes_sent))
            limits.add(counts.limit)

        with serving(answer) as server:
            canary = run(directory, server.url, send_limits=LIMITS, only=ranges, senders=3)
            outcome = run(directory, server.url, send_limits=LIMITS, senders=3, progress=look)
        assert (canary.counts.accepted, outcome.counts.already_settled) == (40, 40)
        assert (outcome.problem, outcome.balanced, outcome.counts.accepted) == (None, True, outcome.planned - 40)
        assert started == {"2-1", "2-2"}  # no more than blocks
        assert max(limits) <= LIMITS.concurrency
        for one in zip(*seen, strict=True):
            assert list(one) == sorted(one)  # counters that monitoring reads never go back
        twice = copies(service)
        assert (len(killed), len(twice)) == (1, outcome.planned)
        assert sum(twice.values()) - len(twice) <= LIMITS.concurrency * 10
    totals = read_totals(directory / "ledger.sqlite")
    assert totals.settled == outcome.planned
    assert totals.batches_sent == canary.counts.batches_sent + outcome.counts.batches_sent
    assert not (directory / "senders").exists()


def test_senders_that_die_again_and_again_end_the_run(tmp_path: Path) -> None:
    """Without progress: the error says how often, readers see what all ledgers have, and the next run finishes."""
    directory = planned(tmp_path, 100, files=2)
    deadly = threading.Event()
    deadly.set()
    with LocalService(keys=KEYS) as service:

        def answer(asked: Asked) -> Reply:
            if deadly.is_set():
                for one in senders()[-1:]:
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
    """More than --max-refused in all stop all, though no process has so many. A run that resumes is stopped by what is
    refused in it, as where one process sends."""
    directory = planned(tmp_path, 200, files=2)
    poisoned = threading.Event()
    poisoned.set()
    with LocalService(keys=KEYS) as service:

        def answer(asked: Asked) -> Reply:
            if poisoned.is_set() and any(event["event"] == "Step 1" for event in asked.events):
                return Reply(400, b"no")
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            limits = SendLimits(4, AT_ONCE, max_refused=12, rates=read_limits("200"))
            first = run(directory, server.url, send_limits=limits, senders=2)
            poisoned.clear()
            limits = SendLimits(4, AT_ONCE, max_refused=3)
            outcome = run(directory, server.url, send_limits=limits, senders=2)
    assert isinstance(first.problem, Refused)
    assert re.match(r"the service refused \d\d events; the last: 400 no", first.problem.message)
    assert first.problem.status == 400
    assert first.problem.hint.startswith("list them with `backcast rejects`")
    assert 12 < first.counts.refused < 24
    assert first.unsent > 80
    assert (outcome.problem, outcome.counts.refused, outcome.unsent) == (None, first.counts.refused, 0)


def test_a_signal_to_all_processes_ends_them_in_order(tmp_path: Path) -> None:
    """As a service manager sends it: what is in flight is settled, the ledgers are one, the next run sends the rest."""
    directory = planned(tmp_path, 400, files=4)
    with LocalService(keys=KEYS) as service:
        arrived, over = threading.Event(), threading.Event()

        def answer(asked: Asked) -> Reply:
            if asked.number > 10 and not over.is_set():
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
        assert not (directory / "senders").exists()
        over.set()
        with serving(answer, port=server.port) as again:
            assert run(directory, again.url, send_limits=LIMITS).balanced
        assert landed(service) == identities(400)
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
                    return Reply(429, b"slow down", {"Retry-After": "2"})
            time.sleep(0.1)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            outcome = run(directory, server.url, send_limits=LIMITS, senders=2)
        assert (outcome.problem, outcome.balanced) == (None, True)
    assert not [at for at in arrivals if asked_at[0] + 0.8 < at < asked_at[0] + 1.8]


def test_no_id_is_faster_than_one_process_would_send_it(tmp_path: Path) -> None:
    """Also where a batch has more events of it than the limit of a process."""
    export = tmp_path / "export"
    export.mkdir()
    for file in range(4):
        rows = [row(number) | {"distinct_id": "server"} for number in range(file * 48, file * 48 + 48)]
        (export / f"part-{file}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    options = PlanOptions(mapping="generic", settings=COLUMNS, max_batch_events=48)
    pipeline.plan_export(export, tmp_path / "plan", options)
    with LocalService(keys=KEYS) as service:
        limits = SendLimits(4, AT_ONCE, max_seconds=4)
        outcome = run(tmp_path / "plan", service.url, send_limits=limits, senders=2, per_id=48)
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
    ("options", "rate", "message"),
    [
        ({"senders": 5}, None, "--senders 5 is more than --max-concurrency 4, and each process has a request in"),
        ({"senders": 4, "per_id": 3}, None, "--senders 4 is more than --per-id 3, and each process has a part of that"),
        ({"senders": 2, "order": "person"}, None, "--senders 2 cannot keep the events of one person in order, and"),
        ({"senders": 4}, "3", "--senders 4 is more than --rate 3"),
    ],
)
def test_limits_that_several_processes_cannot_keep_are_refused(
    options: dict[str, object], rate: str | None, message: str, tmp_path: Path
) -> None:
    """Before anything is sent; a rate would be less than an event a second for each."""
    limits = SendLimits(4, AT_ONCE, rates=read_limits(rate) if rate else ())
    with pytest.raises(UsageError, match=re.escape(message)):
        run(planned(tmp_path, 20), "http://127.0.0.1:1", send_limits=limits, **options)
