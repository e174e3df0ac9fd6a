"""Apply sends exactly the plan, writes ahead, and accounts for every event whatever the answers are."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from deliveries import (
    AT_ONCE,
    KEY,
    Asked,
    CallSink,
    Reply,
    balances,
    identities,
    planned,
    run,
    run_to,
    scripted,
    serving,
    uuid,
    uuids,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import workflow
from pipeline.batch import unpack
from pipeline.deliver.apply import Pace
from pipeline.deliver.retry import Patience
from pipeline.deliver.sink import Answer, Receipt
from pipeline.errors import BrokenLedger, Busy, Interrupted, Refused, Unfinished, UnsafePlan
from pipeline.service import LocalService

OK = Receipt(Answer.SETTLED, 200)
ONE_AT_A_TIME = Pace(1, AT_ONCE)


def rows(directory: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(directory / "ledger.sqlite")) as database, database:
        return database.execute(sql).fetchall()


def names(body: bytes) -> list[str]:
    return [json.loads(event)["uuid"] for event in unpack(body)]


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
    assert balances(outcome, workflow.load_plan(directory)[0])


def test_begin_is_durable_before_a_byte_leaves(tmp_path: Path) -> None:
    """Whenever a request is made, another connection to the ledger finds its batch begun."""
    directory = planned(tmp_path, 60)
    found = []

    def send(body: bytes) -> Receipt:
        first, last = names(body)[0], names(body)[-1]
        begun = rows(directory, "select block, first, last from batches where state = 'begun'")
        mine = [(uuid(a * 2 + b), uuid(z * 2 + b)) for b, a, z in begun]
        found.append((first, last) in mine)
        return OK

    assert run_to(directory, CallSink(send)).balanced
    assert found == [True] * 6


def test_settled_is_written_only_after_the_answer(tmp_path: Path) -> None:
    """While a request waits for its answer its batch is in doubt, not settled."""
    directory = planned(tmp_path, 20, files=1)
    seen = []

    def send(body: bytes) -> Receipt:
        seen.append(rows(directory, "select count(*) from batches where state = 'settled' and first = 0"))
        return OK

    run_to(directory, CallSink(send), pace=ONE_AT_A_TIME)
    assert seen[0] == [(0,)]
    assert rows(directory, "select state, count(*) from batches group by state") == [("settled", 2)]


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
    plan, place = workflow.load_plan(directory)
    assert (plan.events.made, plan.ready) == (0, False)
    with serving(scripted(Reply())) as server:
        with pytest.raises(UnsafePlan, match="no event would be sent"):
            run(directory, server.url)
        assert server.asked == []
    done = workflow.rehearse(plan, place)
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
    assert (outcome.dry_run, outcome.balanced, outcome.counts.batches_sent) == (True, True, 6)
    assert not list(directory.glob("ledger*"))


def test_a_request_never_holds_one_uuid_twice(tmp_path: Path) -> None:
    """Rows that are copies are left out by the plan, so a batch has no duplicate."""
    directory = planned(tmp_path, 30)
    with serving(scripted(Reply())) as server:
        run(directory, server.url)
        assert all(len(set(batch)) == len(batch) for batch in uuids(server.asked))


def test_hundreds_of_tiny_batches_are_sent(tmp_path: Path) -> None:
    """One event a request: 400 requests, all settled, none twice."""
    directory = planned(tmp_path, 400, files=5, batch=1)
    sent: Counter[str] = Counter()
    lock = threading.Lock()

    def send(body: bytes) -> Receipt:
        with lock:
            sent.update(names(body))
        return OK

    outcome = run_to(directory, CallSink(send), pace=Pace(16, AT_ONCE))
    assert outcome.balanced
    assert sent == Counter(uuid(number) for number in range(400))


def test_merges_are_settled_before_any_event_is_sent(tmp_path: Path) -> None:
    """The identities phase is in the ledger whole before the first event leaves."""
    directory = planned(tmp_path, 40, links=True, batch=2)
    plan, _ = workflow.load_plan(directory)
    merges = plan.events.phases["identities"]
    early = []
    event_came = threading.Event()

    def send(body: bytes) -> Receipt:
        if json.loads(unpack(body)[0])["event"] == "$identify":
            event_came.wait(0.2)  # long enough for an event to overtake, if one may
            return OK
        event_came.set()
        settled = rows(
            directory, "select sum(last - first + 1) from batches where phase = 'identities' and state = 'settled'"
        )
        early.append(settled != [(merges,)])
        return OK

    outcome = run_to(directory, CallSink(send))
    assert merges > 2
    assert len(early) == 20
    assert not any(early)
    assert outcome.balanced


# -- answers -----------------------------------------------------------------------------------------------


def poison(*bad: str) -> Callable[[Asked], Reply]:
    """A service that refuses any batch holding one of these uuids."""

    def answer(asked: Asked) -> Reply:
        held = {event["uuid"] for event in asked.events}
        return Reply(400, b"event submitted with an empty event name") if held & set(bad) else Reply()

    return answer


def test_a_poison_event_is_found_and_the_rest_settles(tmp_path: Path) -> None:
    """A 400 is halved down to the event that causes it, which is refused by uuid; 199 others settle, once each."""
    directory = planned(tmp_path, 200, batch=100)
    with serving(poison(uuid(77))) as server:
        outcome = run(directory, server.url)
        taken = Counter(one for batch in uuids(server.asked) if uuid(77) not in batch for one in batch)
        requests = len(server.asked)
    assert outcome.balanced
    assert outcome.problem is None
    assert (outcome.counts.accepted, outcome.counts.refused, outcome.counts.in_doubt) == (199, 1, 0)
    assert taken == Counter(uuid(number) for number in range(200) if number != 77)
    assert requests <= 2 + 2 * 7
    assert rows(directory, "select uuid, status from refused_events") == [(uuid(77), 400)]
    assert balances(outcome, workflow.load_plan(directory)[0])


def test_a_refused_event_stays_refused(tmp_path: Path) -> None:
    """A second apply neither sends it again nor forgets it."""
    directory = planned(tmp_path, 20)
    with serving(poison(uuid(3))) as server:
        run(directory, server.url)
        before = len(server.asked)
        outcome = run(directory, server.url)
        assert len(server.asked) == before
    assert (outcome.counts.refused, outcome.counts.already_settled, outcome.balanced) == (1, 19, True)


def test_a_413_is_halved(tmp_path: Path) -> None:
    """A service that takes four events a request gets them in halves until they fit."""
    directory = planned(tmp_path, 64, files=1, batch=64)

    def answer(asked: Asked) -> Reply:
        return Reply(413, b"maximum event size exceeded") if len(asked.events) > 4 else Reply()

    with serving(answer) as server:
        outcome = run(directory, server.url)
        sizes = Counter(len(batch) for batch in uuids(server.asked))
    assert sizes == {64: 1, 32: 2, 16: 4, 8: 8, 4: 16}
    assert outcome.balanced
    assert (outcome.counts.batches_split, outcome.counts.batches_made) == (15, 31)


def test_an_event_too_large_by_itself_is_refused(tmp_path: Path) -> None:
    """413 for a single event refuses that event and no other."""
    directory = planned(tmp_path, 8, files=1, batch=8)

    def answer(asked: Asked) -> Reply:
        return Reply(413) if uuid(5) in [event["uuid"] for event in asked.events] else Reply()

    with serving(answer) as server:
        outcome = run(directory, server.url)
    assert (outcome.counts.accepted, outcome.counts.refused) == (7, 1)
    assert rows(directory, "select uuid, status from refused_events") == [(uuid(5), 413)]


def test_a_service_that_refuses_everything_is_soon_left_alone(tmp_path: Path) -> None:
    """Where all is refused the run stops after max_refused events and few requests, and says so."""
    directory = planned(tmp_path, 4000, files=1, batch=4000)
    with serving(scripted(Reply(400, b"failed to parse request"))) as server:
        outcome = run(directory, server.url, pace=Pace(1, AT_ONCE, max_refused=10))
        assert len(server.asked) < 60
    assert isinstance(outcome.problem, Refused)
    assert outcome.counts.refused == 11
    assert outcome.counts.in_doubt == 0
    assert outcome.unsent == 4000 - 11
    assert balances(outcome, workflow.load_plan(directory)[0])


@pytest.mark.parametrize("status", [401, 402, 403, 404, 418])
def test_a_refusal_of_us_stops_at_once_and_resumes(tmp_path: Path, status: int) -> None:
    """Nothing more is sent, nothing is in doubt, and the next run sends all of it."""
    directory = planned(tmp_path, 100)
    with serving(lambda asked: Reply(status, b"no") if asked.number >= 2 else Reply()) as server:
        outcome = run(directory, server.url, pace=ONE_AT_A_TIME)
        assert len(server.asked) == 3
    assert isinstance(outcome.problem, Refused)
    assert outcome.problem.status == status
    assert (outcome.counts.accepted, outcome.counts.in_doubt, outcome.unsent) == (20, 0, 80)
    with serving(scripted(Reply())) as server:
        _retarget(directory, server.url)
        outcome = run(directory, server.url)
        assert sorted(len(batch) for batch in uuids(server.asked)) == [10] * 8
    assert outcome.balanced


def _retarget(directory: Path, url: str) -> None:
    """The second server of a test has another port."""
    with closing(sqlite3.connect(directory / "ledger.sqlite")) as database, database:
        database.execute("update meta set value = ? where key = 'target'", (url,))


def test_a_used_up_quota_stops_and_nothing_of_it_counts_as_accepted(tmp_path: Path) -> None:
    """A 200 that says quota_limited dropped its events: they are unsent."""
    directory = planned(tmp_path, 40)
    reply = Reply(200, b'{"status":"Ok","quota_limited":["events"]}')
    with serving(scripted(Reply(), reply)) as server:
        outcome = run(directory, server.url, pace=ONE_AT_A_TIME)
        assert len(server.asked) == 2
    assert isinstance(outcome.problem, Refused)
    assert (outcome.counts.accepted, outcome.counts.in_doubt, outcome.unsent) == (10, 0, 30)


def test_garbage_is_in_doubt_after_three_tries(tmp_path: Path) -> None:
    """A 200 that is no JSON is asked for three times with the same bytes; then the run stops, the batch in doubt."""
    directory = planned(tmp_path, 40)
    with serving(scripted(Reply(200, b"<html>sign in</html>"))) as server:
        outcome = run(directory, server.url, pace=ONE_AT_A_TIME)
        assert len({one.body for one in server.asked}) == 1
        assert len(server.asked) == 3
    assert isinstance(outcome.problem, Unfinished)
    assert (outcome.counts.accepted, outcome.counts.in_doubt, outcome.unsent) == (0, 10, 30)
    assert rows(directory, "select state, tries, status from batches where tries > 0") == [("begun", 3, 200)]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 0])
def test_a_passing_failure_is_retried_with_the_same_bytes(tmp_path: Path, status: int) -> None:
    """The very same request again, until it settles."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(status), Reply(status), Reply())) as server:
        outcome = run(directory, server.url)
        assert len(server.asked) == 3
        assert len({one.body for one in server.asked}) == 1
    assert (outcome.counts.accepted, outcome.counts.batches_retried, outcome.counts.batches_sent) == (10, 1, 1)
    assert rows(directory, "select state, tries from batches") == [("settled", 3)]


