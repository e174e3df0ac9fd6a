"""One run of a job at a time; trying a job, looking at it, ending it."""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import Busy, UsageError
from pipeline.jobs.hooks import JobHooks, WindowRun
from pipeline.jobs.state import read_facts, read_history
from pipeline.ledger import lock_file, unlock
from pipeline.local_service import LocalService
from tests.support.jobs import code, days, outcomes, put, ran, row, run, sent_once, started, write_job


def test_one_run_of_a_job_at_a_time(tmp_path: Path, service: LocalService) -> None:
    """A second run says which process has the job, exit 2, and nothing is planned; of two processes one is turned away,
    or finds everything done."""
    days(tmp_path, 1)
    job = write_job(tmp_path, "http://127.0.0.1:1")
    (tmp_path / "state/nightly").mkdir(parents=True)
    lock = lock_file(tmp_path / "state/nightly/job", "a test")
    try:
        holder = f"is in use by another run: process {os.getpid()} "
        with pytest.raises(Busy, match=f"the job nightly, with its state in .*state/nightly, {holder}"):
            run(job)
    finally:
        unlock(lock)
    assert not (tmp_path / "state/nightly/windows").exists()
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, until="2024-01-03")
    runs = [started(job), started(job)]
    codes = sorted(one.wait() for one in runs)
    assert codes in ([0, 2], [0, 0])
    assert sent_once(service, rows)


def test_a_state_without_tables_is_not_a_state_yet(tmp_path: Path, service: LocalService) -> None:
    """A run creates the file before its tables, which another process sees, and a crash leaves. What a state has as
    settled is not settled for another job or another calendar."""
    days(tmp_path, 1)
    job = write_job(tmp_path, service.url, until="2024-01-02", state="kept")
    state = tmp_path / "kept/state.sqlite"
    state.parent.mkdir(parents=True)
    state.touch()
    assert (read_facts(state), read_history(state)) == ({}, ([], []))
    assert outcomes(run(job, dry_run=True)) == {"2024-01-01": "planned"}
    assert outcomes(run(job)) == {"2024-01-01": "done"}
    for other in ({"window_timezone": "Asia/Tokyo"}, {"name": "other"}):
        with pytest.raises(UsageError, match="belongs to the"):
            run(write_job(tmp_path, service.url, state="kept", **other))


