"""Apply accounts for every event, whatever the service answers."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import api
from pipeline.batcher import Envelope, seal_batch
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import Refused
from pipeline.local_service import LocalService
from pipeline.options import VerifyOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import (
    AT_ONCE,
    KEY,
    ONE_AT_A_TIME,
    Asked,
    Reply,
    balances,
    identities,
    in_ledger,
    landed,
    passed_on,
    planned,
    run,
    scripted,
    serving,
    uuid,
    uuids,
)

ONCE = RetryPolicy(tries=0, first=0)


def poison(*bad: str) -> Callable[[Asked], Reply]:
    """A service that refuses any batch with one of these uuids."""

    def answer(asked: Asked) -> Reply:
        held = {event["uuid"] for event in asked.events}
        return Reply(400, b"event submitted with an empty event name") if held & set(bad) else Reply()

    return answer


def test_a_poison_event_is_found_and_the_rest_settles(tmp_path: Path) -> None:
    """After a 400 the batch is halved down to the event that causes it, which is refused by uuid; 199 others settle,
    once each. A second apply neither sends it again nor forgets it."""
    directory = planned(tmp_path, 200, batch=100)
    with serving(poison(uuid(77))) as server:
        outcome = run(directory, server.url)
        taken = Counter(one for batch in uuids(server.asked) if uuid(77) not in batch for one in batch)
        requests = len(server.asked)
        assert len({one.body for one in server.asked}) == requests  # no body is sent again after a 400
        again = run(directory, server.url)
        assert len(server.asked) == requests
    assert (outcome.balanced, outcome.problem) == (True, None)
    assert (outcome.counts.accepted, outcome.counts.refused, outcome.counts.in_doubt) == (199, 1, 0)
    assert (again.counts.refused, again.counts.already_settled, again.balanced) == (1, 199, True)
    assert taken == Counter(uuid(number) for number in range(200) if number != 77)
    assert requests <= 2 + 2 * 7
    assert in_ledger(directory, "select uuid, status from refused_events") == [(uuid(77), 400)]
    assert balances(outcome, open_plan(directory)[0])


def test_a_413_is_halved(tmp_path: Path) -> None:
    """If a service takes four events per request, batches are halved until they fit."""
    directory = planned(tmp_path, 64, files=1, batch=64)

    def answer(asked: Asked) -> Reply:
        return Reply(413, b"maximum event size exceeded") if len(asked.events) > 4 else Reply()

    with serving(answer) as server:
        outcome = run(directory, server.url)
        sizes = Counter(len(batch) for batch in uuids(server.asked))
    assert sizes == {64: 1, 32: 2, 16: 4, 8: 8, 4: 16}
    assert outcome.balanced
    assert (outcome.counts.batches_split, outcome.counts.batches_made) == (15, 31)


def test_a_service_that_refuses_everything_is_soon_left_alone(tmp_path: Path) -> None:
    """If everything is refused, the run stops after max_refused events and few requests, and says so."""
    directory = planned(tmp_path, 4000, files=1, batch=4000)
    with serving(scripted(Reply(400, b"failed to parse request"))) as server:
        outcome = run(directory, server.url, send_limits=SendLimits(1, AT_ONCE, max_refused=10))
        assert len(server.asked) < 60
    assert isinstance(outcome.problem, Refused)
    assert outcome.counts.refused == 11
    assert outcome.counts.in_doubt == 0
    assert outcome.unsent == 4000 - 11
    assert balances(outcome, open_plan(directory)[0])


@pytest.mark.parametrize("status", [401, 418])
def test_a_refusal_of_us_stops_at_once_and_resumes(tmp_path: Path, status: int) -> None:
    """Nothing more is sent, nothing is in doubt, and the next run sends all of it."""
    directory = planned(tmp_path, 100)
    with serving(lambda asked: Reply(status, b"no") if asked.number >= 2 else Reply()) as server:
        outcome = run(directory, server.url, send_limits=ONE_AT_A_TIME)
        assert len(server.asked) == 3
    assert isinstance(outcome.problem, Refused)
    assert outcome.problem.status == status
    assert (outcome.counts.accepted, outcome.counts.in_doubt, outcome.unsent) == (20, 0, 80)
    with serving(scripted(Reply()), port=server.port) as server:
        outcome = run(directory, server.url)
        assert sorted(len(batch) for batch in uuids(server.asked)) == [10] * 8
    assert outcome.balanced


def test_a_used_up_quota_stops_and_nothing_of_it_counts_as_accepted(tmp_path: Path) -> None:
    """A 200 that says quota_limited dropped its events: they are unsent."""
    directory = planned(tmp_path, 40)
    reply = Reply(200, b'{"status":"Ok","quota_limited":["events"]}')
    with serving(scripted(Reply(), reply)) as server:
        outcome = run(directory, server.url, send_limits=ONE_AT_A_TIME)
        assert len(server.asked) == 2
    assert isinstance(outcome.problem, Refused)
    assert (outcome.counts.accepted, outcome.counts.in_doubt, outcome.unsent) == (10, 0, 30)


@pytest.mark.parametrize(
    ("dialect", "reply", "settles"),
    [
        ("contract", Reply(200, b""), True),
        ("contract", Reply(200, b'{"status":"Error","error":"nope"}'), False),
        ("contract", Reply(200, b"sign in"), False),
        ("posthog", Reply(201, b'{"status":1}'), True),
        ("posthog", Reply(200, b""), False),
    ],
)
def test_a_2xx_settles_by_the_dialect_of_the_plan(tmp_path: Path, dialect: str, reply: Reply, settles: bool) -> None:
    """At any address the plan's own dialect decides; a request in doubt is sent three times, then the run ends with
    6."""
    directory = planned(tmp_path, 40, dialect=dialect)
    with serving(scripted(reply)) as server:
        outcome = run(directory, server.url, send_limits=ONE_AT_A_TIME, transport="batch")
        assert (len(server.asked), len({one.body for one in server.asked})) == ((4, 4) if settles else (3, 1))
    counts = outcome.counts
    assert outcome.balanced is settles
    assert (counts.accepted, counts.in_doubt, outcome.unsent) == ((40, 0, 0) if settles else (0, 10, 30))
    assert (outcome.problem.exit_code if outcome.problem else 0) == (0 if settles else 6)
    tried = in_ledger(directory, "select state, tries, status from batches where state = 'begun'")
    assert tried == ([] if settles else [("begun", 3, 200)])


PAGE = b"<!DOCTYPE html><title>sign in</title>"


@pytest.mark.parametrize(
    ("reply", "in_doubt"), [(Reply(200, PAGE), 10), (Reply(501, b"Unsupported method"), 0), (Reply(404, PAGE), 0)]
)
def test_anything_but_a_capture_service_stops_the_run_at_its_first_answer(
    tmp_path: Path, reply: Reply, in_doubt: int
) -> None:
    """One request, exit 5, and the error quotes the answer; a service that took events before may give such an answer
    once."""
    with serving(scripted(reply)) as server:
        outcome = run(planned(tmp_path / "first", 40), server.url, send_limits=ONE_AT_A_TIME)
        assert len(server.asked) == 1
    assert isinstance(outcome.problem, Refused)
    assert (outcome.counts.in_doubt, outcome.counts.accepted) == (in_doubt, 0)
    if reply.status != 404:
        assert "not a capture service" in str(outcome.problem)
        with serving(scripted(Reply(), reply, Reply())) as server:
            assert run(planned(tmp_path / "later", 40), server.url, send_limits=ONE_AT_A_TIME).balanced


@pytest.mark.parametrize("status", [429, 503, 0])
def test_a_passing_failure_is_retried_with_the_same_bytes(tmp_path: Path, status: int) -> None:
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(status), Reply(status), Reply())) as server:
        outcome = run(directory, server.url)
        assert len(server.asked) == 3
        assert len({one.body for one in server.asked}) == 1
    assert (outcome.counts.accepted, outcome.counts.batches_retried, outcome.counts.batches_sent) == (10, 1, 1)
    assert in_ledger(directory, "select state, tries from batches") == [("settled", 3)]


def test_doubt_of_an_earlier_run_outlives_a_refusal(tmp_path: Path) -> None:
    """A batch whose answer was lost stays in doubt if the next run is turned away; each run sends exactly the same
    JSON."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(0), Reply(401), Reply())) as server:
        run(directory, server.url, send_limits=SendLimits(1, ONCE))
        outcome = run(directory, server.url)
        assert (outcome.counts.in_doubt, outcome.unsent) == (10, 0)
        assert run(directory, server.url).counts.accepted == 10
        assert len(server.asked) == 3
        assert len({gzip.decompress(one.body) for one in server.asked}) == 1


