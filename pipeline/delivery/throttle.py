"""How fast to send: one adaptive limit for the whole run, which depends only on responses and time.

Three limits apply, and the strictest decides:

* `limit`, requests in flight: it doubles each round at first, then grows by one each round (additive increase). It
  shrinks to 0.7 of itself after a 429, a 5xx, a lost answer or a time limit (multiplicative decrease), and to 0.9 after
  answers became slow. A round lasts from a change of the limit until a request that was sent after it is answered, so
  only the first failure counts among requests that were in flight together.
* `rate`, requests a second, which exists only after a 429: 0.85 of what was admitted, then growing with the square of
  time, so that it is close to the service's own rate most of the time and exceeds it every few seconds. Without it,
  a service that answers within a millisecond would get hundreds of times the requests that it admits from one sender.
* the pause that the service asks for (Retry-After): no request is sent until it is over.

`--rate` is a fourth limit, set by the operator: events and bytes a second, over all tries. In `--quiet-hours` no
request leaves (`pipeline.delivery.pace`).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.pace import FREE, Allowed

START = 4
"""Requests in flight at first: enough to fill a fast service at once, too few to flood a slow one."""
CUT = 0.7
SLOW_CUT = 0.9
SLOW = 2.0
SLACK = 0.1
"""Answers became slow if the mean of a round is this many times, and this many seconds above, the average latency."""
SMOOTHING = 0.3
"""The weight of the newest round in the average latency: a lasting change becomes the average within a few rounds."""
RATE_CUT = 0.85
RATE_FORGOTTEN = 60.0
"""Seconds without a 429 after which the service's rate is forgotten."""
SLOWEST = 1 / 60
"""The smallest rate, in requests a second."""
RATE_WINDOW = 2.0
"""Seconds over which the admitted rate is measured."""
BURST = 0.1
"""After a pause, this many seconds' worth of `--rate` may be sent at once."""

TICK = 0.2
"""While no request may leave, the seconds between two checks of whether the run is stopping."""


