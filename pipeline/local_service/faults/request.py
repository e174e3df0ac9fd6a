"""One request on its way through the faults, and what it may be answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope

from pipeline.local_service.capture.decoding import PER_EVENT, RequestRefused, decode_body

_DECODED_LIMIT = 100 * 1024 * 1024
BILLING_LIMIT = "billing limit reached"
_CLOSING_CHECK = 0.05
"""Seconds between checks of whether the service is closing."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP answer. `over` is how many seconds sending its body takes."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"text/plain; charset=utf-8"),)
    over: float = 0.0

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300


class ConnectionCut(msgspec.Struct, frozen=True):
    """No HTTP answer: the bytes `raw` are sent, then the connection ends; with `reset`, by an RST packet."""

    raw: bytes = b""
    reset: bool = False


Ending = HttpReply | ConnectionCut
Forward = Callable[[], Awaitable[Ending]]


class ClientGone(Exception):
    """The client has disconnected."""


class EventKey(msgspec.Struct, gc=False):
    event: str = ""
    uuid: str = ""


class _Batch(msgspec.Struct):
    batch: list[EventKey]


_as_batch = msgspec.json.Decoder(_Batch).decode


class CaptureRequest:
    """One capture request. A fault may read its body; the service can still read it again."""

    def __init__(self, scope: Scope, receive: Receive, closing: Callable[[], bool]) -> None:
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.host, self.port = scope["server"]
        self._scope = scope
        self._receive = receive
        self._closing = closing
        self._read = bytearray()
        self._whole = False
        self._events: list[EventKey] | None = None

    async def body(self) -> bytes:
        """The whole body as it was sent. Raises ClientGone."""
        while not self._whole:
            await self._more()
        return bytes(self._read)

    async def read_half(self) -> None:
        """Wait until half of the length that the client declared has arrived. Raises ClientGone."""
        declared = self.headers.get("content-length", "")
        enough = int(declared) // 2 if declared.isdigit() else 1
        while not self._whole and len(self._read) < enough:
            await self._more()

    async def read_slowly(self, seconds: float) -> None:
        """Read the body in pieces, with pauses that add up to `seconds`. Raises ClientGone."""
        declared = self.headers.get("content-length", "")
        length = int(declared) if declared.isdigit() else 0
        waited = 0.0
        while not self._whole:
            due = seconds * min(1.0, len(self._read) / length) if length else seconds
            await self.pause(due - waited)
            waited = max(waited, due)
            await self._more()
        await self.pause(seconds - waited)

    async def _more(self) -> None:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._read += message.get("body", b"")
        self._whole = not message.get("more_body", False)

    async def events(self) -> list[EventKey]:
        """The events of a batch; none if the body is not a batch, which the service then answers. Raises ClientGone."""
        if self._events is None:
            body = await self.body()
            try:
                self._events = _as_batch(decode_body(body, {}, self.headers, _DECODED_LIMIT)).batch
            except (RequestRefused, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._events = []
        return self._events

    @property
    def per_event(self) -> bool:
        return self.path.rstrip("/") == PER_EVENT

    async def remove(self, uuids: Collection[str]) -> None:
        """Continue as if these events were not in the batch."""
        text = decode_body(await self.body(), {}, self.headers, _DECODED_LIMIT)
        batch = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        events = msgspec.json.decode(batch["batch"], type=list[msgspec.Raw])
        left = [event for event in events if msgspec.json.decode(event, type=EventKey).uuid not in uuids]
        self._events = [event for event in await self.events() if event.uuid not in uuids]
        self._read = bytearray(msgspec.json.encode(batch | {"batch": left}))
        self.headers.pop("content-encoding", None)
        kept = [one for one in self._scope["headers"] if one[0] not in (b"content-encoding", b"content-length")]
        self._scope = {**self._scope, "headers": [*kept, (b"content-length", str(len(self._read)).encode())]}

    async def pause(self, seconds: float) -> None:
        """Wait this many seconds, or until the service closes."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (remaining := until - loop.time()) > 0 and not self._closing():
            await asyncio.sleep(min(remaining, _CLOSING_CHECK))

    async def forward_to(self, app: ASGIApp) -> HttpReply:
        replayed = False
        status, headers, body = 500, (), bytearray()

        async def receive() -> Message:
            nonlocal replayed
            if not replayed:
                replayed = True
                if self._read or self._whole:
                    return {"type": "http.request", "body": bytes(self._read), "more_body": not self._whole}
            return await self._receive()

        async def send(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], tuple(message.get("headers", ()))
            else:
                body.extend(message.get("body", b""))

        await app(self._scope, receive, send)
        return HttpReply(status, bytes(body), headers)
