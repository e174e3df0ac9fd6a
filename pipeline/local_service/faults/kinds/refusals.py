"""Faults that refuse requests: by status, for a time, by rate, quota or size, because of an event, or by a redirect.

Bodies are plain text, as the real service's errors are (docs/know/service.md#answers).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from pipeline.local_service.faults.base import NUMBER, Fault, flag, option, read_count, reader, value
from pipeline.local_service.faults.request import (
    BILLING_LIMIT,
    CaptureRequest,
    Ending,
    EventKey,
    Forward,
    HttpReply,
)

_TEXTS = {429: "rate limited", 503: "transient error, please retry", 402: BILLING_LIMIT}


_UNITS = {None: 1, "s": 1, "m": 60, "KiB": 1 << 10, "MiB": 1 << 20}


def _seconds(match: re.Match[str]) -> float | None:
    seconds = float(match[1]) * _UNITS[match[2]]
    return seconds if seconds < 1e9 else None


read_status = reader(r"[45]\d\d", lambda match: int(match[0]), "a status from 400 to 599")
read_seconds = reader(NUMBER + "([sm])?", _seconds, "a length of time such as 2s, 0.5s or 3m")


class Span(NamedTuple):
    """A length in time or in requests; the other field is None."""

    seconds: float | None
    requests: int | None


def read_span(text: str) -> Span:
    """`30s`, `2m`, or `20` requests."""
    try:
        return Span(None, int(text)) if re.fullmatch(r"\d+", text, re.ASCII) else Span(read_seconds(text), None)
    except ValueError:
        raise ValueError("a time such as 30s or 2m, or a number of requests") from None


def refusal(status: int, wait: float | None = None, *, date: bool = False) -> HttpReply:
    """A refusal in the words of the service, with a Retry-After of `wait` seconds unless that is None.

    The header is whole seconds, or a date that is no earlier (RFC 9110, 10.2.3).
    """
    text = _TEXTS.get(status) or (HTTPStatus(status).phrase.lower() if status in set(HTTPStatus) else "refused")
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if wait is not None:
        seconds = int(-(-wait // 1))
        header = formatdate(int(time.time()) + 1 + seconds, usegmt=True) if date else str(seconds)
        headers.append((b"retry-after", header.encode()))
    return HttpReply(status, text.encode(), tuple(headers))


@dataclass(kw_only=True)
class RetryAfterFault(Fault):
    """A fault that refuses requests for a time and may announce how long."""

    retry_after: float | None = option(read_seconds, None)
    """Seconds of Retry-After; none by default, as at the real service."""
    date: bool = flag()
    """Retry-After as a date."""

    async def refuse(self, status: int, request: CaptureRequest, forward: Forward) -> Ending:
        """The refusal, once the whole request has arrived."""
        if not self.claim():
            return await forward()
        await request.body()
        return refusal(status, self.retry_after, date=self.date)


@dataclass(kw_only=True)
class Before(RetryAfterFault, example="before:500"):
    """answers with a status of 400 to 599 and stores nothing; with retry-after=SECONDS [and date] it
    sends Retry-After"""

    status: int = value(read_status)

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        return await self.refuse(self.status, request, forward)


@dataclass(kw_only=True)
class After(Fault, example="after:500"):
    """stores the events, then answers with a status of 400 to 599"""

    status: int = value(read_status)

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        ending, taken = await self.forward_and_claim(request, forward)
        return refusal(self.status) if taken else ending


@dataclass(kw_only=True)
class Maintenance(RetryAfterFault, example="maintenance:30s"):
    """answers 503 for this time from the first request onwards, or to the first N requests (maintenance:20); also takes
    retry-after=SECONDS and date"""

    lasts: Span = value(read_span)  # noqa: RUF009 - no default
    clock: Callable[[], float] = time.monotonic
    began: float | None = None

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        if self.began is None:
            self.began = self.clock()
        if self.lasts.requests is not None:
            over = self.acted >= self.lasts.requests
        else:
            over = self.clock() - self.began >= (self.lasts.seconds or 0)
        return await (forward() if over else self.refuse(503, request, forward))


read_one_in = reader(r"1/(\d+)", lambda match: int(match[1]) or None, "a rate such as 1/5000")


@dataclass(kw_only=True)
class Poison(Fault, example="poison:1/5000"):
    """answers 400 to every batch with a poison event in it: one uuid in N, chosen by hash, or with event=NAME every
    event of that name"""

    one_in: int | None = value(read_one_in, None)
    event: str | None = option(str, None)

    def __post_init__(self) -> None:
        if (self.one_in is None) == (self.event is None):
            raise ValueError("either poison:1/5000 or poison,event=NAME")

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        if not any(map(self.is_poison, await request.events())) or not self.claim():
            return await forward()
        return HttpReply(400, b"invalid event could not be processed")

    def is_poison(self, event: EventKey) -> bool:
        if self.one_in is None:
            return event.event == self.event
        return int(self.draw(event.uuid) * self.one_in) == 0


read_size = reader(
    r"(\d+)(KiB|MiB)?",
    lambda match: int(match[1]) * _UNITS[match[2]] or None,
    "a number of bytes such as 500000, 64KiB or 1MiB",
)


@dataclass(kw_only=True)
class Large(Fault, example="large:64KiB"):
    """answers 413 to every body larger than this as sent, and stores nothing"""

    limit: int = value(read_size)

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        if len(await request.body()) <= self.limit or not self.claim():
            return await forward()
        return HttpReply(413, f"maximum event size exceeded: request body over {self.limit} bytes".encode())


def _rate(match: re.Match[str]) -> float | None:
    number = float(match[1])
    return number / _UNITS[match[2]] if 0 < number < 1e9 else None


read_rate = reader(NUMBER + "/([sm])", _rate, "a rate such as 20/s or 300/m")


@dataclass(kw_only=True)
class Rate(RetryAfterFault, example="rate:20/s"):
    """answers 429 to requests above a rate (one second's worth may arrive at once); with retry-after=SECONDS [and
    date] it sends Retry-After"""

    per_second: float = value(read_rate)
    clock: Callable[[], float] = time.monotonic
    tokens: float | None = None
    last: float = 0.0

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        burst = max(1.0, self.per_second)
        now = self.clock()
        self.tokens = burst if self.tokens is None else min(burst, self.tokens + (now - self.last) * self.per_second)
        self.last = now
        if self.tokens >= 1:
            self.tokens -= 1
            return await forward()
        return await self.refuse(429, request, forward)


read_form = reader("200|402", lambda match: int(match[0]), "200 or 402")


@dataclass(kw_only=True)
class Quota(Fault, example="quota:10000"):
    """accepts this many events and drops the rest: answers 200 with quota_limited in the body (429 at the per-event
    endpoint), or 402 with form=402"""

    events: int = value(read_count)
    form: int = option(read_form, 200)
    used: int = 0

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        count = len(await request.events())
        if self.used >= self.events:
            return self._limited(request) if self.claim() else await forward()
        self.used += count  # before the wait, so that concurrent requests share the quota
        ending = await forward()
        if not (isinstance(ending, HttpReply) and ending.accepted):
            self.used -= count
        return ending

    def _limited(self, request: CaptureRequest) -> HttpReply:
        """The answers when the quota is used up (docs/know/service.md#answers, #per-event-endpoint)."""
        if self.form == 402:
            return refusal(402)
        if request.per_event:
            return replace(refusal(429, 1.0), body=BILLING_LIMIT.encode())
        return HttpReply(200, b'{"status":"Ok","quota_limited":["events"]}', ((b"content-type", b"application/json"),))


read_redirect_status = reader("30[12378]", lambda match: int(match[0]), "one of 301, 302, 303, 307, 308")
read_host = reader(
    r"[A-Za-z0-9.-]+(:\d{1,5})?", lambda match: match[0], "a host name such as localhost or localhost:8101"
)


@dataclass(kw_only=True)
class Redirect(Fault, example="redirect:307"):
    """answers 301, 302, 303, 307 or 308; after hops=N of them (1 by default) the request is accepted, with loop never;
    host=NAME[:PORT] redirects to another host"""

    status: int = value(read_redirect_status)
    hops: int = option(read_count, 1)
    loop: bool = flag()
    host: str | None = option(read_host, None)

    async def handle(self, request: CaptureRequest, forward: Forward) -> Ending:
        """Continue a chain of redirects that has begun, whatever the options say about new ones."""
        marks = dict(parse_qsl(request.query.decode("latin-1")))
        mark = marks.get(self._mark, "")
        if mark.isdigit():
            return await (self._redirect(request, int(mark)) if self._continues(int(mark)) else forward())
        return await super().handle(request, forward)

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        return await (self._redirect(request, 0) if self.claim() else forward())

    def _continues(self, hops: int) -> bool:
        return self.loop or hops < self.hops

    async def _redirect(self, request: CaptureRequest, hops: int) -> HttpReply:
        await request.body()
        marks = dict(parse_qsl(request.query.decode("latin-1"))) | {self._mark: str(hops + 1)}
        location = f"{request.path}?{urlencode(marks)}"
        if self.host is not None:
            location = f"http://{self.host}{'' if ':' in self.host else f':{request.port}'}{location}"
        return HttpReply(self.status, b"", ((b"location", location.encode()),))

    @property
    def _mark(self) -> str:
        return f"hop{self.position}"
