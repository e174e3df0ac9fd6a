"""Apply sends exactly the plan, once, and records each request before a byte leaves; or it refuses before it sends."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from pipeline import api
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.retry import RetryPolicy
from pipeline.encoder.encoded import uuid_of
from pipeline.errors import BrokenLedger, Interrupted, UnsafePlan
from pipeline.local_service import LocalService
from pipeline.plan.requests.store import read_events
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import check_applicable, open_plan
from tests.support.deliveries import (
    OK,
    ONE_AT_A_TIME,
    CallDestination,
    Reply,
    balances,
    identities,
    in_ledger,
    landed,
    planned,
    run,
    run_to,
    scripted,
    serving,
    uuids_in,
)


def test_everything_planned_lands_once(tmp_path: Path) -> None:
    """The set at the service equals the planned set, and the outcome balances; a second apply makes no request."""
    directory = planned(tmp_path, 100)
    with LocalService() as service:
        outcome = run(directory, service.url, key=service.capture_key)
        again = run(directory, service.url, key=service.capture_key)
        assert landed(service) == identities(100)
        assert service.select("select count(*) from raw_events") == [(100,)]
    assert (outcome.balanced, outcome.problem) == (True, None)
    assert (outcome.counts.accepted, outcome.counts.batches_sent) == (100, 10)
    assert balances(outcome, open_plan(directory)[0])
    assert (again.counts.already_settled, again.counts.accepted, again.balanced) == (100, 0, True)


def test_begin_is_durable_before_a_byte_leaves(tmp_path: Path) -> None:
    """When a request arrives, another connection to the ledger finds its batch begun and not settled."""
    directory = planned(tmp_path, 60)
    uuids = [list(map(uuid_of, events)) for _, events in read_events(Directory(directory), "events")]
    found = []

    def send(body: bytes) -> Response:
        first, last = uuids_in(body)[0], uuids_in(body)[-1]
        begun = in_ledger(directory, "select request, first, last from batches where state = 'begun'")
        found.append((first, last) in [(uuids[number][a], uuids[number][z]) for number, a, z in begun])
        return OK

    assert run_to(directory, CallDestination(send)).balanced
    assert found == [True] * 6
    assert in_ledger(directory, "select state, count(*) from batches group by state") == [("settled", 6)]


def test_a_plan_with_nothing_to_send_makes_no_request(tmp_path: Path) -> None:
    """Without an event to send, no request is made, also in a rehearsal."""
    (tmp_path / "ids.txt").write_text("person-0", "utf-8")
    directory = planned(tmp_path, 10, limit=1, since=None, exclude_ids=tmp_path / "ids.txt")
    plan = api.load_plan(directory)
    assert (plan.events.made, plan.ready) == (0, False)
    with serving(scripted(Reply())) as server:
        with pytest.raises(UnsafePlan, match="not ready") as refused:
            run(directory, server.url)
        assert "no event would be sent" in "".join(refused.value.details)
        assert server.asked == []
    done = api.rehearse_plan(directory)
    assert (done.outcome.balanced, done.outcome.counts.batches_sent) == (True, 0)


def test_a_dry_run_begins_where_the_ledger_is(tmp_path: Path) -> None:
    """Nothing sent: it packs everything, makes no request and writes no ledger. Half sent: it packs the other half and
    does not change a byte of the ledger. All sent: nothing is left."""
    directory = planned(tmp_path, 60, files=1)
    with serving(scripted(Reply(), Reply(), Reply(503), Reply(401))) as server:
        dry = run(directory, server.url, dry_run=True)
        assert (dry.dry_run, dry.balanced, dry.counts.would_send, dry.counts.accepted) == (True, True, 60, 0)
        assert (dry.counts.batches_made, dry.counts.batches_sent, server.asked) == (6, 0, [])
        assert not list(directory.glob("ledger*"))
        run(directory, server.url, send_limits=ONE_AT_A_TIME)
        before = (directory / "ledger.sqlite").read_bytes()
        dry = run(directory, server.url, dry_run=True)
        assert (dry.counts.already_settled, dry.counts.would_send, dry.unsent) == (20, 40, 0)
        assert (dry.counts.batches_made, dry.counts.in_doubt, dry.balanced) == (4, 0, True)
        assert (directory / "ledger.sqlite").read_bytes() == before
        assert len(server.asked) == 4
        with pytest.raises(BrokenLedger, match="belongs to the target"):
            run(directory, "http://127.0.0.1:1", dry_run=True)
    with serving(scripted(Reply()), port=server.port) as server:
        run(directory, server.url)
        dry = run(directory, server.url, dry_run=True)
    assert (dry.counts.already_settled, dry.counts.would_send, dry.counts.batches_made) == (60, 0, 0)


def test_a_plan_is_applied_to_one_target(tmp_path: Path) -> None:
    """A second target is exit 4 before anything is sent."""
    directory = planned(tmp_path, 10)
    with serving(scripted(Reply())) as first, serving(scripted(Reply())) as second:
        run(directory, first.url)
        with pytest.raises(BrokenLedger) as told:
            run(directory, second.url)
        assert (told.value.exit_code, second.asked) == (4, [])


def test_an_export_that_changed_is_sent_as_it_was_planned(tmp_path: Path) -> None:
    """The plan contains its events; no file of the export is opened."""
    directory = planned(tmp_path, 10)
    file = tmp_path / "export" / "part-0.jsonl"
    file.write_bytes(file.read_bytes().replace(b"person-0", b"person-X"))
    with serving(scripted(Reply())) as server:
        assert run(directory, server.url).balanced
    sent = [event["properties"]["distinct_id"] for one in server.asked for event in one.events]
    assert len(sent) == 10
    assert "person-X" not in sent


@pytest.mark.parametrize(
    ("asked", "to", "fits"),
    [
        ({}, "us", False),
        ({}, "https://eu.i.posthog.com", False),
        ({"target": "us"}, "eu", True),
        ({"target": "us"}, "http://127.0.0.1:1", False),
        ({"target": "us", "dialect": "contract"}, "us", True),
        ({"target": "http://127.0.0.1:1", "dialect": "posthog"}, "http://127.0.0.1:1/", True),
        ({"dialect": "posthog"}, "http://127.0.0.1:1", True),
    ],
)
def test_a_plan_of_the_other_dialect_is_refused(tmp_path: Path, asked: dict[str, str], to: str, fits: bool) -> None:
    """The target's dialect must be the plan's, unless the plan's was chosen for this target."""
    plan, _ = open_plan(planned(tmp_path, 3, **asked))
    with nullcontext() if fits else pytest.raises(UnsafePlan, match=r"the plan was made for .* \(dialect "):
        check_applicable(plan, to)


