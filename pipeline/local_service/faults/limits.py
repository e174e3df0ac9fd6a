"""Faults that let a certain amount through: a rate and a quota."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from .answers import Waiting, refusal
from .exchange import Call, Ending, Onward, Reply
from .fault import Fault, option, value, whole

_UNITS = {"s": 1, "m": 60}


def read_rate(text: str) -> float:
    """`20/s`, `0.5/s`, `300/m`: requests a second."""
    number, slash, unit = text.partition("/")
    try:
        found = float(number)
    except ValueError:
        found = 0.0
    if not slash or unit not in _UNITS or not 0 < found < 1e9:
        raise ValueError("a rate such as 20/s or 300/m")
    return found / _UNITS[unit]


@dataclass(kw_only=True)
class Rate(Waiting, example="rate:20/s"):
    """answers 429 to requests above a rate (one second's worth may come at once); with retry-after=SECONDS [and
    date] says when to come again"""

    per_second: float = value(read_rate)
    clock: Callable[[], float] = time.monotonic
    room: float | None = None
    seen: float = 0.0

    async def act(self, call: Call, onward: Onward) -> Ending:
        burst = max(1.0, self.per_second)
        now = self.clock()
        self.room = burst if self.room is None else min(burst, self.room + (now - self.seen) * self.per_second)
        self.seen = now
        if self.room >= 1:
            self.room -= 1
            return await onward()
        return await self.refuse(429, call, onward)


def read_form(text: str) -> int:
    """`200` or `402`."""
    if text not in ("200", "402"):
        raise ValueError("200 or 402")
    return int(text)


@dataclass(kw_only=True)
class Quota(Fault, example="quota:10000"):
    """takes so many events and drops the rest: answers 200 with quota_limited in the body, or 402 with form=402"""

    events: int = value(whole)
    form: int = option(read_form, 200)
    used: int = 0

    async def act(self, call: Call, onward: Onward) -> Ending:
        count = len(await call.events())
        if self.used >= self.events:
            return self._limited() if self.claim() else await onward()
        self.used += count  # before the wait, so that requests side by side share it
        ending = await onward()
        if not (isinstance(ending, Reply) and ending.accepted):
            self.used -= count
        return ending

    def _limited(self) -> Reply:
        """Both spellings of a quota that is used up (service-behaviour 1.5)."""
        if self.form == 402:
            return refusal(402)
        return Reply(200, b'{"status":"Ok","quota_limited":["events"]}', ((b"content-type", b"application/json"),))
