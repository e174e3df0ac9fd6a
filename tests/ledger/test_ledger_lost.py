"""A ledger that is deleted, replaced or set back is noticed before anything is sent, so nothing is sent twice."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.delivery.apply import SendLimits
from pipeline.errors import BrokenLedger, Busy
from pipeline.ledger import Ledger, check_nothing_sent, discard, read_totals
from pipeline.ledger.marker import marker_of, read_marker
from pipeline.options import PlanOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import (
    AT_ONCE,
    COLUMNS,
    OK,
    CallDestination,
    Reply,
    in_ledger,
    planned,
    run,
    run_to,
    scripted,
    serving,
    uuids_in,
)
from tests.support.jobs import code, days, write_job
from tests.support.jobs import run as run_job

LEDGER = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm")


def delete(directory: Path) -> None:
    for name in LEDGER:
        (directory / name).unlink(missing_ok=True)


def truncate(directory: Path) -> None:
    delete(directory)
    (directory / "ledger.sqlite").touch()


def set_back(directory: Path) -> None:
    """Restore the copy that was made after the first run."""
    delete(directory)
    shutil.copy(directory / "older.sqlite", directory / "ledger.sqlite")


def exchange(directory: Path) -> None:
    """Replace the ledger by one with the same plan, target and number of runs."""
    delete(directory)
    marker = read_marker(directory / "ledger.sqlite")
    assert marker is not None
    elsewhere = directory / "elsewhere" / "ledger.sqlite"
    elsewhere.parent.mkdir()
    for _ in range(marker.runs):
        Ledger(elsewhere).open(marker.plan, "1", marker.target).close()
    elsewhere.replace(directory / "ledger.sqlite")


@pytest.mark.parametrize("damage", [delete, truncate, set_back, exchange])
def test_without_its_ledger_a_plan_is_not_sent_again(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    """Apply, a dry run, status and verify are exit 4 with the target and the remedy; planning over it is exit 2."""
    directory = planned(tmp_path, 20, files=1, batch=10)
    with serving(scripted(Reply(), Reply(401), Reply())) as server:
        run(directory, server.url, send_limits=SendLimits(1, AT_ONCE))
        shutil.copy(directory / "ledger.sqlite", directory / "older.sqlite")
        assert run(directory, server.url).balanced
        sent = len(server.asked)
        damage(directory)
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", "phx_test")
        for words in (
            ["apply", directory, "--to", server.url],
            ["apply", directory, "--to", server.url, "--dry-run"],
            ["status", directory],
            ["verify", directory, "--to", server.url],
        ):
            said = call(*words)
            assert (said.code, said.out) == (4, "")
            error, remedy = said.two_lines
            assert str(directory / "ledger.sqlite") in error
            assert server.url in error
            assert "restore the newest ledger.sqlite" in remedy
        said = call("plan", tmp_path / "export", "-m", "generic", "-o", directory)
        assert (said.code, server.url in said.two_lines[0]) == (2, True)
        assert len(server.asked) == sent


def test_the_marker_names_the_target_the_plan_and_the_ledger(tmp_path: Path) -> None:
    """A person can read it; a rehearsal leaves no marker next to the plan. The remedy of the error works: without
    ledger and marker the plan is as if never applied."""
    directory = planned(tmp_path, 20, files=1)
    landed: Counter[str] = Counter()

    def take(body: bytes) -> Any:
        landed.update(uuids_in(body))
        return OK

    for _ in range(2):
        assert run_to(directory, CallDestination(take)).balanced
    said = json.loads((directory / "sent-to.json").read_bytes())
    ((ledger,),) = in_ledger(directory, "select value from meta where key = 'id'")
    assert said.pop("at").startswith("20")
    assert said == {
        "format": "backcast.sent/1", "plan": open_plan(directory)[0].digest, "target": "a function", "ledger": ledger,
        "runs": 2,
    }  # fmt: skip
    delete(directory)
    with pytest.raises(BrokenLedger):
        run_to(directory, CallDestination(take))
    (directory / "sent-to.json").unlink()
    assert run_to(directory, CallDestination(take)).balanced
    assert set(landed.values()) == {2}


class _Killed(BaseException):
    pass


def test_a_crash_between_the_ledger_and_its_marker_loses_nothing(tmp_path: Path) -> None:
    """Nothing was sent by then, and the same command goes on."""
    for stage in ("before", "after"):
        directory = planned(tmp_path / stage, 10, files=1)

        def watch(now: str, steps: Any, stage: str = stage) -> None:
            if (now, tuple(steps)) == (stage, ("mark",)):
                raise _Killed

        with pytest.raises(_Killed):
            Ledger(directory / "ledger.sqlite", watch).open(open_plan(directory)[0].digest, "1", "a function")
        assert (directory / "sent-to.json").exists() == (stage == "after")
        assert in_ledger(directory, "select count(*) from runs") == [(1,)]
        assert run_to(directory, CallDestination(lambda body: OK)).balanced


def test_a_ledger_of_an_older_version_gets_its_marker(tmp_path: Path) -> None:
    """A ledger from before there were markers continues, and is protected from then on. A marker that cannot be read
    protects as well: if its ledger is there, it is written anew; without a ledger, its presence is enough."""
    path = tmp_path / "ledger.sqlite"
    Ledger(path).open("plan", "1", "there").close()
    in_ledger(tmp_path, "delete from meta where key in ('id', 'opened')")
    marker_of(path).unlink()
    Ledger(path).open("plan", "1", "there").close()
    assert read_totals(path).settled == 0
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(BrokenLedger):
        read_totals(path)
    path.write_bytes(whole)
    marker_of(path).write_bytes(b"{")
    Ledger(path).open("plan", "1", "there").close()
    found = read_marker(path)
    assert found is not None
    assert (found.target, found.runs) == ("there", 2)
    marker_of(path).write_bytes(b"{")
    path.unlink()
    with pytest.raises(BrokenLedger):
        Ledger(path).open("plan", "1", "there")


def test_a_plan_of_which_nothing_was_taken_is_forgotten_whole(tmp_path: Path) -> None:
    """The marker goes with the ledger, and the directory is free, but not if only the ledger was removed."""
    path = tmp_path / "ledger.sqlite"
    Ledger(path).open("plan", "1", "there").close()
    check_nothing_sent(path)
    discard(path)
    assert (path.exists(), marker_of(path).exists()) == (False, False)
    Ledger(path).open("plan", "1", "there").close()
    path.unlink()
    for refuse in (check_nothing_sent, discard):
        with pytest.raises(Busy, match="applied to there"):
            refuse(path)


@pytest.mark.parametrize("state", [True, False], ids=["with-state", "without-state"])
def test_a_job_sends_no_window_again_whose_ledger_is_lost(tmp_path: Path, state: bool) -> None:
    """Half sent, its ledger deleted: exit 4 and nothing is sent, also if the job's own state is lost too."""
    days(tmp_path, 1, rows=20)
    with serving(scripted(Reply())) as server:
        job = write_job(tmp_path, server.url, until="2024-01-02")
        run_job(job)
        sent = len(server.asked)
        place = tmp_path / "state/nightly/windows/2024-01-01/plan-1"
        if not state:
            for path in (tmp_path / "state/nightly").glob("state.sqlite*"):
                path.unlink()
        else:
            with closing(sqlite3.connect(tmp_path / "state/nightly/state.sqlite")) as database, database:
                database.execute("update attempts set state = 'sending'")
        delete(place)
        if state:
            assert code(run_job(job)) == 4
        else:
            with pytest.raises(BrokenLedger):
                run_job(job)
        assert len(server.asked) == sent


def test_merges_of_a_plan_whose_ledger_is_lost_are_not_taken_for_unsent(tmp_path: Path) -> None:
    """A later plan for the same target needs what earlier ones merged: that is unknown, so it is exit 4."""
    with serving(scripted(Reply())) as server:
        first = planned(tmp_path, 20, files=1, links=True, target=server.url)
        run(first, server.url)
        delete(first)
        settings = COLUMNS | {"anonymous_id": "anonymous_id"}
        options = PlanOptions(mapping="generic", target=server.url, workers=0, settings=settings)
        with pytest.raises(BrokenLedger):
            pipeline.plan_export(tmp_path / "export", tmp_path / "second", options)