def test_a_sink_that_fails_stops_the_run_and_the_rest_is_written_down(tmp_path: Path) -> None:
    """A defect in a sender thread is raised after what landed was settled, and nothing hangs."""
    directory = planned(tmp_path, 100)
    sent = []

    def send(body: bytes) -> Response:
        sent.append(body)
        if len(sent) == 3:
            raise ZeroDivisionError("a defect")
        return OK

    with pytest.raises(ZeroDivisionError):
        run_to(directory, CallDestination(send), send_limits=ONE_AT_A_TIME)
    assert in_ledger(directory, "select state, count(*) from batches where state != 'waiting' group by state") == [
        ("begun", 1),
        ("settled", 2),
    ]
    assert in_ledger(directory, "select outcome from runs") == [("failed",)]
    assert run_to(directory, CallDestination(lambda body: OK)).balanced


def test_an_interrupt_settles_what_is_in_flight_and_begins_nothing_new(tmp_path: Path) -> None:
    """If it is interrupted during the third request, the run settles it and does not send a fourth. A run that had
    nothing left when it was interrupted is done."""
    directory = planned(tmp_path, 100)
    interrupted = threading.Event()
    sent = []

    def send(body: bytes) -> Response:
        sent.append(body)
        if len(sent) in (3, 10):
            interrupted.set()
        return OK

    outcome = run_to(directory, CallDestination(send), send_limits=ONE_AT_A_TIME, interrupted=interrupted)
    assert isinstance(outcome.problem, Interrupted)
    assert len(sent) == 3
    assert (outcome.counts.accepted, outcome.counts.in_doubt, outcome.unsent) == (30, 0, 70)
    interrupted.clear()
    outcome = run_to(directory, CallDestination(send), send_limits=ONE_AT_A_TIME, interrupted=interrupted)
    assert (outcome.problem, outcome.balanced, interrupted.is_set()) == (None, True, True)


def test_an_interrupt_ends_a_batch_that_waits_for_its_next_try(tmp_path: Path) -> None:
    """A batch in a long back-off does not keep the run from ending; it is in doubt, since it was sent."""
    directory = planned(tmp_path, 10, files=1)
    interrupted = threading.Event()

    def send(body: bytes) -> Response:
        interrupted.set()
        return Response(ResponseKind.RETRY, 503, retry_after=3000.0)

    outcome = run_to(
        directory, CallDestination(send), send_limits=SendLimits(1, RetryPolicy(seconds=9000)), interrupted=interrupted
    )
    assert isinstance(outcome.problem, Interrupted)
    assert outcome.counts.in_doubt == 10
