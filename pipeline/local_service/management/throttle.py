"""How often the keys of a project may call: by the minute and by the hour (service-behaviour 5.1)."""

from __future__ import annotations

from collections import defaultdict, deque

from .errors import ApiError

RATES = {False: ((60, 480), (3600, 4800)), True: ((60, 240), (3600, 1200))}
"""(seconds, calls) of plain operations, and of those that read analytics, recordings among them."""


class Throttle:
    """The calls of the last hour, by project."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, bool], deque[int]] = defaultdict(deque)

    def check(self, project: int, analytics: bool, now: int) -> None:
        """Count one call at `now`, in microseconds. Raises ApiError (429)."""
        calls = self._calls[project, analytics]
        while calls and calls[0] <= now - 3600 * 1_000_000:
            calls.popleft()
        for seconds, most in RATES[analytics]:
            if len(calls) >= most and calls[-most] > now - seconds * 1_000_000:
                wait = -(-(calls[-most] + seconds * 1_000_000 - now) // 1_000_000)
                detail = f"Request was throttled. Expected available in {wait} second{'' if wait == 1 else 's'}."
                raise ApiError(429, "throttled_error", "throttled", detail, headers={"Retry-After": str(wait)})
        calls.append(now)
