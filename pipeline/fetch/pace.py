"""Keeps requests within a tool's limits: at most a given number per second and per hour, for each kind of request."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from pipeline.fetch.tool import RequestLimit


class Clock(msgspec.Struct, frozen=True):
    """Time and waiting; tests provide their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Pace:
    """Waits before a request if the limits of its kind require it. Requests of other programs are not known here; a 429
    shows those."""

    def __init__(self, limits: Mapping[str, tuple[RequestLimit, ...]], clock: Clock) -> None:
        self.clock = clock
        self._limits = limits
        self._began = {
            kind: deque[float](maxlen=max(limit.requests for limit in some)) for kind, some in limits.items()
        }

    def wait(self, kind: str) -> None:
        """Wait until a request of this kind may begin, and count it."""
        began = self._began[kind]
        now = self.clock.now()
        due = max(
            (
                began[-limit.requests] + limit.seconds
                for limit in self._limits[kind]
                if len(began) >= limit.requests
            ),
            default=now,
        )  # fmt: skip
        if due > now:
            self.clock.sleep(due - now)
        began.append(max(due, now))
