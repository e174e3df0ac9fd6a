"""Faults that say no: before or after taking the events, for a while, or because of what is in them.

Bodies are plain text, as the real service's errors are (service-behaviour 1.5).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

from .exchange import Call, Ending, Named, Onward, Reply
from .fault import Fault, flag, option, value

_TEXTS = {429: "rate limited", 503: "transient error, please retry", 402: "billing limit reached"}


def read_status(text: str) -> int:
    """A status that says no."""
    if not text.isascii() or not text.isdigit() or not 400 <= int(text) <= 599:
        raise ValueError("a status from 400 to 599")
    return int(text)


def read_seconds(text: str) -> float:
    """`2`, `2s`, `1.5s`, `3m`: 0 or more seconds."""
    number, unit = (text[:-1], 60 if text.endswith("m") else 1) if text[-1:] in ("s", "m") else (text, 1)
    try:
        found = float(number) * unit
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e9:
        raise ValueError("a length of time such as 2s, 0.5s or 3m")
    return found


class Span(NamedTuple):
    """A length in time or in requests; the other one is None."""

    seconds: float | None
    requests: int | None


def read_span(text: str) -> Span:
    """`30s`, `2m`, or `20` requests."""
    if text.isascii() and text.isdigit():
        return Span(None, int(text))
    try:
        return Span(read_seconds(text), None)
    except ValueError:
        raise ValueError("a time such as 30s or 2m, or a number of requests") from None


def refusal(status: int, wait: float | None = None, *, date: bool = False) -> Reply:
    """A refusal as the service words it, with a Retry-After where one is asked for.

    The header holds whole seconds, or a date that lies no earlier (RFC 9110, 10.2.3).
    """
    text = _TEXTS.get(status) or (HTTPStatus(status).phrase.lower() if status in set(HTTPStatus) else "refused")
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if wait is not None:
        whole = int(-(-wait // 1))
        said = formatdate(int(time.time()) + 1 + whole, usegmt=True) if date else str(whole)
        headers.append((b"retry-after", said.encode()))
    return Reply(status, text.encode(), tuple(headers))


@dataclass(kw_only=True)
class Waiting(Fault):
    """What refuses for a while and may say for how long."""

    retry_after: float | None = option(read_seconds, None)
    """Seconds that the answer asks the client to wait; none by default, as at the real service."""
    date: bool = flag()
    """Retry-After as a date."""

    async def refuse(self, status: int, call: Call, onward: Onward) -> Ending:
        """The refusal, once the whole request has come."""
        if not self.claim():
            return await onward()
        await call.body()
        return refusal(status, self.retry_after, date=self.date)


@dataclass(kw_only=True)
class Before(Waiting, example="before:500"):
    """answers with a status of 400 to 599 and stores nothing; with retry-after=SECONDS [and date] says when to come
    again"""

    status: int = value(read_status)

    async def act(self, call: Call, onward: Onward) -> Ending:
        return await self.refuse(self.status, call, onward)


@dataclass(kw_only=True)
class After(Fault, example="after:500"):
    """stores the events, then answers with a status of 400 to 599 all the same"""

    status: int = value(read_status)

    async def act(self, call: Call, onward: Onward) -> Ending:
        ending, taken = await self.taken(call, onward)
        return refusal(self.status) if taken else ending


@dataclass(kw_only=True)
class Maintenance(Waiting, example="maintenance:30s"):
    """answers 503 for a time from the first request on, or to the first N requests (maintenance:20); knows
    retry-after=SECONDS and date too"""

    lasts: Span = value(read_span)  # noqa: RUF009 - no default
    clock: Callable[[], float] = time.monotonic
    began: float | None = None

    async def act(self, call: Call, onward: Onward) -> Ending:
        if self.began is None:
            self.began = self.clock()
        if self.lasts.requests is not None:
            over = self.acted >= self.lasts.requests
        else:
            over = self.clock() - self.began >= (self.lasts.seconds or 0)
        return await (onward() if over else self.refuse(503, call, onward))


def read_one_in(text: str) -> int:
    """`1/5000`."""
    one, _, of = text.partition("/")
    if one != "1" or not of.isascii() or not of.isdigit() or not int(of):
        raise ValueError("a rate such as 1/5000")
    return int(of)


@dataclass(kw_only=True)
class Poison(Fault, example="poison:1/5000"):
    """answers 400 to every batch with a poison event in it: one uuid in so many by its hash, or with event=NAME all
    of that name"""

    one_in: int | None = value(read_one_in, None)
    event: str | None = option(str, None)

    def __post_init__(self) -> None:
        if (self.one_in is None) == (self.event is None):
            raise ValueError("either poison:1/5000 or poison,event=NAME")

    async def act(self, call: Call, onward: Onward) -> Ending:
        if not any(map(self.is_poison, await call.events())) or not self.claim():
            return await onward()
        return Reply(400, b"invalid event could not be processed")

    def is_poison(self, event: Named) -> bool:
        """Whether the service will not have this event, in any batch."""
        if self.one_in is None:
            return event.event == self.event
        return int(self.luck(event.uuid) * self.one_in) == 0


def read_size(text: str) -> int:
    """Bytes: `500000`, `64KiB`, `1MiB`."""
    number, unit = text, 1
    for suffix, factor in (("KiB", 1 << 10), ("MiB", 1 << 20)):
        if text.endswith(suffix):
            number, unit = text[: -len(suffix)], factor
    if not number.isascii() or not number.isdigit() or not int(number):
        raise ValueError("a number of bytes such as 500000, 64KiB or 1MiB")
    return int(number) * unit


@dataclass(kw_only=True)
class Large(Fault, example="large:64KiB"):
    """answers 413 to every body that is larger as it travels, and stores nothing"""

    limit: int = value(read_size)

    async def act(self, call: Call, onward: Onward) -> Ending:
        if len(await call.body()) <= self.limit or not self.claim():
            return await onward()
        return Reply(413, f"maximum event size exceeded: request body over {self.limit} bytes".encode())
