"""Retries behind one narrow door: the same bytes again, until an answer settles it or the time is up.

Exponential back-off with full jitter, Retry-After as a floor, a budget in time. Only here is tenacity known.
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

from pipeline.delivery.gate import Gate
from pipeline.delivery.sink import Answer, Receipt, Sink

DOUBTS = 3
"""An answer from somebody in between is asked for again this often, no more."""
KNOCKS = 5
"""A host that cannot be reached is tried this often for each batch, unless somebody answered there before."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on: `seconds` in which the service takes nothing, `tries` after the first for each batch.

    While other batches settle, a batch that does not is tried on: the service is there. `tries` None: the time decides.
    `first` and `most` bound the back-off in seconds; `first` 0 waits only as long as the service asks, for tests.
    """

    seconds: float = 3600.0
    tries: int | None = None
    first: float = 0.5
    most: float = 60.0


class Sent(NamedTuple):
    """The last receipt of a batch, and how many requests it took.

    `doubtful`: some try may have been taken. `left`: some try may have reached anybody.
    """

    receipt: Receipt
    tries: int
    doubtful: bool
    left: bool


class Tried(NamedTuple):
    """One request that did not settle its batch: its number from 1, when (ISO 8601, UTC), how long, what was said."""

    number: int
    at: str
    seconds: float
    receipt: Receipt


class _Wait(wait_base):
    """Full jitter, never below what the service asked for, and never beyond the end of the budget."""

    def __init__(self, patience: Patience, left: Callable[[], float]) -> None:
        self._jitter = tenacity.wait_random_exponential(multiplier=patience.first, max=patience.most)
        self._left = left

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        receipt: Receipt = retry_state.outcome.result()  # type: ignore[union-attr]
        return max(min(self._jitter(retry_state), self._left()), receipt.retry_after)


class _Spent(stop_base):
    """The time is up, or the service asks for more of it than there is."""

    def __init__(self, left: Callable[[], float]) -> None:
        self._left = left

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        receipt: Receipt = retry_state.outcome.result()  # type: ignore[union-attr]
        left = self._left()
        return left <= 0 or receipt.retry_after > left


def send_patiently(
    sink: Sink,
    body: bytes,
    events: int,
    patience: Patience,
    gate: Gate,
    stop: threading.Event,
    note: Callable[[Tried], None] = lambda tried: None,
    begin: Callable[[], bool] = lambda: True,
) -> Sent:
    """Send until settled, refused or out of patience. Once `stop` is set no request begins, and no wait goes on.

    `begin` is asked once, when the first request may leave, whether it is written down that it will; where it is not,
    none leaves. `note` is called with each try that did not settle, as it happens.
    """
    last = Receipt(Answer.UNSENT, 0, "not sent: the run was stopping", taken=False)
    tries = doubts = 0
    doubtful = left_us = False
    began = gate.now()

    def attempt() -> Receipt:
        nonlocal last, tries, doubts, doubtful, left_us
        left = gate.enter(events, stop)
        if left is None:
            return last
        receipt = None
        try:
            if not tries and not begin():
                return last
            tries += 1
            at = datetime.now(UTC)
            receipt = last = sink.send(body)
        finally:
            gate.leave(left, receipt)
        doubts += last.answer is Answer.DOUBT
        left_us = left_us or last.taken or last.status > 0
        if last.answer is not Answer.SETTLED:
            doubtful = doubtful or last.taken
            moment = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            note(Tried(tries, moment, gate.now() - left, last))
        return last

    def again(receipt: Receipt) -> bool:
        if stop.is_set():
            return False
        match receipt.answer:
            case Answer.RETRY:
                return True
            case Answer.DOUBT:
                return doubts < DOUBTS
            case Answer.UNREACHABLE:
                return tries < KNOCKS or gate.answered
        return False

    def left() -> float:
        return max(0.0, patience.seconds - gate.idle(began))

    stops: list[stop_base] = [_Spent(left)]
    if patience.tries is not None:
        stops.append(tenacity.stop_after_attempt(patience.tries + 1))
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(again),
        wait=_Wait(patience, left),
        stop=tenacity.stop_any(*stops),
        sleep=tenacity.sleep_using_event(stop),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    receipt: Receipt = retrying(attempt)
    return Sent(receipt, tries, doubtful, left_us)
