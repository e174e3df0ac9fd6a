"""With a personal key a job looks at its target before it plans, and reads back what it sent."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import pipeline
from pipeline.config import Secret
from pipeline.errors import UnsafePlan
from pipeline.jobs.receipt import check_any_receipt
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from tests.support.deliveries import KEY
from tests.support.jobs import KEYS, OWN, PERSONAL_KEY, code, days, outcomes, proofs, put, ran, row, run, write_job
from tests.support.relays import relay
from tests.support.scripted_server import Asked, Canned
from tests.support.services import running

TEN = "10 events are there, 10 with every property"
SOON, LATER = (datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (50, 180))
"""Before and after the time by which everything that these runs send should have landed."""


def test_what_was_sent_is_read_back_once(tmp_path: Path, service: LocalService) -> None:
    """The project also has other events of the same day; the next run does not ask again, and if a window grew, only
    what was sent again is read back."""
    put(tmp_path, 1, [row(1, number) for number in range(500, 520)])
    run(write_job(tmp_path, service.url, name="other", until="2024-01-02"))
    days(tmp_path, 1)
    job = write_job(tmp_path, service.url, until="2024-01-02", lookback="1")
    done = run(job, personal_key=OWN)
    assert (code(done), [one.outcome for one in done.proofs]) == (0, ["proved"])
    assert run(job, personal_key=OWN).proofs == []
    put(tmp_path, 1, [row(1, 0), row(1, 99)], "late.jsonl")
    assert outcomes(run(job, personal_key=OWN)) == {"2024-01-01": "done"}
    assert proofs(job) == [("proved", TEN), ("proved", "1 event is there, 1 with every property")]


@contextmanager
def losing(service: LocalService, uuid: str) -> Iterator[str]:
    """The address of a service that takes everything and loses one event."""

    def without(asked: Asked) -> bytes:
        if not asked.path.startswith("/batch"):
            return asked.body
        sent = json.loads(gzip.decompress(asked.body))
        kept = [event for event in sent["batch"] if event["uuid"] != uuid]
        return gzip.compress(json.dumps(sent | {"batch": kept}).encode())

    with relay(service.url, body=without) as url:
        yield url


def test_events_that_did_not_land_are_a_difference_after_an_hour(tmp_path: Path, service: LocalService) -> None:
    """Until then they may be on their way. The window is done: each run looks again, and none sends again."""
    days(tmp_path, 1, 2)
    with losing(service, row(1, 3)["uuid"]) as url:
        job = write_job(tmp_path, url, until="2024-01-03")
        done = run(job, personal_key=OWN)
        assert (code(done), [one.outcome for one in done.proofs]) == (0, ["pending", "proved"])
        done = run(job, SOON, personal_key=OWN)
        assert (code(done), [one.outcome for one in done.proofs]) == (0, ["pending"])
        done = run(job, LATER, personal_key=OWN)
        assert (code(done), done.windows, [one.outcome for one in done.proofs]) == (7, [], ["differs"])
        assert "of 10 events: 1 missing" in str(done.problem)
        assert code(run(job, LATER, personal_key=OWN)) == 7
        assert service.count() == 19


def test_a_window_whose_file_is_gone_is_compared_all_the_same(tmp_path: Path, service: LocalService) -> None:
    """It is compared with the events in its plan."""
    days(tmp_path, 1)
    with losing(service, row(1, 3)["uuid"]) as url:
        job = write_job(tmp_path, url, until="2024-01-02")
        run(job, personal_key=OWN)
        (tmp_path / "exports/2024/01/01/a.jsonl").rename(tmp_path / "archived")
        done = run(job, LATER, personal_key=OWN)
        assert (code(done), [one.outcome for one in done.proofs]) == (7, ["differs"])


def test_a_service_that_cannot_be_asked_is_asked_again(tmp_path: Path) -> None:
    """A personal key that may not query: exit 5, the window is done, and the next run with a better key verifies it. A
    window that was never read back is not looked for after months."""
    days(tmp_path, 1)
    keys = Keyring(KEYS.projects, {PERSONAL_KEY: frozenset({"*"}), "phx_testweak": frozenset({"project:read"})})
    with running(keys) as service:
        unasked = write_job(tmp_path, service.url, name="unasked", until="2024-01-02")
        run(unasked)
        assert (run(unasked, personal_key=OWN).proofs, proofs(unasked)) == ([], [("", "")])
        job = write_job(tmp_path, service.url, until="2024-01-02")
        done = run(job, personal_key=Secret("phx_testweak"))
        assert (outcomes(done), code(done)) == ({"2024-01-01": "done"}, 5)
        assert proofs(job) == [("pending", "")]
        assert code(run(job, personal_key=OWN)) == 0
        assert proofs(job) == [("proved", TEN)]


def test_a_target_that_is_not_ready_ends_the_run_before_anything_is_planned(tmp_path: Path) -> None:
    """The capture key is of another project: exit 4, and no event is sent there."""
    days(tmp_path, 1)
    keys = Keyring((Project(1, "Rehearsal", "phc_testOTHER"),), {PERSONAL_KEY: frozenset({"*"})})
    with running(keys) as service:
        job = write_job(tmp_path, service.url, until="2024-01-02")
        done = run(job, personal_key=OWN)
        assert (done.windows, code(done), service.count()) == ([], 4, 0)
        assert str(done.problem).endswith("nothing was planned")
        assert not (tmp_path / "state/nightly/windows").exists()


def test_the_command_shows_what_was_read_back(tmp_path: Path, service: LocalService) -> None:
    """A line for each window, the object for programs, and the history."""
    days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, until="2024-01-02")
    ended, said, told = ran(job, personal_key=PERSONAL_KEY)
    assert (ended, said.splitlines()[-1]) == (0, f"2024-01-01 proved: {TEN}")
    assert KEY not in said + told
    assert PERSONAL_KEY not in said + told
    job = write_job(tmp_path, service.url, until="2024-01-03")
    found = json.loads(ran(job, "--json", personal_key=PERSONAL_KEY)[1])
    assert [(one["window"], one["outcome"]) for one in found["proofs"]] == [("2024-01-02", "proved")]
    history = json.loads(ran(job, "--history", "--json")[1])
    assert [(one["proof"], one["detail"]) for one in history["attempts"]] == [("proved", TEN)] * 2


def test_events_of_windows_are_discarded_a_while_after_they_were_verified(
    tmp_path: Path, service: LocalService
) -> None:
    """Events of a window that was not read back stay. The job continues, and its receipt fits; a lost state is not
    rebuilt."""
    days(tmp_path, 1, 2)
    late = put(tmp_path, 2, [row(2, 99)], "late.jsonl")
    late.rename(tmp_path / "late.jsonl")
    job = write_job(tmp_path, service.url, until="2024-01-03", keep="30d", lookback="2", merges="{up-to: 5}")
    windows = tmp_path / "state/nightly/windows"

    def whole() -> list[str]:
        return sorted(path.parent.parent.name for path in windows.glob("*/*/facts"))

    run(job, personal_key=OWN)
    run(job, SOON + timedelta(days=29), personal_key=OWN)
    assert whole() == ["2024-01-01", "2024-01-02"]
    (tmp_path / "late.jsonl").rename(late)
    assert code(run(job, SOON + timedelta(days=29))) == 0
    assert code(run(job, SOON + timedelta(days=31))) == 0
    assert whole() == ["2024-01-02"]  # the late part was not read back
    assert outcomes(run(job, SOON + timedelta(days=31))) == {}
    receipt = tmp_path / "state/nightly/receipt.json"
    pipeline.write_job_receipt(tmp_path / "state/nightly")
    checks = {check.name: check for check in check_any_receipt(receipt).checks}
    assert {name: check.result for name, check in checks.items() if check.result != "ok"} == dict.fromkeys(
        ("signature", "verification", "inputs", "plan"), "not checked"
    )
    assert checks["verification"].detail == "window 2024-01-02: what landed was not compared with the ledger"
    assert checks["plan"].detail.count("its events were discarded at") == 2
    (tmp_path / "state/nightly/state.sqlite").unlink()
    with pytest.raises(UnsafePlan, match="events of window 2024-01-01 were discarded"):
        run(job, personal_key=OWN)


def test_the_plan_that_a_window_replaced_is_discarded_with_it(tmp_path: Path, service: LocalService) -> None:
    """It was damaged before it was sent, and the window was planned again, sent and verified."""
    days(tmp_path, 1)
    closed = [Canned(402, b"quota")]
    windows = tmp_path / "state/nightly/windows"
    with relay(service.url, instead=lambda asked: closed[0] if closed and "batch" in asked.path else None) as url:
        job = write_job(tmp_path, url, until="2024-01-02", keep="30d")
        run(job)
        (windows / "2024-01-01/plan-1/requests/events-00000.pack").write_bytes(b"")
        closed.clear()
        assert [one.outcome for one in run(job, personal_key=OWN).windows] == ["replaced", "done"]
    assert len([*windows.glob("*/*/facts")]) == 2
    assert code(run(job, SOON + timedelta(days=31))) == 0
    assert [*windows.glob("*/*/facts")] == []
    receipt = tmp_path / "state/nightly/receipt.json"
    pipeline.write_job_receipt(receipt.parent)
    assert {check.result for check in check_any_receipt(receipt).checks} == {"ok", "not checked"}
