"""Disks that fill up, deny access, break or lose power: every run ends cleanly, and nothing is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.delivery.destination import Response, ResponseKind
from pipeline.errors import UsageError
from pipeline.ledger import Ledger, read_totals
from pipeline.plan.sealed.freshness import open_plan
from tests.support.commands import in_process
from tests.support.crashes import ended, forked
from tests.support.deliveries import (
    KEY,
    OK,
    ONE_AT_A_TIME,
    Asked,
    CallDestination,
    Reply,
    applying,
    planned,
    run,
    scripted,
    serving,
    uuid,
)
from tests.support.file_size_limit import file_size_limit

pytestmark = pytest.mark.slow

ROOT = os.geteuid() == 0


def backcast(*words: object) -> subprocess.CompletedProcess[str]:
    return in_process(*words, env={"BACKCAST_PROJECT_KEY": KEY})


def test_a_ledger_that_cannot_grow_is_exit_6_and_nothing_is_lost(tmp_path: Path) -> None:
    """No file may grow beyond 96 KiB in the first run; the second one, without that limit, sends only what is left."""
    directory = planned(tmp_path, 300, files=1, batch=1)
    with serving(scripted(Reply())) as server:
        words = ["apply", directory, "--to", server.url, "--quiet", "--max-concurrency", "2"]
        with file_size_limit(98_304):
            full = backcast(*words)
        assert (full.returncode, "Traceback" in full.stderr) == (6, False)
        assert full.stderr.splitlines()[0].startswith("Error: cannot write the ledger ")
        assert full.stderr.splitlines()[1].startswith("Try: free some")
        sent = len(server.asked)
        assert 0 < sent < 300
        settled = read_totals(directory / "ledger.sqlite").settled
        again = backcast(*words)
        assert (again.returncode, again.stderr) == (0, "")
        assert len(server.asked) - sent <= 300 - settled
        taken = Counter(event["uuid"] for one in server.asked for event in one.events)
    assert set(taken) == {uuid(number) for number in range(300)}
    assert sum(count - 1 for count in taken.values()) <= 8


@pytest.mark.skipif(not ROOT, reason="only root can act as another user")
def test_a_directory_of_another_user_is_a_usage_error(tmp_path: Path) -> None:
    """Under another uid apply is exit 2 before anything is sent, and status still reads what it may."""
    directory = planned(tmp_path, 20, files=1)
    with serving(scripted(Reply(), Reply(401))) as server:
        run(directory, server.url, send_limits=ONE_AT_A_TIME)
        before = len(server.asked)
        for folder in [tmp_path, *tmp_path.parents]:
            if folder.is_relative_to(tempfile.gettempdir()) and folder != Path(tempfile.gettempdir()):
                folder.chmod(0o755)
        for path in (directory, *directory.rglob("*")):  # as a person with whom a plan is shared would
            path.chmod(0o755)
        words = ["apply", str(directory), "--to", server.url, "--quiet"]
        # Other users may not be able to read Python's own files: everything is loaded before the user changes.
        code = f"""
import contextlib, encodings.idna, io, os, sys, pipeline.cli
from pipeline import config
from pipeline.options import PreflightOptions
from pipeline.preflight.run import PreflightRequest, check_target
key, none = config.Secret("phc_test"), config.Secret("")
check_target(PreflightRequest("http://127.0.0.1:1", key, none, PreflightOptions(reach=False)))
with contextlib.redirect_stdout(io.StringIO()):
    pipeline.cli.run({[*words, "--dry-run"]!r})
    pipeline.cli.run(["status", {str(directory)!r}])
    pipeline.cli.run(["status", {str(directory)!r}, "--json"])
