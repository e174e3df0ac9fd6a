"""Retries of one batch: the same bytes again until a response is final, or the retry policy gives up.

Exponential back-off with full jitter, Retry-After as a floor, a budget in seconds.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import msgspec

from pipeline.batcher import Batch
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.throttle import Throttle
from pipeline.timestamps import utc_now

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")
DOUBTFUL_TRIES = 3
"""At most this many requests for a batch if responses leave it in doubt (if a proxy answered, for instance)."""
CONNECT_TRIES = 5
"""At most this many requests for a batch if the host cannot be reached, unless the host responded before."""


class RetryPolicy(msgspec.Struct, frozen=True):
    """When to give up: after `seconds` in which no batch settled, or after `tries` beyond the first of one batch.

    While other batches settle, a batch that fails is tried again, since the service works. With `tries` None only time
    counts. `first` and `most` limit the back-off in seconds; if `first` is 0, for tests, only Retry-After is waited
    for.
    """

    seconds: float = 3600.0
    tries: int | None = None
    first: float = 0.5
    most: float = 60.0


class SendResult(NamedTuple):
    """The last response to a batch, and how many requests were sent.

    `doubtful`: the service may have accepted one of them. `reached`: one of them may have reached a server.
    """

    response: Response
    tries: int
    doubtful: bool
    reached: bool


class FailedTry(NamedTuple):
    """A request that did not settle its batch: its number from 1, when (ISO 8601, UTC), seconds, and the response."""

    number: int
    at: str
    seconds: float
    response: Response


def with_retries(
    attempt: Callable[[], T],
    is_retried: Callable[[T], bool],
    *,
    wait: Callable[[RetryCallState], float],
    stop: Callable[[RetryCallState], bool],
    sleep: Callable[[float], Any] = time.sleep,
) -> T:
    """The result of the first attempt that is not retried, or of the last one before `stop`.

    tenacity is loaded only for the second attempt: it loads asyncio, which takes longer than most requests.
    """
    first = [attempt()]
    if not is_retried(first[0]):
        return first[0]
    import tenacity

    result: T = tenacity.Retrying(
        retry=tenacity.retry_if_result(is_retried), wait=wait, stop=stop, sleep=sleep, retry_error_callback=last_result
    )(lambda: first.pop() if first else attempt())
    return result


def backoff(retry: RetryPolicy, budget: Callable[[], float] = lambda: math.inf) -> Callable[[RetryCallState], float]:
    """Seconds until the next try: full jitter, at least `retry_after` of the last result, no longer than the budget."""

    def wait(state: RetryCallState) -> float:
        from tenacity import wait_random_exponential

        jitter = wait_random_exponential(multiplier=retry.first, max=retry.most)
        seconds: float = max(min(jitter(state), budget()), last_result(state).retry_after)
        return seconds

    return wait


def last_result(state: RetryCallState) -> Any:
    """What the last try returned."""
    assert state.outcome is not None, "a try has ended"
    return state.outcome.result()


def send_with_retries(
    send: Callable[[Batch], Response],
    batch: Batch,
    retry: RetryPolicy,
    throttle: Throttle,
    stop: threading.Event,
    note: Callable[[FailedTry], None] = lambda tried: None,
    begin: Callable[[], bool] = lambda: True,
    divide: Callable[[Response], Batch] = lambda response: _not_divided(),
) -> SendResult:
    """Send until a response is final or the policy gives up. Once `stop` is set, no request begins and every wait ends.

    `begin` is called once, before the first request, and records it; if it returns False, nothing is sent. `note` is
    called with each try that did not settle the batch. After a response that settles it partly, `divide` is called and
    returns what is left, which is begun again if the service asks for it.
    """
    last = Response(ResponseKind.UNSENT, 0, "not sent: the run was stopping", taken=False)
    tries = doubts = 0
    begun = doubtful = reached = False
    began = throttle.now()

    def attempt() -> Response:
        nonlocal batch, last, tries, doubts, begun, doubtful, reached
        started = throttle.enter(batch.events, len(batch.body), stop)
        if started is None:
            return last
        response = None
        try:
            if not begun and not begin():
                return last
            begun = True
            tries += 1
            at = utc_now()
            response = last = send(batch if tries == 1 else replace(batch, attempt=tries))
        finally:
            throttle.leave(started, response)
        if not throttle.has_taken:
            response = last = judged_first(last)
        doubts += last.kind is ResponseKind.DOUBT
        reached = reached or last.taken or last.status > 0
        if last.kind is not ResponseKind.SETTLED and (last.kind is not ResponseKind.PARTLY or last.asks_again):
            doubtful = doubtful or last.taken
            note(FailedTry(tries, at, throttle.now() - started, last))
        if last.kind is ResponseKind.PARTLY:
            batch, begun, doubtful = divide(last), False, False
        return last

    def is_retried(response: Response) -> bool:
        if stop.is_set():
            return False
        match response.kind:
            case ResponseKind.RETRY:
                return True
            case ResponseKind.PARTLY:
                return response.asks_again
            case ResponseKind.DOUBT:
                return doubts < DOUBTFUL_TRIES
            case ResponseKind.UNREACHABLE:
                return tries < CONNECT_TRIES or throttle.target_known
        return False

    def budget() -> float:
        return max(0.0, retry.seconds - throttle.idle(began))

    def gives_up(state: RetryCallState) -> bool:
        seconds = budget()
        spent = seconds <= 0 or last_result(state).retry_after > seconds
        return spent or (retry.tries is not None and tries > retry.tries)

    response = with_retries(attempt, is_retried, wait=backoff(retry, budget), stop=gives_up, sleep=stop.wait)
    return SendResult(response, tries, doubtful, reached)


_PAGE = re.compile(r"<(!doctype|html|head|body)\b", re.IGNORECASE)
_NOT_IMPLEMENTED = 501
"""What file servers answer to a POST."""


def judged_first(response: Response) -> Response:
    """What a response means before the target has taken anything: one that no capture service gives stops the run."""
    page = response.kind is ResponseKind.DOUBT and _PAGE.search(response.detail) is not None
    if not page and response.status != _NOT_IMPLEMENTED:
        return response
    return response._replace(
        kind=ResponseKind.STOP,
        taken=response.taken and page,
        detail=f"not a capture service: {'a web page' if page else response.detail[:200]}",
        hint="check --to: it is the address of the service itself, without a path",
    )


def _not_divided() -> NoReturn:
    raise AssertionError("a destination without a verdict for each event settles no batch partly")
