"""Ask again, where asking again is safe: a few tries, back-off with jitter, Retry-After as a floor.

Shorter than the retries of delivery: a person waits for the answer, and the service counts calls by the minute
(docs/know/service.md#management-api), so a wait longer than one minute is told instead of waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import tenacity


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`tries` after the first; `first` and `most` bound the back-off in seconds. `first` 0 does not wait, for tests."""

    tries: int = 4
    first: float = 0.5
    most: float = 60.0


@dataclass(frozen=True, slots=True)
class Attempt:
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

    last: Attempt
    doubtful: bool


def request_with_retries(ask: Callable[[], Attempt], retry: RetryPolicy, *, again: bool) -> RequestResult:
    """Ask until there is an answer that settles it, or the retries are used up. Not `again`: once."""
    doubts: list[bool] = []

    def attempt() -> Attempt:
        made = ask()
        doubts.append(made.reached and made.status not in (429, *range(200, 300)))
        return made

    def unsettled(made: Attempt) -> bool:
        passing = made.status in (0, 408, 429) or made.status >= 500
        return again and passing and not made.final and made.retry_after <= retry.most

    jitter = tenacity.wait_random_exponential(multiplier=retry.first, max=retry.most)

    def wait(state: tenacity.RetryCallState) -> float:
        made: Attempt = state.outcome.result()  # type: ignore[union-attr]
        return max(jitter(state), made.retry_after)

    last: Attempt = tenacity.Retrying(
        retry=tenacity.retry_if_result(unsettled),
        wait=wait,
        stop=tenacity.stop_after_attempt(retry.tries + 1),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )(attempt)
    return RequestResult(last, any(doubts[:-1]))
