"""How fast to send: one adaptive limit for the whole run, which depends on responses and time alone.

Three limits apply, and the strictest decides:

* `limit`, requests in flight: doubled a round at first, then one more a round (additive increase), and 0.7 of it
  after a 429, a 5xx, a lost answer or a time limit (multiplicative decrease), or 0.9 after answers grew slow. A round
  is the time from a change of the limit until a request that left after it is answered: of the requests that were in
  flight together only the first one to fail counts.
* `rate`, requests a second, which exists only after a 429: 0.85 of what was admitted, then growing with the square of
  time, so that it stands at the service's own rate most of the time and asks for more every few seconds. Without it
  a service that answers within a millisecond would be asked hundreds of times what it admits, by one sender.
* the pause that the service asks for (Retry-After): no request leaves until it is over.

`--rate` is a fourth, of the operator's own: events a second, over all tries.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from pipeline.delivery.destination import Response, ResponseKind

START = 4
"""Requests in flight at first: enough to fill a fast service at once, too few to flood a slow one."""
CUT = 0.7
SLOW_CUT = 0.9
SLOW = 2.0
SLACK = 0.1
"""Answers grew slow: the mean of a round is this many times the usual one, and this many seconds above it."""
USUAL = 0.3
"""Weight of the newest round in the usual latency, which so becomes usual within a few rounds."""
RATE_CUT = 0.85
RATE_FORGOTTEN = 60.0
"""Seconds without a 429 after which the service's rate is forgotten."""
SLOWEST = 1 / 60
"""Requests a second that are tried at least."""
SEEN = 2.0
"""Seconds over which the admitted rate is measured."""
BURST = 0.1
"""Seconds of `--rate` that may be caught up with after a pause."""

TICK = 0.2
"""Seconds between two checks of whether the run is stopping, while no request may leave."""


class RateController:
    """The controller. `most` bounds requests in flight; `events_per_second` is the operator's own limit.

    Every `now` is seconds of one monotonic clock. Not thread-safe: `Throttle` is.
    """

    def __init__(self, most: int, events_per_second: float | None = None) -> None:
        self.most = most
        self.flying = 0
        self._limit = float(min(START, most))
        self._events_per_second = events_per_second
        self._doubling = True
        self._turn = -math.inf
        self._full = -math.inf
        self._held = -math.inf
        self._due = -math.inf
        self._slot = -math.inf
        self._base: float | None = None
        self._based = 0.0
        self._refused = -math.inf
        self._settled: deque[float] = deque()
        self._began: float | None = None
        self._usual: float | None = None
        self._round: list[float] = []

    @property
    def limit(self) -> int:
        """Requests that may be in flight together now."""
        return max(1, int(self._limit))

    def rate(self, now: float) -> float | None:
        """Requests a second that the service seems to admit; None while it never refused one."""
        if self._base is None:
            return None
        # In seconds, or in the time of two requests where that is longer: no faster than answers can teach.
        since = (now - self._based) / max(1.0, 2 / self._base)
        if since > RATE_FORGOTTEN:
            self._base = None
            return None
        return self._base * (RATE_CUT + 0.03 * since + 0.004 * since * since)

    def paused(self, now: float) -> float:
        """Seconds for which the service still asks for no requests."""
        return max(0.0, self._held - now)

    def wait(self, now: float) -> float:
        """Seconds until the next request may leave: 0 now, infinite when an answer has to come first."""
        if self.flying >= self.limit:
            return math.inf
        wait = max(self._held - now, self._due - now)
        if self.rate(now) is not None:
            wait = max(wait, self._slot - now)
        return max(0.0, wait)

    def leave(self, now: float, events: int) -> None:
        """A request with so many events leaves."""
        self.flying += 1
        if self.flying >= self.limit:
            self._full = now
        if self._began is None:
            self._began = now
        if self._events_per_second is not None:
            self._due = max(self._due, now - BURST) + events / self._events_per_second
        rate = self.rate(now)
        if rate is not None:
            self._slot = max(self._slot, now) + 1 / rate

    def answer(self, now: float, left: float, response: Response) -> None:
        """The request that left at `left` is answered, or was lost."""
        self.flying -= 1
        if response.retry_after:
            self._held = max(self._held, now + response.retry_after)
        match response.kind:
            case ResponseKind.SETTLED:
                self._take(now, left)
            case ResponseKind.RETRY | ResponseKind.UNREACHABLE:
                if response.status == 429:
                    self._admit_less(now, left)
                self._cut(now, left, CUT)
            case _:
                pass

    # -- settled ---------------------------------------------------------------------------------------

    def _take(self, now: float, left: float) -> None:
        self._settled.append(now)
        while self._settled[0] < now - SEEN:
            self._settled.popleft()
        self._round.append(now - left)
        if left <= self._turn:
            return
        # A limit that was not reached is no proof that there is room for more.
        if left <= self._full:
            self._limit = min(self._limit + (1 if self._doubling else 1 / self._limit), float(self.most))
        if len(self._round) >= self.limit:
            self._judge_latency(now, left)

    def _judge_latency(self, now: float, left: float) -> None:
        mean = sum(self._round) / len(self._round)
        self._round.clear()
        if self._usual is None:
            self._usual = mean
            return
        if mean > self._usual * SLOW and mean > self._usual + SLACK:
            self._cut(now, left, SLOW_CUT)
        self._usual += USUAL * (mean - self._usual)

    # -- too much --------------------------------------------------------------------------------------

    def _cut(self, now: float, left: float, share: float) -> None:
        if left <= self._turn:
            return
        self._turn = now
        self._doubling = False
        self._limit = max(1.0, self._limit * share)

    def _admit_less(self, now: float, left: float) -> None:
        if left <= self._refused:
            return
        self._refused = now
        rate = self.rate(now)
        self._base = max(rate if rate is not None else self._admitted(now), SLOWEST)
        self._based = now
        self._slot = now + 1 / (self._base * RATE_CUT)

    def _admitted(self, now: float) -> float:
        """Requests settled a second, lately."""
        began = self._began if self._began is not None else now
        recent = sum(1 for moment in self._settled if moment >= now - SEEN)
        return max(recent, 1) / max(min(SEEN, now - began), 0.01)


