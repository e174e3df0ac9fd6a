"""Retries behind one narrow door: the same bytes again, until an answer settles it or the time is up.

Exponential back-off with full jitter, Retry-After as a floor, a budget in time. Only here is tenacity known.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

import tenacity
from tenacity.wait import wait_base

from pipeline.deliver.sink import Answer, Receipt, Sink

DOUBTS = 3
"""An answer from somebody in between is asked for again this often, no more."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on: `seconds` in all for one batch, `tries` after the first at most (None: the time decides).

    `first` and `most` bound the back-off in seconds; `first` 0 waits only as long as the service asks, for tests.
    """

    seconds: float = 3600.0
    tries: int | None = None
    first: float = 0.5
    most: float = 60.0


class Sent(NamedTuple):
    """The last receipt of a batch, and how many requests it took. `doubtful`: some try may have been taken."""

    receipt: Receipt
    tries: int
    doubtful: bool


class _Wait(wait_base):
    """Full jitter, never below what the service asked for."""

    def __init__(self, patience: Patience) -> None:
        self._jitter = tenacity.wait_random_exponential(multiplier=patience.first, max=patience.most)

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        receipt: Receipt = retry_state.outcome.result()  # type: ignore[union-attr]
        return max(self._jitter(retry_state), receipt.retry_after)


def send_patiently(sink: Sink, body: bytes, patience: Patience, stop: threading.Event) -> Sent:
    """Send until settled, refused or out of patience. Once `stop` is set no request begins, and no wait goes on."""
    last = Receipt(Answer.UNSENT, 0, "not sent: the run was stopping", taken=False)
    tries = doubts = 0
    doubtful = False

    def attempt() -> Receipt:
        nonlocal last, tries, doubts, doubtful
        if stop.is_set():
            return last
        tries += 1
        last = sink.send(body)
        doubts += last.answer is Answer.DOUBT
        doubtful = doubtful or (last.answer is not Answer.SETTLED and last.taken)
        return last

    def again(receipt: Receipt) -> bool:
        if stop.is_set():
            return False
        return receipt.answer is Answer.RETRY or (receipt.answer is Answer.DOUBT and doubts < DOUBTS)

    stops: list[tenacity.stop.stop_base] = [tenacity.stop_before_delay(patience.seconds)]
    if patience.tries is not None:
        stops.append(tenacity.stop_after_attempt(patience.tries + 1))
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(again),
        wait=_Wait(patience),
        stop=tenacity.stop_any(*stops),
        sleep=tenacity.sleep_using_event(stop),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    receipt: Receipt = retrying(attempt)
    return Sent(receipt, tries, doubtful)