def test_a_value_that_is_not_a_key_ends_a_run_before_anything_is_planned(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is checked as in `apply`, in a dry run too: exit 2, no folder."""
    job = write_job(tmp_path, "us")
    for key, more in (("abc", []), ("phx_0123456789", []), ("abc", ["--dry-run"])):
        monkeypatch.setenv("BACKCAST_PROJECT_KEY", key)
        assert call("run", job, *more).code == 2
    assert not (tmp_path / "state").exists()


def test_a_dry_run_sends_nothing_and_leaves_no_trace(tmp_path: Path, service: LocalService) -> None:
    """It counts what a run would send, including what earlier windows of the same run would settle."""
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, until="2024-01-04", missing="done")
    run(job, datetime(2024, 1, 4, 12, tzinfo=UTC))
    put(tmp_path, 2, [*rows, row(2, 80)])
    put(tmp_path, 3, [row(2, 80), row(3, 1)])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "state").rglob("*") if path.suffix != "-shm"}
    done = run(job, dry_run=True)
    assert {one.window: one.attempt and one.attempt.events for one in done.windows} == {
        "2024-01-02": 11, "2024-01-03": 1,
    }  # fmt: skip
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "state").rglob("*") if path.suffix != "-shm"}
    assert (set(outcomes(done).values()), before, service.count()) == ({"planned"}, after, 10)


def test_a_dry_run_of_a_job_that_never_ran_makes_no_folder(tmp_path: Path) -> None:
    """A gate that would stop a window is exit 4 nevertheless."""
    put(tmp_path, 1, [row(1, 1, distinct_id="")])
    job = write_job(tmp_path, "http://127.0.0.1:9", until="2024-01-02")
    done = run(job, dry_run=True)
    assert (outcomes(done), code(done)) == ({"2024-01-01": "stopped"}, 4)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(("zone", "ended"), [("", 4), ("America/New_York", 0)])
def test_a_row_of_the_evening_is_in_the_window_of_its_calendar(
    tmp_path: Path, service: LocalService, zone: str, ended: int
) -> None:
    """20:30 in New York is the next day in UTC; messages about it name keys of the job file."""
    seen = {"time": 1704141000, "distinct_id": "u", "$insert_id": "a", "mp_processing_time_ms": 1704159005000}
    put(tmp_path, 1, [{"event": "Visited", "properties": seen}])
    job = write_job(
        tmp_path, service.url, set="", until="2024-01-02", mapping="mixpanel", timezone="America/New_York", lag="49h",
        window_timezone=zone,
    )  # fmt: skip
    code, said, reported = ran(job)
    assert code == ended
    assert not re.findall("--[a-z]", said + reported)
    assert ("`window_timezone`" in reported) == bool(ended)


def test_an_end_that_is_asked_for_comes_at_once_or_between_two_windows(tmp_path: Path, service: LocalService) -> None:
    """Exit 130: planning is given up, a window that is being sent is finished; the next run continues."""
    rows = days(tmp_path, 1)
    interrupted = threading.Event()

    def reading(window: str) -> AbstractContextManager[object]:
        interrupted.set()
        return nullcontext(lambda rows, length: None)

    job = write_job(tmp_path, service.url, until="2024-01-02")
    done = run(job, hooks=JobHooks(reading=reading, interrupted=interrupted))  # type: ignore[arg-type]
    assert (code(done), service.count()) == (130, 0)
    assert not (tmp_path / "state/nightly/windows/2024-01-01/plan-1/plan.json").exists()
    assert code(run(job)) == 0
    assert sent_once(service, rows)
    rows += days(tmp_path, 2, 3)
    interrupted.clear()

    def ended(window: WindowRun) -> None:
        interrupted.set()

    job = write_job(tmp_path, service.url, until="2024-01-04")
    done = run(job, hooks=JobHooks(ended=ended, interrupted=interrupted))
    assert (list(outcomes(done)), code(done)) == (["2024-01-02"], 130)
    assert code(run(job)) == 0
    assert sent_once(service, rows)


def test_the_command_prints_a_line_for_each_window_and_the_history(tmp_path: Path, service: LocalService) -> None:
    """Lines for logs; `--json` for programs; an error is two lines."""
    days(tmp_path, 1, 4)
    put(tmp_path, 3, [row(3, 1, distinct_id="")])
    job = write_job(tmp_path, service.url)
    code, said, told = ran(job)
    assert code == 4
    assert [line.split(":")[0] for line in said.splitlines()] == [
        "2024-01-01 done", "2024-01-02 waiting", "2024-01-03 stopped", "2024-01-04 done",
    ]  # fmt: skip
    assert [line.split(":")[0] for line in told.splitlines()] == ["Warning", "Error", "Try"]
    assert "plan-1/report.html" in told
    code, said, _ = ran(job, "--json")
    found = json.loads(said)
    assert (found["format"], found["exit_code"], code) == ("backcast.run/1", 4, 4)
    assert [one["outcome"] for one in found["windows"]] == ["waiting", "stopped"]
    code, said, told = ran(job, "--history")
    assert (code, told) == (0, "")
    assert said.splitlines()[-1] == "Job nightly: 2 done, 1 waiting, 1 stopped, 0 open."
    assert re.findall(r"^ *(2024-\S+)", said.partition("\n\n")[0], re.M) == [
        "2024-01-01", "2024-01-02", "2024-01-03", "2024-01-03", "2024-01-04",
    ]  # fmt: skip
    history = json.loads(ran(job, "--history", "--json")[1])
    assert history["format"] == "backcast.history/1"
    assert history["attempts"][0]["events"] == {
        "made": 10, "accepted": 10, "refused": 0, "already_settled": 0,
        "changed_since_settled": 0,
    }  # fmt: skip
    assert [one["state"] for one in history["windows"]] == ["done", "waiting", "stopped", "done"]
