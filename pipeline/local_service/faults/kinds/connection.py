"""Faults of the connection: cut, reset, slow, truncated, or an answer that is not the service's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus

from pipeline.local_service.faults.base import Fault, flag, reader, value
from pipeline.local_service.faults.kinds.refusals import read_seconds
from pipeline.local_service.faults.request import CaptureRequest, ConnectionCut, Ending, Forward, HttpReply

_PAGE = b"<!doctype html><title>Sign in</title><p>Please sign in to this network.</p>"
_NOISE = b"\x16\x03\x01\x00\xa5garbage, not HTTP\r\n\r\n"


@dataclass(kw_only=True)
class Lost(Fault, example="lost"):
    """stores the events, then closes the connection without an answer"""

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        ending, accepted = await self.forward_and_claim(request, forward)
        return ConnectionCut() if accepted else ending


@dataclass(kw_only=True)
class Reset(Fault, example="reset"):
    """resets the connection (RST) after half of the body has arrived, and stores nothing"""

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        if not self.claim():
            return await forward()
        await request.read_half()
        return ConnectionCut(reset=True)


@dataclass(kw_only=True)
class Truncated(Fault, example="truncated"):
    """stores the events, declares a longer answer than it sends, and closes the connection"""

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        ending, accepted = await self.forward_and_claim(request, forward)
        if not accepted or not isinstance(ending, HttpReply):
            return ending
        line = f"HTTP/1.1 {ending.status} {HTTPStatus(ending.status).phrase}\r\n"
        head = f"{line}content-type: application/json\r\ncontent-length: {len(ending.body) + 10}\r\n\r\n"
        return ConnectionCut(head.encode() + ending.body[: len(ending.body) // 2])


read_kind = reader("html|noise", lambda match: match[0], "html (a page, with 200) or noise (not HTTP at all)")


@dataclass(kw_only=True)
class Garbage(Fault, example="garbage:html"):
    """answers 200 with a web page, or with garbage:noise bytes that are not HTTP; stores nothing, or the events with
    stored"""

    kind: str = value(read_kind)
    stored: bool = flag()

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        if self.stored:
            ending, accepted = await self.forward_and_claim(request, forward)
            if not accepted:
                return ending
        elif not self.claim():
            return await forward()
        else:
            await request.body()
        if self.kind == "noise":
            return ConnectionCut(_NOISE)
        return HttpReply(200, _PAGE, ((b"content-type", b"text/html; charset=utf-8"),))


@dataclass(kw_only=True)
class SlowAnswer(Fault, example="slow-answer:2s"):
    """answers after this time"""

    seconds: float = value(read_seconds)

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        claimed = self.claim()
        ending = await forward()
        if claimed:
            await request.pause(self.seconds)
        return ending


@dataclass(kw_only=True)
class SlowBody(Fault, example="slow-body:2s"):
    """sends the head of its answer at once and the body byte by byte, over this time"""

    seconds: float = value(read_seconds)

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        claimed = self.claim()
        ending = await forward()
        return replace(ending, over=self.seconds) if claimed and isinstance(ending, HttpReply) else ending


@dataclass(kw_only=True)
class SlowRead(Fault, example="slow-read:2s"):
    """takes this time to read a request"""

    seconds: float = value(read_seconds)

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        if self.claim():
            await request.read_slowly(self.seconds)
        return await forward()
