"""The numbers of `status` follow from the ledger's rows, however the runs ended, and agree with the output of apply."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.delivery.apply import Outcome, SendLimits
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.retry import RetryPolicy
from pipeline.plan.sealed.freshness import open_plan
from pipeline.report.results import BatchCounts, status_result
from pipeline.report.state import read_status
from tests.support.commands import generic
from tests.support.crashes import adds_up
from tests.support.deliveries import (
    KEY,
    OK,
    Asked,
    CallDestination,
    Reply,
    export,
    in_ledger,
    planned,
    run,
    run_to,
    scripted,
    serving,
    tamper,
    uuid,
)
from tests.support.services import running

NOBODY = Response(ResponseKind.RETRY, 0, "no connection: refused", taken=False)
ANSWERS = (
    OK,
    NOBODY,
    Response(ResponseKind.RETRY, 0, "no answer"),
    Response(ResponseKind.RETRY, 503, "busy"),
    Response(ResponseKind.RETRY, 429, "slow", taken=False),
    Response(ResponseKind.POISON, 400, "bad", taken=False),
    Response(ResponseKind.TOO_LARGE, 413, "large"),
    Response(ResponseKind.STOP, 401, "who?", taken=False),
    Response(ResponseKind.DOUBT, 200, "sign in"),
)


def batches(outcome: Outcome) -> tuple[int, int, int, int]:
    counts = outcome.counts
    return counts.batches_made, counts.batches_sent, counts.batches_retried, counts.batches_split


def ledger_totals(directory: Path) -> tuple[int, int, int, int]:
    totals = adds_up(directory / "ledger.sqlite")
    return totals.batches_made, totals.batches_sent, totals.batches_retried, totals.batches_split


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("plan"), 24, files=1, batch=6)


@settings(deadline=None, max_examples=25)
@given(answers=st.lists(st.sampled_from(ANSWERS), max_size=24), ends=st.lists(st.integers(1, 6), max_size=3))
def test_status_agrees_with_apply_over_any_number_of_runs(plan: Path, answers: list[Response], ends: list[int]) -> None:
    """After one run they are the run's own numbers; after several, a batch that was in more than one run counts
    once."""
    said = iter(answers)
    with TemporaryDirectory() as folder:
        directory = Path(shutil.copytree(plan, Path(folder) / "plan"))
        sums = (0, 0, 0, 0)
        for turn, tries in enumerate([*ends, 100]):
            send_limits = SendLimits(2, RetryPolicy(seconds=60, first=0, tries=tries), max_refused=3)
            outcome = run_to(directory, CallDestination(lambda body: next(said, OK)), send_limits=send_limits)
            found = ledger_totals(directory)
            sums = tuple(map(sum, zip(sums, batches(outcome), strict=True)))  # type: ignore[assignment]
            if turn == 0:
                assert found == batches(outcome)
            assert (found[1] <= sums[1], found[3]) == (True, sums[3])


def test_what_a_run_tried_counts_whatever_ended_it(tmp_path: Path) -> None:
    """Refused connections count as tries, not as sending. A killed run leaves its tries, its last failure and the
    request in flight, whose batch, when it is sent again, is a retry for apply and for status."""
    directory = planned(tmp_path, 10, files=1)
    limits = SendLimits(1, RetryPolicy(seconds=60, first=0, tries=22))
    outcome = run_to(directory, CallDestination(lambda body: NOBODY), send_limits=limits)
    assert batches(outcome) == ledger_totals(directory) == (1, 0, 0, 0)
    assert in_ledger(directory, "select tries, state from batches") == [(23, "waiting")]
    directory = planned(tmp_path / "killed", 20, files=1)
    calls = 0

    def send(body: bytes) -> Response:
        nonlocal calls
        calls += 1
        if calls == 1:
            return OK
        if calls == 4:
            raise KeyboardInterrupt
        return Response(ResponseKind.RETRY, 503, "busy")

    with pytest.raises(KeyboardInterrupt):
        _killed(directory, CallDestination(send))
    plan, place = open_plan(directory)
    found = status_result(plan, read_status(plan, place))
    assert found.batches == BatchCounts(2, 2, 1, 0)
    assert [(one.tries, one.status, one.detail) for one in found.doubts] == [(2, 503, "busy")]
    directory = planned(tmp_path / "in flight", 20, files=1)

    def interrupted(body: bytes) -> Response:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_to(directory, CallDestination(interrupted), send_limits=SendLimits(1))
    plan, place = open_plan(directory)
    found = status_result(plan, read_status(plan, place))
    assert ([one.tries for one in found.doubts], found.batches) == ([1], BatchCounts(1, 1, 0, 0))
    outcome = run_to(directory, CallDestination(lambda body: OK))
    assert batches(outcome) == ledger_totals(directory) == (2, 2, 1, 0)
    assert in_ledger(directory, "select tries from batches order by first") == [(2,), (1,)]


def _killed(directory: Path, sink: CallDestination) -> None:
    """A run that ends in the middle of a request: its ledger is as it was when the first failures had been written."""
    copy = directory / "as-it-was.sqlite"

    def progress(counts: object) -> None:
        ((tries,),) = in_ledger(directory, "select count(*) from tries")
        if tries == 2:
            shutil.copy(directory / "ledger.sqlite", copy)
            shutil.copy(directory / "ledger.sqlite-wal", copy.with_name(copy.name + "-wal"))
            raise KeyboardInterrupt

    try:
        run_to(directory, sink, send_limits=SendLimits(1, RetryPolicy(seconds=60, first=0)), progress=progress)
    finally:
        for ending in ("", "-wal"):
            copy.with_name(copy.name + ending).replace(directory / f"ledger.sqlite{ending}")


def test_status_says_where_and_when_and_what_was_verified(call: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """The target, the runs with their times, and the last verification; the report has them too, apart from the
    rehearsal."""
    directory = planned(tmp_path, 20)
    assert call("status", directory).out.splitlines()[0] == "State: ready, 1 thing to check"
    call("rehearse", directory)
    said = call("status", directory, "--json").json
    assert (said["course"], said["verified"]) == (None, None)
    with running() as service:
        monkeypatch.setenv("BACKCAST_PROJECT_KEY", service.capture_key)
        call("apply", directory, "--to", service.url)
        assert "Not verified yet" in call("status", directory).out
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", service.personal_key)
        tamper(service, f"delete from accepted where uuid = '{uuid(3)}'")
        assert call("verify", directory, "--to", service.url).code == 7
    shown = " ".join(call("status", directory).out.split())
    assert f"Applied to {service.url}: 1 run, the first started 20" in shown
    assert f"Verified against {service.url} at 20" in shown
    assert "19 of 20 events found, with differences: 1 missing" in shown
    said = call("status", directory, "--json").json
    assert (said["course"]["to"], said["course"]["runs"]) == (service.url, 1)
    assert (said["verified"]["proved"], said["verified"]["to"]) == (False, service.url)
    report = json.loads((directory / "report.json").read_bytes())
    assert (report["rehearsed"]["proved"], report["rehearsal"]["to"], report["rehearsed"]["to"]) == (True, "", "")
    assert (report["applied"]["state"], report["applied"]["course"]["to"]) == ("differs", service.url)
    assert (report["verification"]["proved"], report["verification"]["to"]) == (False, service.url)


def test_status_shows_the_row_and_the_uuid_of_a_refused_event(call: Any, tmp_path: Path) -> None:
    """The row is named as `apply` names it; if the facts of the plan are damaged, only the uuid is shown."""
    directory = planned(tmp_path, 10, files=1)
    bad = f"uuid {uuid(4)}"

    def answer(asked: Asked) -> Reply:
        return Reply(400) if any(event["uuid"] == uuid(4) for event in asked.events) else Reply()

    with serving(answer) as server:
        assert run(directory, server.url).counts.refused == 1
    shown = "".join(call("status", directory).out.split())
    assert f"part-0.jsonl, row 5, {bad}".replace(" ", "") in shown
    for file in (directory / "facts").iterdir():
        file.unlink()
    shown = "".join(call("status", directory).out.split())
    assert ("part-0.jsonl" in shown, bad.replace(" ", "") in shown) == (False, True)


def test_a_report_that_cannot_be_written_hides_no_result(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rehearse, apply and verify print their result and end with its exit code; the report is a warning."""
    directory = planned(tmp_path, 5)
    (directory / "report.json").unlink()
    (directory / "report.json").mkdir()
    with running() as service:
        monkeypatch.setenv("BACKCAST_PROJECT_KEY", service.capture_key)
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", service.personal_key)
        for command, state, code in (
            ("rehearse", "rehearsed, 1 thing to check", 0),
            ("apply", "sent", 0),
            ("verify", "differs", 7),
        ):
            if command == "verify":
                tamper(service, f"delete from accepted where uuid = '{uuid(3)}'")
            to = [] if command == "rehearse" else ["--to", service.url]
            for as_json in (["--json"], []) if command != "rehearse" else ([],):
                called = call(command, directory, *to, *as_json)
                assert called.code == code
                assert "Warning: the report of the plan could not be written: " in called.err
                assert (called.json["state"] == state) if as_json else (f"State: {state}" in called.out.splitlines())


