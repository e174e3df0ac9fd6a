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
    """The result of one try. Status 0: no response, and `failure` says why.

    `reached`: the service may have done the operation. `final`: another try would not help.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    failure: str = ""
    reached: bool = True
    final: bool = False
    retry_after: float = 0.0


class RequestResult(NamedTuple):
    """The last try. `doubtful`: an earlier one may have done the operation."""

    last: RequestAttempt
    doubtful: bool


def request_with_retries(request: Callable[[], RequestAttempt], retry: RetryPolicy, *, again: bool) -> RequestResult:
    """Send a request until its response is final or the tries of the policy are used up; once where not `again`.

    Of the policy only `tries` (None: none after the first), `first` and `most` count.
    """
    doubts: list[bool] = []

    def attempt() -> RequestAttempt:
        tried = request()
        doubts.append(tried.reached and tried.status not in (429, *range(200, 300)))
        return tried

    def unsettled(tried: RequestAttempt) -> bool:
        passing = tried.status in (0, 408, 429) or tried.status >= 500
        return again and passing and not tried.final and tried.retry_after <= retry.most

    jitter = tenacity.wait_random_exponential(multiplier=retry.first, max=retry.most)

    def wait(state: tenacity.RetryCallState) -> float:
        tried: RequestAttempt = state.outcome.result()  # type: ignore[union-attr]
        return max(jitter(state), tried.retry_after)

    last: RequestAttempt = tenacity.Retrying(
        retry=tenacity.retry_if_result(unsettled),
        wait=wait,
        stop=tenacity.stop_after_attempt((retry.tries or 0) + 1),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )(attempt)
    return RequestResult(last, any(doubts[:-1]))