def test_patience_at_its_end_stops_the_run_resumable(tmp_path: Path) -> None:
    """After retries + 1 requests for one batch the run is unfinished, and the batch in doubt."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(503, b"later"))) as server:
        outcome = run(directory, server.url, pace=Pace(1, Patience(tries=4, first=0)))
        assert len(server.asked) == 5
    assert isinstance(outcome.problem, Unfinished)
    assert (outcome.counts.in_doubt, outcome.unsent) == (10, 0)


def test_a_refused_connection_leaves_nothing_in_doubt(tmp_path: Path) -> None:
    """Where nobody ever answered, nothing is in doubt and all of it is unsent."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply())) as server:
        url = server.url
    outcome = run(directory, url, pace=Pace(1, Patience(tries=1, first=0)))
    assert isinstance(outcome.problem, Unfinished)
    assert (outcome.counts.in_doubt, outcome.unsent) == (0, 10)


def test_doubt_of_an_earlier_run_outlives_a_refusal(tmp_path: Path) -> None:
    """A batch whose answer was lost stays in doubt when the next run is turned away."""
    directory = planned(tmp_path, 10, files=1)
    lost = Receipt(Answer.RETRY, 0, "lost")
    run_to(directory, CallSink(lambda body: lost), pace=Pace(1, Patience(tries=0, first=0)))
    outcome = run_to(directory, CallSink(lambda body: Receipt(Answer.STOP, 401, taken=False)))
    assert (outcome.counts.in_doubt, outcome.unsent) == (10, 0)
    assert run_to(directory, CallSink(lambda body: OK)).counts.accepted == 10


