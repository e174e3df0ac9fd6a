"""Retries of management requests, where a second request is safe: back-off with jitter, Retry-After as a floor.

A person waits for the response, and the service limits calls by the minute (docs/know/service.md#management-api), so a
service that asks for a wait of more than a minute is reported instead of waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import tenacity

from pipeline.delivery.retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class RequestAttempt:
    """What one try came to. Status 0: no answer, and `failure` says why.

    `reached`: the service may have done what was asked. `final`: no other try would end better.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    failure: str = ""
    reached: bool = True
    final: bool = False
    retry_after: float = 0.0


class RequestResult(NamedTuple):
    """The last try. `doubtful`: an earlier one may have done what was asked."""

    last: RequestAttempt
    doubtful: bool


def request_with_retries(ask: Callable[[], RequestAttempt], retry: RetryPolicy, *, again: bool) -> RequestResult:
    """Send a request until its response is final or the tries of the policy are used up; once where not `again`.

    Of the policy only `tries` (None: none after the first), `first` and `most` count.
    """
    doubts: list[bool] = []

    def attempt() -> RequestAttempt:
        made = ask()
        doubts.append(made.reached and made.status not in (429, *range(200, 300)))
        return made

    def unsettled(made: RequestAttempt) -> bool:
        passing = made.status in (0, 408, 429) or made.status >= 500
        return again and passing and not made.final and made.retry_after <= retry.most

    jitter = tenacity.wait_random_exponential(multiplier=retry.first, max=retry.most)

    def wait(state: tenacity.RetryCallState) -> float:
        made: RequestAttempt = state.outcome.result()  # type: ignore[union-attr]
        return max(jitter(state), made.retry_after)

    last: RequestAttempt = tenacity.Retrying(
        retry=tenacity.retry_if_result(unsettled),
        wait=wait,
        stop=tenacity.stop_after_attempt((retry.tries or 0) + 1),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )(attempt)
    return RequestResult(last, any(doubts[:-1]))