NOWHERE = "http://127.0.0.1:1"


def attempt(directory: Path, to: str = NOWHERE) -> Outcome:
    return run(directory, to, send_limits=SendLimits(2, RetryPolicy(seconds=60, first=0, tries=1)), key=KEY)


def test_a_failed_connection_does_not_bind_a_plan(tmp_path: Path, call: Any) -> None:
    """Refused connections and an unknown name, then the right target: everything lands there, under one ledger. The
    directory may be planned again."""
    directory = planned(tmp_path, 40)
    for wrong in (NOWHERE, "http://backcast-nowhere.invalid"):
        assert attempt(directory, wrong).unsent == 40
    with serving(scripted(Reply())) as server:
        assert run(directory, server.url, dry_run=True).counts.would_send == 40
        assert run(directory, server.url).balanced
        assert in_ledger(directory, "select value from meta where key = 'target'") == [(server.url,)]
        assert in_ledger(directory, "select count(*) from runs") == [(1,)]
        assert in_ledger(directory, "select count(*) from tries") == [(0,)]
    directory = planned(tmp_path / "over", 40)
    attempt(directory)
    assert call("plan", export(tmp_path / "export", 30), *generic(), "-o", directory).code == 0
    assert not (directory / "ledger.sqlite").exists()
    with serving(scripted(Reply())) as server:
        assert run(directory, server.url).counts.accepted == 30


@pytest.mark.parametrize(
    ("status", "told"),
    [(200, "20 settled"), (503, "20 in doubt"), (0, "20 in doubt"), (401, "it answered 401"), (429, "it answered 429"),
     (404, "it answered 404")],
)  # fmt: skip
def test_a_target_that_answered_is_the_only_one(call: Any, tmp_path: Path, status: int, told: str) -> None:
    """If a target answered, or may have, another target and a new plan are refused, and the error says what was sent to
    where."""
    directory = planned(tmp_path, 20, files=1, batch=20)
    with serving(scripted(Reply(status))) as server:
        attempt(directory, server.url)
    for words, code in (
        (["apply", directory, "--to", NOWHERE, "--retry-for", "0"], 4),
        (["apply", directory, "--to", NOWHERE, "--dry-run"], 4),
        (["plan", tmp_path / "export", "-m", "generic", "-o", directory], 2),
    ):
        said = call(*words)
        assert said.code == code
        assert server.url in said.err
        assert told in said.err
        assert words[0] != "plan" or "does not replace it" in said.two_lines[0]
    assert in_ledger(directory, "select value from meta where key = 'target'") == [(server.url,)]