def test_a_sink_that_fails_stops_the_run_and_the_rest_is_written_down(tmp_path: Path) -> None:
    """A defect in a sender thread is raised after what landed was settled, and nothing hangs."""
    directory = planned(tmp_path, 100)
    sent = []

    def send(body: bytes) -> Receipt:
        sent.append(body)
        if len(sent) == 3:
            raise ZeroDivisionError("a defect")
        return OK

    with pytest.raises(ZeroDivisionError):
        run_to(directory, CallSink(send), pace=ONE_AT_A_TIME)
    assert rows(directory, "select state, count(*) from batches where tries > 0 group by state") == [
        ("begun", 1),
        ("settled", 2),
    ]
    assert rows(directory, "select outcome from runs") == [("failed",)]
    assert run_to(directory, CallSink(lambda body: OK)).balanced


# -- stopping ------------------------------------------------------------------------------------------------


def test_an_interrupt_settles_what_is_in_flight_and_begins_nothing_new(tmp_path: Path) -> None:
    """Asked to stop during the third request, the run settles it and sends no fourth."""
    directory = planned(tmp_path, 100)
    interrupted = threading.Event()
    sent = []

    def send(body: bytes) -> Receipt:
        sent.append(body)
        if len(sent) == 3:
            interrupted.set()
        return OK

    outcome = run_to(directory, CallSink(send), pace=ONE_AT_A_TIME, interrupted=interrupted)
    assert isinstance(outcome.problem, Interrupted)
    assert len(sent) == 3
    assert (outcome.counts.accepted, outcome.counts.in_doubt, outcome.unsent) == (30, 0, 70)
    assert run_to(directory, CallSink(lambda body: OK)).balanced