class Throttle:
    """The rate controller for threads: `enter` before each request, `leave` after its response.

    `target_known`: whether the target ever responded, or may have received a request. An outage of a target that was
    there once is waited for; an address that never responded is most often a wrong one.
    """

    def __init__(
        self,
        rate_controller: RateController,
        clock: Callable[[], float] = time.monotonic,
        *,
        target_known: bool = False,
    ) -> None:
        self.target_known = target_known
        self._controller = rate_controller
        self._clock = clock
        self._changed = threading.Condition()
        self._settled: float | None = None

    @property
    def limit(self) -> int:
        """Requests that may be in flight together now."""
        return self._controller.limit

    @property
    def flying(self) -> int:
        """Requests that are in flight now."""
        return self._controller.flying

    def paused(self) -> float:
        """Seconds for which the service still asks for no requests."""
        return self._controller.paused(self._clock())

    def now(self) -> float:
        return self._clock()

    def idle(self, since: float) -> float:
        """Seconds in which the service took nothing: since `since`, or since it took the last request, if later."""
        last = since if self._settled is None else max(since, self._settled)
        return self._clock() - last

    def enter(self, events: int, stop: threading.Event) -> float | None:
        """Wait until a request may leave; when it left, or None once the run is stopping."""
        with self._changed:
            while not stop.is_set():
                now = self._clock()
                wait = self._controller.wait(now)
                if wait <= 0:
                    self._controller.leave(now, events)
                    return now
                self._changed.wait(min(wait, TICK))
        return None

    def leave(self, left: float, response: Response | None) -> None:
        """The answer of the request that left at `left`; None where sending failed by a defect."""
        with self._changed:
            now = self._clock()
            self._controller.answer(now, left, response or Response(ResponseKind.UNSENT, 0))
            if response is not None and (response.status or response.taken):
                self.target_known = True
            if response is not None and response.kind is ResponseKind.SETTLED:
                self._settled = now
            self._changed.notify_all()
