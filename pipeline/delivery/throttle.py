"""The one door to the network: sender threads pass it one request at a time, as the rate controller allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.rate_controller import RateController

TICK = 0.2
"""Seconds between two looks at whether the run is stopping, while nobody may pass."""


class Throttle:
    """Thread-safe. `enter` before each request, `leave` after each answer.

    `answered`: whether somebody ever answered there, or may have got a request. Who was there once is waited for; an
    address where nobody ever was is most often a wrong one.
    """

    def __init__(
        self, rate_controller: RateController, clock: Callable[[], float] = time.monotonic, *, answered: bool = False
    ) -> None:
        self.answered = answered
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

    def held(self) -> float:
        """Seconds for which the service asked to be left alone."""
        return self._controller.held(self._clock())

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
                self.answered = True
            if response is not None and response.answer is ResponseKind.SETTLED:
                self._settled = now
            self._changed.notify_all()