def test_an_interrupt_ends_a_batch_that_waits_for_its_next_try(tmp_path: Path) -> None:
    """A batch in a long back-off does not keep the run from ending; it is in doubt, since it was sent."""
    directory = planned(tmp_path, 10, files=1)
    interrupted = threading.Event()

    def send(body: bytes) -> Receipt:
        interrupted.set()
        return Receipt(Answer.RETRY, 503, retry_after=3000.0)

    outcome = run_to(directory, CallSink(send), pace=Pace(1, Patience(seconds=9000)), interrupted=interrupted)
    assert isinstance(outcome.problem, Interrupted)
    assert outcome.counts.in_doubt == 10


def test_an_interrupt_after_the_last_batch_is_none(tmp_path: Path) -> None:
    """A run that had nothing left when it was interrupted is done."""
    directory = planned(tmp_path, 10, files=1)
    interrupted = threading.Event()

    def send(body: bytes) -> Receipt:
        interrupted.set()
        return OK

    outcome = run_to(directory, CallSink(send), interrupted=interrupted)
    assert (outcome.problem, outcome.balanced) == (None, True)


def test_an_interrupt_inside_a_split_batch_resumes_to_the_same_set(tmp_path: Path) -> None:
    """Halves that were not sent wait in the ledger and are sent as they stand by the next run."""
    directory = planned(tmp_path, 64, files=1, batch=64)
    interrupted = threading.Event()
    taken: Counter[str] = Counter()
    sent = []

    def send(body: bytes) -> Receipt:
        held = names(body)
        sent.append(len(held))
        if len(sent) == 4:
            interrupted.set()
        if len(held) > 16:
            return Receipt(Answer.TOO_LARGE, 413)
        taken.update(held)
        return OK

    first = run_to(directory, CallSink(send), pace=ONE_AT_A_TIME, interrupted=interrupted)
    assert (sent, first.counts.in_doubt, first.counts.accepted) == ([64, 32, 16, 16], 0, 32)
    second = run_to(directory, CallSink(send), pace=ONE_AT_A_TIME)
    assert second.balanced
    assert taken == Counter(uuid(number) for number in range(64))


