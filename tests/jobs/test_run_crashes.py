"""A scheduled backfill that dies, or loses its files or its state, continues as if nothing had happened."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from pipeline.jobs import load_job, read_history, state_file
from pipeline.local_service import LocalService
from tests.support.deliveries import Asked, Reply, passed_on, serving
from tests.support.forked import Forked
from tests.support.jobs import (
    CRASHES,
    code,
    copies,
    counts,
    crashed,
    days,
    identities,
    landed,
    outcomes,
    put,
    ran,
    row,
    run,
    sent_once,
    started,
    write_job,
)


@pytest.mark.parametrize("at", ["planned", "before the ledger", "before it is recorded", "recorded"])
def test_a_run_killed_between_two_steps_is_finished_by_the_next(tmp_path: Path, service: LocalService, at: str) -> None:
    """SIGKILL: no event is lost, none is sent twice, though the file of what was sent is gone."""
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, until="2024-01-03")
    assert crashed(job, CRASHES[at]) == -signal.SIGKILL
    if at in ("before it is recorded", "recorded"):
        assert service.count() == 10
        (tmp_path / "exports/2024/01/01/a.jsonl").unlink()
    done = run(job)
    assert code(done) == 0
    assert [one[:3] for one in counts(job)] == [("2024-01-01", "done", 10), ("2024-01-02", "done", 10)]
    assert sent_once(service, rows)
    assert run(job).windows == []


BIG = 5_200
"""Rows of a window that takes two requests."""


def test_a_run_killed_while_it_sends_is_resumed_before_anything_else(tmp_path: Path, service: LocalService) -> None:
    """What was begun is finished first, from its sealed plan; at most what was in flight arrives twice."""
    rows = [row(1, number) for number in range(BIG)]
    put(tmp_path, 1, rows)
    runs: list[Forked] = []
    begun, dead = threading.Event(), threading.Event()

    def answer(asked: Asked) -> Reply:
        reply = passed_on(service.url, asked.body)
        if not dead.is_set() and asked.number == 1:
            assert begun.wait(30)
            runs[0].send_signal(signal.SIGKILL)
            dead.set()
            return Reply(0)
        return reply

    with serving(answer) as server:
        job = write_job(tmp_path, server.url, until="2024-01-03")
        runs.append(started(job))
        begun.set()
        assert runs[0].wait() == -signal.SIGKILL
        rows += days(tmp_path, 2)
        assert ran(job) == (0, *printed(job, BIG))
    assert landed(service) == identities(rows)
    assert [one[:3] for one in counts(job)] == [("2024-01-01", "done", BIG), ("2024-01-02", "done", 10)]
    assert sum(copies(service).values()) - len(rows) <= BIG


def printed(job: Path, first: int) -> tuple[str, str]:
    """The output of a run of two windows, without its times."""
    _, attempts = read_history(state_file(load_job(job).state))
    seconds = {one.window: one.seconds for one in attempts}
    lines = [
        f"2024-01-01 done: {first:,} events sent, of {first:,} rows in 1 file, {seconds['2024-01-01']:.1f} s",
        f"2024-01-02 done: 10 events sent, of 10 rows in 1 file, {seconds['2024-01-02']:.1f} s",
    ]
    return "".join(line + "\n" for line in lines), ""


@pytest.mark.parametrize("gone", [False, True], ids=["changed", "gone"])
def test_a_file_that_changes_while_its_window_is_half_sent(tmp_path: Path, service: LocalService, gone: bool) -> None:
    """The rest is sent as it was planned; additional rows of a changed file are planned after it."""
    rows = [row(1, number) for number in range(BIG)]
    put(tmp_path, 1, rows)

    def answer(asked: Asked) -> Reply:
        return passed_on(service.url, asked.body) if asked.number == 0 or mended.is_set() else Reply(402, b"quota")

    mended = threading.Event()
    with serving(answer) as server:
        job = write_job(tmp_path, server.url, until="2024-01-03", lookback="2")
        done = run(job)
        assert (outcomes(done), code(done)) == ({"2024-01-01": "unfinished"}, 5)
        assert 0 < service.count() < BIG
        mended.set()
        if gone:
            (tmp_path / "exports/2024/01/01/a.jsonl").rename(tmp_path / "kept")
            days(tmp_path, 2)
            done = run(job)
            rows += [row(2, number) for number in range(10)]
            assert code(done) == 0
        else:
            rows = [row(1, number) for number in range(-5, BIG)]
            put(tmp_path, 1, rows[::-1])
            done = run(job)
            assert [one.outcome for one in done.windows] == ["done", "done", "waiting"]
            assert counts(job) == [("2024-01-01", "done", BIG, 0), ("2024-01-01", "done", 5, BIG)]
    assert sent_once(service, rows)


def test_a_window_that_was_half_sent_is_never_called_empty(tmp_path: Path, service: LocalService) -> None:
    """With `missing: done` too: its plan was damaged, its file was stopped by a gate and taken away, and the rest has
    yet to be sent."""
    put(tmp_path, 1, [row(1, number) for number in range(BIG)])

    def answer(asked: Asked) -> Reply:
        return passed_on(service.url, asked.body) if asked.number == 0 else Reply(402, b"quota")

    with serving(answer) as server:
        job = write_job(tmp_path, server.url, until="2024-01-02", missing="done")
        run(job)
        (tmp_path / "state/nightly/windows/2024-01-01/plan-1/requests/events-00000.pack").write_bytes(b"")
        file = put(tmp_path, 1, [{"event": "Nobody"}])
        assert [one.outcome for one in run(job).windows] == ["replaced", "stopped"]
        file.unlink()
        done = run(job)
        assert (outcomes(done), code(done)) == ({"2024-01-01": "waiting"}, 6)


def test_a_late_file_that_was_half_sent_and_is_gone_is_waited_for(tmp_path: Path, service: LocalService) -> None:
    """Its window was done before, but the rest of the file has yet to be sent."""
    rows = days(tmp_path, 1)
    late = [row(1, 100 + number) for number in range(BIG)]
    open_for = [2]  # the window itself, and one of the requests of its late file

    def answer(asked: Asked) -> Reply:
        if open_for[0] <= 0:
            return Reply(402, b"quota")
        open_for[0] -= 1
        return passed_on(service.url, asked.body)

    with serving(answer) as server:
        job = write_job(tmp_path, server.url, until="2024-01-02", lookback="1")
        run(job)
        file = put(tmp_path, 1, late, "late.jsonl")
        assert code(run(job)) == 5
        (tmp_path / "state/nightly/windows/2024-01-01/plan-2/requests/events-00000.pack").write_bytes(b"")
        put(tmp_path, 1, [{"event": "Nobody"}], "late.jsonl")
        assert [one.outcome for one in run(job).windows] == ["replaced", "stopped"]
        file.unlink()
        done = run(job)
        assert (outcomes(done), code(done)) == ({"2024-01-01": "waiting"}, 6)
        put(tmp_path, 1, late, "late.jsonl")
        open_for[0] = 9
        assert code(run(job)) == 0
    assert landed(service) == identities([*rows, *late])


def test_a_lost_state_is_made_again_from_the_plans(tmp_path: Path, service: LocalService) -> None:
    """Without the index everything would be sent once more."""
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, lookback="9", until="2024-01-03")
    run(job)
    put(tmp_path, 2, [row(2, 0), row(2, 99)], "late.jsonl")
    run(job)
    before = counts(job)
    for file in (tmp_path / "state/nightly").glob("state.sqlite*"):
        file.unlink()
    assert run(job).windows == []
    assert sorted(counts(job)) == sorted(before)
    put(tmp_path, 2, [row(1, 0), row(2, 98)], "later.jsonl")
    run(job)
    assert sent_once(service, [*rows, row(2, 99), row(2, 98)])
