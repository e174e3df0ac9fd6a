"""Retries of one batch: the same bytes again until a response is final, or the retry policy gives up.

Exponential back-off with full jitter, Retry-After as a floor, a budget in seconds. The only module that uses tenacity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import tenacity
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from pipeline.batcher import Batch
from pipeline.delivery.destination import Destination, Response, ResponseKind
from pipeline.delivery.throttle import Throttle

DOUBTFUL_TRIES = 3
"""Requests for a batch whose responses leave it in doubt (a proxy answered, for instance), at most."""
CONNECT_TRIES = 5
"""Requests for a batch where the host cannot be reached, at most, unless it responded before."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to give up: after `seconds` in which no batch settled, or after `tries` beyond the first of one batch.

    While other batches settle, one that does not is tried on: the service is there. `tries` None: only time counts.
    `first` and `most` bound the back-off in seconds; with `first` 0, for tests, only Retry-After is waited for.
    """

    seconds: float = 3600.0
    tries: int | None = None
    first: float = 0.5
    most: float = 60.0


class SendResult(NamedTuple):
    """The last response to a batch, and how many requests were sent.

    `doubtful`: the service may have accepted one of them. `left`: one of them may have reached a server.
    """

    response: Response
    tries: int
    doubtful: bool
    left: bool


class FailedTry(NamedTuple):
    """A request that did not settle its batch: its number from 1, when (ISO 8601, UTC), seconds, and the response."""

    number: int
    at: str
    seconds: float
    response: Response


class _Wait(wait_base):
    """Full jitter, at least Retry-After, and no longer than the budget lasts."""

    def __init__(self, retry: RetryPolicy, left: Callable[[], float]) -> None:
        self._jitter = tenacity.wait_random_exponential(multiplier=retry.first, max=retry.most)
        self._left = left

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        response: Response = retry_state.outcome.result()  # type: ignore[union-attr]
        return max(min(self._jitter(retry_state), self._left()), response.retry_after)


class _Spent(stop_base):
    """The budget is used up, or Retry-After is longer than what is left of it."""

    def __init__(self, left: Callable[[], float]) -> None:
        self._left = left

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        response: Response = retry_state.outcome.result()  # type: ignore[union-attr]
        left = self._left()
        return left <= 0 or response.retry_after > left


def send_with_retries(
    destination: Destination,
    batch: Batch,
    retry: RetryPolicy,
    throttle: Throttle,
    stop: threading.Event,
    note: Callable[[FailedTry], None] = lambda tried: None,
    begin: Callable[[], bool] = lambda: True,
) -> SendResult:
    """Send until a response is final or the policy gives up. Once `stop` is set no request begins and no wait goes on.

    `begin` is called once, before the first request, and records it; where it returns False nothing is sent. `note` is
    called with each try that did not settle the batch.
    """
    last = Response(ResponseKind.UNSENT, 0, "not sent: the run was stopping", taken=False)
    tries = doubts = 0
    doubtful = left_us = False
    began = throttle.now()

    def attempt() -> Response:
        nonlocal last, tries, doubts, doubtful, left_us
        left = throttle.enter(batch.events, stop)
        if left is None:
            return last
        response = None
        try:
            if not tries and not begin():
                return last
            tries += 1
            at = datetime.now(UTC)
            response = last = destination.send(batch)
        finally:
            throttle.leave(left, response)
        doubts += last.kind is ResponseKind.DOUBT
        left_us = left_us or last.taken or last.status > 0
        if last.kind is not ResponseKind.SETTLED:
            doubtful = doubtful or last.taken
            moment = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            note(FailedTry(tries, moment, throttle.now() - left, last))
        return last

    def again(response: Response) -> bool:
        if stop.is_set():
            return False
        match response.kind:
            case ResponseKind.RETRY:
                return True
            case ResponseKind.DOUBT:
                return doubts < DOUBTFUL_TRIES
            case ResponseKind.UNREACHABLE:
                return tries < CONNECT_TRIES or throttle.target_known
        return False

    def left() -> float:
        return max(0.0, retry.seconds - throttle.idle(began))

    stops: list[stop_base] = [_Spent(left)]
    if retry.tries is not None:
        stops.append(tenacity.stop_after_attempt(retry.tries + 1))
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(again),
        wait=_Wait(retry, left),
        stop=tenacity.stop_any(*stops),
        sleep=tenacity.sleep_using_event(stop),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    response: Response = retrying(attempt)
    return SendResult(response, tries, doubtful, left_us)
