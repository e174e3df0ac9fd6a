"""Retries: the same bytes, exactly as often as allowed, never sooner than asked."""

from __future__ import annotations

import gzip
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.batcher import Batch
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.destination import Destination, Response, ResponseKind
from pipeline.delivery.retry import DOUBTFUL_TRIES, RetryPolicy, SendResult, backoff, send_with_retries
from pipeline.delivery.throttle import RateController, Throttle
from tests.support.deliveries import CallDestination, Reply, planned, request_of, run, scripted, serving

RETRY = Response(ResponseKind.RETRY, 503, "later")
SETTLED = Response(ResponseKind.SETTLED, 200)
DOUBT = Response(ResponseKind.DOUBT, 200, "who are you")


class Script:
    """Answers in turn, the last one for ever; records the requests."""

    def __init__(self, *receipts: Response) -> None:
        self.receipts = receipts
        self.bodies: list[bytes] = []
        self.address = "a script"

    def send(self, batch: Batch) -> Response:
        self.bodies.append(batch.body)
        return self.receipts[min(len(self.bodies), len(self.receipts)) - 1]

    def close(self) -> None:
        return


def sent(script: Script, *, tries: int | None = None, seconds: float = 60.0) -> SendResult:
    return send_all(script, RetryPolicy(seconds=seconds, tries=tries, first=0), threading.Event())


def send_all(destination: Destination, retry_policy: RetryPolicy, stop: threading.Event) -> SendResult:
    throttle = Throttle(RateController(8))
    return send_with_retries(destination.send, request_of(b"body"), retry_policy, throttle, stop, lambda failed: None)


@pytest.mark.parametrize(("status", "retries"), [(408, 0), (429, 1), (500, 4), (502, 0), (503, 1), (504, 4)])
def test_a_passing_failure_takes_exactly_retries_and_one_requests(tmp_path: Path, status: int, retries: int) -> None:
    """--max-retries N makes N + 1 requests for the batch, not one more; exit 6. A later run sends the same bytes."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(*[Reply(status, b"later")] * (retries + 1), Reply())) as server:
        outcome = run(directory, server.url, send_limits=SendLimits(1, RetryPolicy(tries=retries, first=0)))
        assert len(server.asked) == retries + 1
        assert run(directory, server.url).balanced
        assert len({gzip.decompress(one.body) for one in server.asked}) == 1
    assert outcome.problem is not None
    assert (outcome.problem.exit_code, outcome.counts.in_doubt) == (6, 0 if status == 429 else 10)


def test_an_answer_that_decides_is_asked_for_once() -> None:
    """Success, 400, 413 and refusals are never retried, and a success ends the retries."""
    assert sent(Script(RETRY, RETRY, SETTLED)) == SendResult(SETTLED, 3, True, True)
    for kind in (ResponseKind.SETTLED, ResponseKind.POISON, ResponseKind.TOO_LARGE, ResponseKind.STOP):
        script = Script(Response(kind, 0, taken=False))
        assert sent(script) == SendResult(Response(kind, 0, taken=False), 1, False, False)
        assert len(script.bodies) == 1


def test_an_answer_from_something_in_between_is_asked_for_three_times() -> None:
    """Garbage is asked for three times, however long retries may go on; other failures in between do not count."""
    assert sent(Script(DOUBT)).tries == DOUBTFUL_TRIES == 3
    assert sent(Script(DOUBT, RETRY, DOUBT, RETRY, DOUBT, SETTLED)).tries == 5


def test_doubt_is_remembered_over_tries() -> None:
    """A lost answer makes the batch doubtful, also if the next try is turned away before anything is taken."""
    turned_away = Response(ResponseKind.STOP, 401, taken=False)
    assert sent(Script(RETRY, turned_away)) == SendResult(turned_away, 2, True, True)
    limited = Response(ResponseKind.RETRY, 429, taken=False)
    assert sent(Script(limited, turned_away)) == SendResult(turned_away, 2, False, True)


def test_the_time_budget_ends_the_retries() -> None:
    """A wait that would end after the budget is not begun."""
    began = time.monotonic()
    assert sent(Script(Response(ResponseKind.RETRY, 503, retry_after=30.0)), seconds=20.0).tries == 1
    assert time.monotonic() - began < 5


def test_nothing_is_sent_once_the_run_is_stopping() -> None:
    """A batch that waits for a sender when the run stops makes no request."""
    stop = threading.Event()
    stop.set()
    script = Script(SETTLED)
    result = send_all(script, RetryPolicy(), stop)
    assert (result.response.kind, result.tries, result.doubtful, script.bodies) == (ResponseKind.UNSENT, 0, False, [])


def test_a_stop_ends_a_wait_without_another_request() -> None:
    """A batch that waits an hour for its next try ends at once, with the answer that it had."""
    stop, asked = threading.Event(), threading.Event()

    def answer(body: bytes) -> Response:
        assert not asked.is_set()
        asked.set()
        return Response(ResponseKind.RETRY, 503, retry_after=3000.0)

    found: list[SendResult] = []
    sender = threading.Thread(
        target=lambda: found.append(send_all(CallDestination(answer), RetryPolicy(seconds=9999), stop))
    )
    sender.start()
    assert asked.wait(10)
    stop.set()
    sender.join(10)
    assert [(one.response.status, one.tries) for one in found] == [(503, 1)]


class _Attempt:
    """The part of tenacity's state that the wait looks at."""

    def __init__(self, number: int, response: Response) -> None:
        self.attempt_number = number
        self.outcome = self
        self._receipt = response

    def result(self) -> Response:
        return self._receipt


@given(st.integers(1, 200), st.floats(0, 1000))
def test_a_wait_is_jittered_and_never_below_the_floor(number: int, floor: float) -> None:
    """Between the minimum that the service asked for and the larger of minimum and doubled back-off, capped."""
    retry_policy = RetryPolicy(first=0.5, most=60.0)
    waited = backoff(retry_policy)(_Attempt(number, Response(ResponseKind.RETRY, 429, retry_after=floor)))  # type: ignore[arg-type]
    assert floor <= waited <= max(floor, min(60.0, 0.5 * 2.0 ** (number - 1)))


def test_waits_are_spread_over_the_whole_range() -> None:
    """Full jitter: waits of one attempt reach both ends of their range."""
    wait = backoff(RetryPolicy(first=1.0, most=8.0))
    waits = [wait(_Attempt(10, RETRY)) for _ in range(300)]  # type: ignore[arg-type]
    assert min(waits) < 1.0
    assert max(waits) > 7.0