def test_the_key_is_in_request_bodies_only(tmp_path: Path) -> None:
    """After runs that fail in every way, no file and no error contains the marked key."""
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
            outcome = run(directory, server.url, send_limits=SendLimits(2, ONCE, max_refused=0))
            told.append(repr(outcome) + repr(outcome.problem) + str(outcome.problem))
        assert {json.loads(gzip.decompress(one.body))["api_key"] for one in server.asked} == {KEY}
        assert not [one for one in server.asked if KEY in f"{one.target} {one.headers}"]
    assert outcome.balanced
    assert [KEY in text for text in told] == [False] * 5
    held = [path.name for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert held == []


DETAILS = "select state, detail from batches order by first"


def test_what_is_known_of_a_doubt_outlives_a_run_that_did_not_get_to_it(tmp_path: Path) -> None:
    """Two batches lose their answers; the next run is turned away with the first, and says nothing about the second."""
    directory = planned(tmp_path, 20, files=1)
    turned_away = False
    both = threading.Barrier(2)  # after the first lost answer, no other batch would be sent

    def answer(asked: Asked) -> Reply:
        if turned_away:
            return Reply(401, b"no such key")
        both.wait(30)
        return Reply(0)

    with serving(answer) as server:
        assert run(directory, server.url, send_limits=SendLimits(2, ONCE)).counts.in_doubt == 20
        before = in_ledger(directory, DETAILS)
        turned_away = True
        assert run(directory, server.url, send_limits=SendLimits(1, ONCE)).counts.in_doubt == 20
        assert len(server.asked) == 3
    assert [state for state, _ in before] == ["begun", "begun"]
    assert all(detail.startswith("no answer") for _, detail in before)
    assert in_ledger(directory, DETAILS) == [("begun", "no such key"), before[1]]


@pytest.mark.parametrize("stopped", [True, False])
def test_what_a_413_kept_is_not_a_difference(tmp_path: Path, stopped: bool) -> None:
    """The service keeps the beginning of a request that it then finds too large; verify knows that this can happen."""
    directory = planned(tmp_path, 20, files=1, batch=20)
    with LocalService() as service:

        def answer(asked: Asked) -> Reply:
            events = asked.events
            if len(events) == 20:
                kept = [json.dumps(one).encode() for one in events[:7]]
                passed_on(service.url, seal_batch(kept, 0, Envelope(service.capture_key)).body)
                return Reply(413, b"too large")
            return Reply(401, b"no") if stopped else passed_on(service.url, asked.body)

        with serving(answer) as server:
            outcome = run(directory, server.url, key=service.capture_key, send_limits=SendLimits(1, ONCE))
        options = VerifyOptions(api=service.url)
        found = api.verify_plan(directory, server.url, options, personal_key=service.personal_key)
        there = landed(service)
    assert [len(one.events) for one in server.asked[:2]] == [20, 10]
    assert (found.proved, found.differences) == (True, [])
    assert (outcome.balanced, len(there)) == ((False, 7) if stopped else (True, 20))
    assert there <= identities(20)
