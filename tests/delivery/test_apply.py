"""Apply sends exactly the plan, once, written down before a byte leaves; or refuses before it sends."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import pytest

import pipeline
from pipeline import api
from pipeline.batcher import unpack
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.destination import Response
from pipeline.errors import BrokenLedger, Busy, UnsafePlan
from pipeline.local_service import LocalService
from pipeline.options import PlanOptions
from pipeline.plan.sealed.freshness import check_applicable, open_plan
from tests.support.deliveries import (
    AT_ONCE,
    COLUMNS,
    OK,
    ONE_AT_A_TIME,
    Asked,
    CallDestination,
    Reply,
    add,
    balances,
    export,
    identities,
    in_ledger,
    planned,
    run,
    run_to,
    scripted,
    serving,
    uuid,
    uuids,
    uuids_in,
)


def test_everything_planned_lands_once(tmp_path: Path) -> None:
    """The set at the service equals the set planned, and the outcome balances."""
    directory = planned(tmp_path, 100)
    with LocalService() as service:
        outcome = run(directory, service.url, key=service.capture_key)
        landed = {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in service.events()}
        assert service.select("select count(*) from raw_events") == [(100,)]
    assert landed == identities(100)
    assert outcome.balanced
    assert outcome.problem is None
    assert (outcome.counts.accepted, outcome.counts.batches_sent) == (100, 10)
    assert balances(outcome, open_plan(directory)[0])


def test_begin_is_durable_before_a_byte_leaves(tmp_path: Path) -> None:
    """Whenever a request is made, another connection to the ledger finds its batch begun."""
    directory = planned(tmp_path, 60)
    found = []

    def send(body: bytes) -> Response:
        first, last = uuids_in(body)[0], uuids_in(body)[-1]
        begun = in_ledger(directory, "select block, first, last from batches where state = 'begun'")
        mine = [(uuid(a * 2 + b), uuid(z * 2 + b)) for b, a, z in begun]
        found.append((first, last) in mine)
        return OK

    assert run_to(directory, CallDestination(send)).balanced
    assert found == [True] * 6


def test_settled_is_written_only_after_the_answer(tmp_path: Path) -> None:
    """While a request waits for its answer its batch is in doubt, not settled."""
    directory = planned(tmp_path, 20, files=1)
    seen = []

    def send(body: bytes) -> Response:
        seen.append(in_ledger(directory, "select count(*) from batches where state = 'settled' and first = 0"))
        return OK

    run_to(directory, CallDestination(send), send_limits=ONE_AT_A_TIME)
    assert seen[0] == [(0,)]
    assert in_ledger(directory, "select state, count(*) from batches group by state") == [("settled", 2)]


def test_a_finished_plan_sends_nothing_more(tmp_path: Path) -> None:
    """A second apply makes no request, and everything is already settled."""
    directory = planned(tmp_path, 40)
    with serving(scripted(Reply())) as server:
        run(directory, server.url)
        first = len(server.asked)
        outcome = run(directory, server.url)
        assert (first, len(server.asked)) == (4, 4)
    assert (outcome.counts.already_settled, outcome.counts.accepted, outcome.balanced) == (40, 0, True)


def test_a_plan_with_nothing_to_send_makes_no_request(tmp_path: Path) -> None:
    """Where no event is left, no request is made, in a rehearsal neither."""
    directory = planned(tmp_path, 10, limit=1, since=None, exclude_ids=_ids(tmp_path, "person-0"))
    plan = api.load_plan(directory)
    assert (plan.events.made, plan.ready) == (0, False)
    with serving(scripted(Reply())) as server:
        with pytest.raises(UnsafePlan, match="no event would be sent"):
            run(directory, server.url)
        assert server.asked == []
    done = api.rehearse_plan(directory)
    assert (done.outcome.balanced, done.outcome.counts.batches_sent) == (True, 0)


def _ids(folder: Path, *ids: str) -> Path:
    path = folder / "ids.txt"
    path.write_text("\n".join(ids), "utf-8")
    return path


def test_a_dry_run_packs_all_of_it_and_leaves_no_trace(tmp_path: Path) -> None:
    """Every batch is made, nothing is asked, no ledger is written."""
    directory = planned(tmp_path, 50)
    with serving(scripted(Reply())) as server:
        outcome = run(directory, server.url, dry_run=True)
        assert server.asked == []
    counts = outcome.counts
    assert (outcome.dry_run, outcome.balanced, counts.would_send, counts.accepted) == (True, True, 50, 0)
    assert (counts.batches_made, counts.batches_sent) == (6, 0)
    assert not list(directory.glob("ledger*"))


def test_a_dry_run_begins_where_the_ledger_stands(tmp_path: Path) -> None:
    """Half sent: it packs the other half, and the ledger is not a byte different; all sent: nothing is left."""
    directory = planned(tmp_path, 60, files=1)
    with serving(scripted(Reply(), Reply(), Reply(503), Reply(401))) as server:
        run(directory, server.url, send_limits=ONE_AT_A_TIME)
        before = (directory / "ledger.sqlite").read_bytes()
        dry = run(directory, server.url, dry_run=True)
        assert (dry.counts.already_settled, dry.counts.would_send, dry.unsent) == (20, 40, 0)
        assert (dry.counts.batches_made, dry.counts.in_doubt, dry.balanced) == (4, 0, True)
        assert (directory / "ledger.sqlite").read_bytes() == before
        assert len(server.asked) == 4
        with pytest.raises(BrokenLedger, match="belongs to target"):
            run(directory, "http://127.0.0.1:1", dry_run=True)
    with serving(scripted(Reply()), port=server.port) as server:
        run(directory, server.url)
        dry = run(directory, server.url, dry_run=True)
    assert (dry.counts.already_settled, dry.counts.would_send, dry.counts.batches_made) == (60, 0, 0)


def test_a_request_never_holds_one_uuid_twice(tmp_path: Path) -> None:
    """Rows that are copies are left out by the plan, so a batch has no duplicate."""
    source = export(tmp_path / "export", 30, files=1)
    add(source / "part-0.jsonl", (source / "part-0.jsonl").read_bytes())
    pipeline.plan_export(source, tmp_path / "plan", PlanOptions(mapping="generic", settings=COLUMNS, workers=0))
    with serving(scripted(Reply())) as server:
        run(tmp_path / "plan", server.url)
        assert [sorted(batch) for batch in uuids(server.asked)] == [sorted(uuid(number) for number in range(30))]


def test_hundreds_of_tiny_batches_are_sent(tmp_path: Path) -> None:
    """One event a request: 400 requests, all settled, none twice."""
    directory = planned(tmp_path, 400, files=5, batch=1)
    sent: Counter[str] = Counter()
    lock = threading.Lock()

    def send(body: bytes) -> Response:
        with lock:
            sent.update(uuids_in(body))
        return OK

    outcome = run_to(directory, CallDestination(send), send_limits=SendLimits(16, AT_ONCE))
    assert outcome.balanced
    assert sent == Counter(uuid(number) for number in range(400))


def test_merges_are_settled_before_any_event_is_sent(tmp_path: Path) -> None:
    """The identities phase is in the ledger whole before the first event leaves."""
    directory = planned(tmp_path, 40, links=True, batch=2)
    plan, _ = open_plan(directory)
    merges = plan.events.phases["identities"]
    early = []
    event_came = threading.Event()

    def send(body: bytes) -> Response:
        if json.loads(unpack(body)[0])["event"] == "$identify":
            event_came.wait(0.2)  # long enough for an event to overtake, if one may
            return OK
        event_came.set()
        settled = in_ledger(
            directory, "select sum(last - first + 1) from batches where phase = 'identities' and state = 'settled'"
        )
        early.append(settled != [(merges,)])
        return OK

    outcome = run_to(directory, CallDestination(send))
    assert merges > 2
    assert len(early) == 20
    assert not any(early)
    assert outcome.balanced


def test_a_second_run_beside_the_first_is_refused(tmp_path: Path) -> None:
    """While one run sends, another is told who holds the plan, and sends nothing."""
    directory = planned(tmp_path, 20)
    told = []

    def answer(asked: Asked) -> Reply:
        if not told:
            told.append(asked.number)
            with pytest.raises(Busy, match="this plan is in use by another run: process"):
                run(directory, server.url)
        return Reply()

    with serving(answer) as server:
        outcome = run(directory, server.url, send_limits=ONE_AT_A_TIME)
        assert len(server.asked) == 2
    assert outcome.balanced


def test_a_plan_is_applied_to_one_target(tmp_path: Path) -> None:
    """Another target is exit 4 before anything is sent."""
    directory = planned(tmp_path, 10)
    with serving(scripted(Reply())) as first, serving(scripted(Reply())) as second:
        run(directory, first.url)
        with pytest.raises(BrokenLedger) as told:
            run(directory, second.url)
        assert (told.value.exit_code, second.asked) == (4, [])


def test_a_stale_export_is_refused_and_named(tmp_path: Path) -> None:
    """A file that changed since the plan is exit 4, named, and nothing is sent."""
    directory = planned(tmp_path, 10)
    file = tmp_path / "export" / "part-0.jsonl"
    file.write_bytes(file.read_bytes().replace(b"person-0", b"person-X"))
    with serving(scripted(Reply())) as server:
        with pytest.raises(UnsafePlan, match=r"part-0\.jsonl: sealed") as told:
            run(directory, server.url)
        assert server.asked == []
    assert (told.value.exit_code, "\n" in told.value.message) == (4, False)


@pytest.mark.parametrize(
    ("asked", "to", "fits"),
    [
        ({}, "us", False),
        ({}, "https://eu.i.posthog.com", False),
        ({"target": "us"}, "us", True),
        ({"target": "us"}, "eu", True),
        ({"target": "us"}, "http://127.0.0.1:1", False),
        ({"target": "us", "dialect": "contract"}, "us", True),
        ({"target": "http://127.0.0.1:1", "dialect": "posthog"}, "http://127.0.0.1:1/", True),
        ({"dialect": "posthog"}, "http://127.0.0.1:1", True),
        ({}, "http://127.0.0.1:1", True),
    ],
)
def test_a_plan_of_the_other_dialect_is_refused(tmp_path: Path, asked: dict[str, str], to: str, fits: bool) -> None:
    """The target's dialect must be the plan's, unless a person chose the plan's for it."""
    plan, _ = open_plan(planned(tmp_path, 3, **asked))
    if fits:
        check_applicable(plan, to)
    else:
        with pytest.raises(UnsafePlan, match="in the dialect"):
            check_applicable(plan, to)