os.setgid(65534)
os.setuid(65534)
sys.exit(10 * pipeline.cli.run({words!r}) + pipeline.cli.run(["status", {str(directory)!r}, "--json"]))
"""
        env = os.environ | {"BACKCAST_PROJECT_KEY": KEY}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
        assert (done.returncode, len(server.asked) - before) == (20, 0), done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("Warning: cannot write a lock")]
    assert (len(said), said[0][:22]) == (2, "Error: cannot write in")
    assert json.loads(done.stdout[done.stdout.index("{") :])["events"]["accepted"] == 10


def test_a_broken_ledger_is_exit_4_and_nothing_is_sent(tmp_path: Path) -> None:
    """Whatever is broken, the run ends with two lines before a byte leaves, and the file stays as it was."""
    directory = planned(tmp_path, 300, files=1, batch=1)
    path = directory / "ledger.sqlite"
    page = 4096
    with serving(scripted(Reply())) as server:
        run(directory, server.url)
        sent, whole = len(server.asked), path.read_bytes()
        for damage, broken in {
            "header": random.Random(1).randbytes(100) + whole[100:],
            "page": whole[: page * 3] + random.Random(2).randbytes(page * 6) + whole[page * 9 :],
            "schema": whole[:100] + bytes(page - 100) + whole[page:],
            "text": b"not a database\n" * 1000,
        }.items():
            path.write_bytes(broken)
            done = backcast("apply", directory, "--to", server.url, "--quiet")
            assert (done.returncode, len(server.asked) - sent) == (4, 0), damage
            assert len(done.stderr.splitlines()) == 2
            assert done.stderr.startswith(f"Error: the ledger {path} is damaged")
            assert path.read_bytes() == broken
            if damage != "page":
                assert backcast("status", directory).returncode == 4


def test_the_key_of_another_project_is_refused_unless_it_was_rotated(tmp_path: Path) -> None:
    """After half of a history was sent, another key is exit 4; with the option for a rotated key it is accepted, and
    remembered."""
    directory = planned(tmp_path, 20, files=1)
    with serving(scripted(Reply(), Reply(401), Reply())) as server:
        assert not run(directory, server.url, key="phc_testONE", send_limits=ONE_AT_A_TIME).balanced
        done = backcast("apply", directory, "--to", server.url, "--quiet")
        assert (done.returncode, len(server.asked)) == (4, 2)
        assert "--rotated-key" in done.stderr
        assert "phc_test" not in done.stderr
        done = backcast("apply", directory, "--to", server.url, "--quiet", "--rotated-key")
        assert done.returncode == 0
        assert run(directory, server.url).balanced
        assert backcast("apply", directory, "--to", server.url, "--quiet").returncode == 0
    # If the first key was turned away, nothing was sent, so another one is safe.
    other = planned(tmp_path / "other", 20, files=1)
    with serving(scripted(Reply(401), Reply())) as server:
        assert run(other, server.url, key="phc_testWRONG", send_limits=ONE_AT_A_TIME).unsent == 20
        assert run(other, server.url, key="phc_testRIGHT").balanced
    held = b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())
    assert b"phc_test" not in held


def test_what_must_outlive_a_power_loss_is_synced_and_nothing_else(tmp_path: Path) -> None:
    """Moments that begin or end a batch are synced to disk; those that only note a failed try are not."""
    directory = planned(tmp_path, 40, files=1)
    plan, place = open_plan(directory)
    synced: dict[str, set[int]] = {}

    def watch(stage: str, steps: Sequence[str]) -> None:
        if stage == "before":
            kind = "decides" if {"begin", "settle", "split", "refuse"} & set(steps) else "notes"
            synced.setdefault(kind, set()).add(ledger._db.execute("pragma synchronous").fetchone()[0])

    answers = iter([Response(ResponseKind.RETRY, 503, retry_after=0.3)] * 2)
    ledger = Ledger(place.ledger, watch)
    ledger.open(plan.digest, "test", "a function")
    synced.clear()
    destination = CallDestination(lambda body: next(answers, OK))
    outcome = applying(plan, place, destination, ledger, ONE_AT_A_TIME).run()
    ledger.close()
    assert outcome.balanced
    assert synced == {"decides": {2}, "notes": {1}}


def test_a_plan_goes_on_at_another_place(tmp_path: Path) -> None:
    """The directory of a killed run is copied, the original lost: the copy resumes, with the export's new place."""
    directory = planned(tmp_path / "old", 100, files=2)
    ready = threading.Event()

    def answer(asked: Asked) -> Reply:
        assert ready.wait(30)
        if asked.number == 4:
            process.kill()
        return Reply(0 if asked.number == 4 else 200)

    with serving(answer) as server:
        process = forked(run, directory, server.url)
        ready.set()
        assert ended(process) == -9
        new = tmp_path / "new"
        shutil.copytree(tmp_path / "old", new)
        shutil.rmtree(tmp_path / "old")
        words = ("apply", new / "plan", "--to", server.url, "--quiet")
        shutil.rmtree(new / "export")
        done = backcast(*words)
        assert (done.returncode, done.stderr) == (0, "")
    taken = Counter(event["uuid"] for one in server.asked if one.number != 4 for event in one.events)
    assert set(taken) == {uuid(number) for number in range(100)}
    assert set(taken.values()) <= {1, 2}


def test_status_shows_doubts_refusals_and_failures_during_a_run(tmp_path: Path) -> None:
    """During the run: batches in flight, the refused event, failures by status; afterwards no doubt is left."""
    directory = planned(tmp_path, 40, files=1, batch=10)
    told: list[dict[str, object]] = []

    def answer(asked: Asked) -> Reply:
        held = [event["uuid"] for event in asked.events]
        if uuid(3) in held:
            return Reply(400, b"event submitted without a distinct_id")
        if len(told) == 0 and uuid(35) in held:
            done = backcast("status", directory, "--json")
            assert done.returncode == 0
            told.append(json.loads(done.stdout))
            return Reply(503, b"busy")
        return Reply()

    with serving(answer) as server:
        outcome = run(directory, server.url, send_limits=ONE_AT_A_TIME)
    assert outcome.balanced
    during = told[0]
    assert during["state"] == "sending"
    doubts = during["doubts"]
    assert {"phase": "events", "request": 3, "first": 0, "last": 9, "events": 10, "tries": 1} in [
        {name: doubt[name] for name in ("phase", "request", "first", "last", "events", "tries")} for doubt in doubts
    ]
    after = json.loads(backcast("status", directory, "--json").stdout)
    assert (after["state"], after["doubts"]) == ("sent-with-refusals", [])
    assert [(one["uuid"], one["status"], one["detail"]) for one in after["refusals"]] == [
        (uuid(3), 400, "event submitted without a distinct_id")
    ]
    assert {one["status"]: one["detail"] for one in after["failures"]}[503] == "busy"
    said = backcast("status", directory).stdout
    assert uuid(3) in said
    assert "503 busy" in said


def test_a_lock_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    """If there is a directory in the place of the lock, the error says so."""
    (tmp_path / "ledger.sqlite.lock").mkdir()
    with pytest.raises(UsageError, match="cannot write in"):
        Ledger(tmp_path / "ledger.sqlite").open("plan", "1", "there")