class RateController:
    """The controller. `most` limits requests in flight; `allowed` returns the operator's own limits at this moment.

    Every `now` is in seconds of one monotonic clock. Not thread-safe: `Throttle` is.
    """

    def __init__(self, most: int, allowed: Callable[[], Allowed] = lambda: FREE) -> None:
        self.most = most
        self.in_flight = 0
        self._limit = float(min(START, most))
        self._allowed = allowed
        self._is_doubling = True
        self._limit_changed = -math.inf
        self._limit_reached = -math.inf
        self._paused_until = -math.inf
        self.quiet_at = -math.inf
        """When a request last had to wait for quiet hours."""
        self._operator_next = -math.inf
        self._service_next = -math.inf
        self._rate: float | None = None
        self._rate_changed = 0.0
        self._last_429 = -math.inf
        self._settled: deque[float] = deque()
        self._first_request: float | None = None
        self._average_latency: float | None = None
        self._round_latencies: list[float] = []

    @property
    def limit(self) -> int:
        """How many requests may be in flight together now."""
        return max(1, int(self._limit))

    def rate(self, now: float) -> float | None:
        """Requests a second that the service probably admits; None as long as it never refused one for its rate."""
        if self._rate is None:
            return None
        # In seconds, or in the time of two requests if that is longer: answers must come before the rate grows.
        since = (now - self._rate_changed) / max(1.0, 2 / self._rate)
        if since > RATE_FORGOTTEN:
            self._rate = None
            return None
        return self._rate * (RATE_CUT + 0.03 * since + 0.004 * since * since)

    def paused(self, now: float) -> float:
        """Seconds for which the service still asks for no requests."""
        return max(0.0, self._paused_until - now)

    def quiet(self) -> float:
        """Seconds until the operator's quiet hours end; 0 outside of them."""
        return self._allowed().quiet

    def wait(self, now: float) -> float:
        """Seconds until the next request may be sent: 0 for now, infinite if an answer must come first."""
        if self.in_flight >= self.limit:
            return math.inf
        quiet = self.quiet()
        if quiet:
            self.quiet_at = now
        wait = max(self._paused_until - now, self._operator_next - now, quiet)
        if self.rate(now) is not None:
            wait = max(wait, self._service_next - now)
        return max(0.0, wait)

    def leave(self, now: float, events: int, size: int = 0) -> None:
        """Record that a request with this many events and bytes is sent."""
        self.in_flight += 1
        if self.in_flight >= self.limit:
            self._limit_reached = now
        if self._first_request is None:
            self._first_request = now
        allowed = self._allowed()
        takes = max(events / (allowed.events or math.inf), size / (allowed.bytes or math.inf))
        self._operator_next = max(self._operator_next, now - BURST) + takes
        rate = self.rate(now)
        if rate is not None:
            self._service_next = max(self._service_next, now) + 1 / rate

    def answer(self, now: float, sent: float, response: Response) -> None:
        """Record that the request sent at `sent` was answered or lost."""
        self.in_flight -= 1
        if response.retry_after:
            self._paused_until = max(self._paused_until, now + response.retry_after)
        match response.kind:
            case ResponseKind.SETTLED:
                self._settle(now, sent)
            case ResponseKind.PARTLY if not response.asks_again:
                self._settle(now, sent)
            case ResponseKind.RETRY | ResponseKind.UNREACHABLE | ResponseKind.PARTLY:
                if response.status == 429:
                    self._lower_rate(now, sent)
                self._lower_limit(now, sent, CUT)
            case _:
                pass

    # -- settled ---------------------------------------------------------------------------------------

    def _settle(self, now: float, sent: float) -> None:
        self._settled.append(now)
        while self._settled[0] < now - RATE_WINDOW:
            self._settled.popleft()
        self._round_latencies.append(now - sent)
        if sent <= self._limit_changed:
            return
        # If the limit is not reached, nothing shows that the service admits more.
        if sent <= self._limit_reached:
            self._limit = min(self._limit + (1 if self._is_doubling else 1 / self._limit), float(self.most))
        if len(self._round_latencies) >= self.limit:
            self._judge_latency(now, sent)

    def _judge_latency(self, now: float, sent: float) -> None:
        mean = sum(self._round_latencies) / len(self._round_latencies)
        self._round_latencies.clear()
        if self._average_latency is None:
            self._average_latency = mean
            return
        if mean > self._average_latency * SLOW and mean > self._average_latency + SLACK:
            self._lower_limit(now, sent, SLOW_CUT)
        self._average_latency += SMOOTHING * (mean - self._average_latency)

    # -- refused, failed or slow -------------------------------------------------------------------------

    def _lower_limit(self, now: float, sent: float, share: float) -> None:
        if sent <= self._limit_changed:
            return
        self._limit_changed = now
        self._is_doubling = False
        self._limit = max(1.0, self._limit * share)

    def _lower_rate(self, now: float, sent: float) -> None:
        if sent <= self._last_429:
            return
        self._last_429 = now
        rate = self.rate(now)
        self._rate = max(rate if rate is not None else self._admitted(now), SLOWEST)
        self._rate_changed = now
        self._service_next = now + 1 / (self._rate * RATE_CUT)

    def _admitted(self, now: float) -> float:
        """Requests a second that settled within RATE_WINDOW."""
        first = self._first_request if self._first_request is not None else now
        recent = sum(1 for moment in self._settled if moment >= now - RATE_WINDOW)
        return max(recent, 1) / max(min(RATE_WINDOW, now - first), 0.01)


class Throttle:
    """The rate controller for threads: `enter` before each request, `leave` after its response.

    `target_known`: whether the target ever responded, or may have received a request. The run waits out an outage of a
    target that responded before; an address that never responded is most often a wrong one. `now` is the clock, in
    seconds.
    """

    def __init__(
        self, controller: RateController, clock: Callable[[], float] = time.monotonic, *, target_known: bool = False
    ) -> None:
        self.target_known = target_known
        self.now = clock
        self.controller = controller
        self._changed = threading.Condition()
        self._last_settled = -math.inf

    @property
    def has_taken(self) -> bool:
        """Whether the target settled a request of this run, at least partly."""
        return self._last_settled > -math.inf

    def idle(self, since: float) -> float:
        """Seconds in which no request settled: since `since`, or since the last one settled or quiet hours ended,
        whichever is later."""
        return self.now() - max(since, self._last_settled, self.controller.quiet_at)

    def enter(self, events: int, size: int, stop: threading.Event) -> float | None:
        """Wait until a request with this many events and bytes may be sent. Returns that moment, or None once the run
        is stopping."""
        with self._changed:
            while not stop.is_set():
                now = self.now()
                wait = self.controller.wait(now)
                if wait <= 0:
                    self.controller.leave(now, events, size)
                    return now
                self._changed.wait(min(wait, TICK))
        return None

    def leave(self, sent: float, response: Response | None) -> None:
        """Record the response of the request sent at `sent`; None if sending failed because of a bug."""
        with self._changed:
            now = self.now()
            self.controller.answer(now, sent, response or Response(ResponseKind.UNSENT, 0))
            if response is not None and (response.status or response.taken):
                self.target_known = True
            if response is not None and response.kind in (ResponseKind.SETTLED, ResponseKind.PARTLY):
                self._last_settled = now
            self._changed.notify_all()