# -- whose ledger --------------------------------------------------------------------------------------------


def test_a_second_run_beside_the_first_is_refused(tmp_path: Path) -> None:
    """While one run sends, another is told who holds the plan, and sends nothing."""
    directory = planned(tmp_path, 20)
    told = []

    def answer(asked: Asked) -> Reply:
        if not told:
            told.append(asked.number)
            with pytest.raises(Busy, match="another run holds this plan: process"):
                run(directory, server.url)
        return Reply()

    with serving(answer) as server:
        outcome = run(directory, server.url, pace=ONE_AT_A_TIME)
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
    plan, _ = workflow.load_plan(planned(tmp_path, 3, **asked))
    if fits:
        workflow.check_applicable(plan, to)
    else:
        with pytest.raises(UnsafePlan, match="speaks"):
            workflow.check_applicable(plan, to)


def test_the_key_is_in_request_bodies_only(tmp_path: Path) -> None:
    """After runs that fail in every way the marked key is in no file, and in no error."""
    directory = planned(tmp_path, 60)
    echo = [
        lambda asked: Reply(400, asked.body and KEY.encode()),
        lambda asked: Reply(401, b"bad key " + KEY.encode()),
        lambda asked: Reply(200, b"<p>" + KEY.encode()),
        lambda asked: Reply(307, b"", {"Location": f"http://elsewhere.invalid/?k={KEY}"}),
        scripted(Reply()),
    ]
    told = []
    with serving(lambda asked: echo[len(told)](asked)) as server:
        while len(told) < len(echo):
            outcome = run(directory, server.url, pace=Pace(2, Patience(tries=0, first=0), max_refused=0))
            told.append(repr(outcome) + repr(outcome.problem) + str(outcome.problem))
        assert all(KEY in json.dumps(one.events) or KEY.encode() not in one.body for one in server.asked)
    assert outcome.balanced
    assert [KEY in text for text in told] == [False] * 5
    held = [path.name for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert held == []


# -- every script of answers ------------------------------------------------------------------------------------

REPLIES = st.sampled_from(
    [
        OK,
        OK,
        Receipt(Answer.RETRY, 503),
        Receipt(Answer.RETRY, 0, taken=False),
        Receipt(Answer.UNREACHABLE, 0, taken=False),
        Receipt(Answer.DOUBT, 200),
        Receipt(Answer.POISON, 400, taken=False),
        Receipt(Answer.TOO_LARGE, 413),
        Receipt(Answer.STOP, 401, taken=False),
    ]
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("scripts"), 40, batch=8, links=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(REPLIES, max_size=30), concurrency=st.integers(1, 4))
def test_every_run_balances_and_resumes(small: Path, script: list[Receipt], concurrency: int) -> None:
    """Whatever a service answers, each run balances; once it answers well everything is settled or refused, once."""
    plan, _ = workflow.load_plan(small)
    for leftover in small.glob("ledger.sqlite*"):
        leftover.unlink()
    answers = iter(script)
    lock = threading.Lock()
    taken: Counter[str] = Counter()

    def send(body: bytes) -> Receipt:
        with lock:
            receipt = next(answers, OK)
            if receipt.answer is Answer.SETTLED:
                taken.update(names(body))
            return receipt

    for _ in range(40):
        outcome = run_to(small, CallSink(send), pace=Pace(concurrency, Patience(tries=1, first=0)))
        assert balances(outcome, plan)
        if outcome.balanced:
            break
    assert outcome.balanced
    refused = {str(one) for (one,) in rows(small, "select uuid from refused_events")}
    assert set(taken.values()) <= {1}
    assert not refused & set(taken)
    assert len(taken) + len(refused) == plan.events.made
