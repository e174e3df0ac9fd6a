"""The faults in front of the service: an application that wraps the service's own, and a connection that can be cut.

Effects on the connection are real: a reset is an RST packet, a lost answer is a closed socket.
"""

from __future__ import annotations

import asyncio
import functools
import json
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from pipeline.local_service.faults.base import Fault, FaultCounts
from pipeline.local_service.faults.request import (
    BILLING_LIMIT,
    CaptureRequest,
    ClientGone,
    ConnectionCut,
    Ending,
    Forward,
    HttpReply,
)

ADDRESS = "/_faults"
"""The place where the counts are shown."""

_TRANSPORT = "backcast.transport"
_NO_LINGER = struct.pack("ii", 1, 0)


class FaultMiddleware:
    """An application that passes each POST to one of `routes` through the faults of a script."""

    def __init__(
        self, app: ASGIApp, faults: Sequence[Fault], seed: int, routes: Sequence[str], closing: Callable[[], bool]
    ) -> None:
        self._app = app
        self._faults = faults
        self._seed = seed
        self._routes = frozenset(routes)
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == ADDRESS:
            counts = [
                {"fault": count.fault, "met": count.reached, "acted": count.acted} for count in counts_of(self._faults)
            ]
            await JSONResponse({"seed": self._seed, "faults": counts})(scope, receive, send)
        elif scope["method"] == "POST" and scope["path"].rstrip("/") in self._routes:
            request = CaptureRequest(scope, receive, self._closing)
            try:
                ending = await self._through(request, 0)
            except ClientGone:
                return
            if isinstance(ending, ConnectionCut):
                await _cut(scope["extensions"][_TRANSPORT], ending, receive)
            else:
                await _send_reply(_in_json(ending) if request.per_event else ending, request, send)
        else:
            await self._app(scope, receive, send)

    async def _through(self, request: CaptureRequest, number: int) -> Ending:
        if number == len(self._faults):
            return await request.forward_to(self._app)
        forward: Forward = functools.partial(self._through, request, number + 1)
        return await self._faults[number].handle(request, forward)


def counts_of(faults: Sequence[Fault]) -> list[FaultCounts]:
    """The counts of each fault of a script so far, in its order."""
    return [count for fault in faults for count in fault.counts()]


class CuttableConnection(H11Protocol):
    """A connection whose requests have access to its transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        inner: Any = self.app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scope["extensions"] = {_TRANSPORT: transport}
            await inner(scope, receive, send)

        self.app = app


_ERRORS = {
    400: "request_parsing_error", 402: "billing_limit_exceeded", 408: "request_timeout", 413: "payload_too_large",
    429: "rate_limited", 500: "internal_error", 503: "service_unavailable", 504: "gateway_timeout",
}  # fmt: skip
"""The names of errors of the per-event endpoint (docs/know/service.md#per-event-endpoint)."""


def _in_json(reply: HttpReply) -> HttpReply:
    """A fault's plain-text refusal, in the per-event endpoint's words."""
    kinds = [value for name, value in reply.headers if name == b"content-type"]
    if reply.status < 400 or not any(kind.startswith(b"text/plain") for kind in kinds):
        return reply
    text = reply.body.decode()
    name = "billing_limit_exceeded" if text == BILLING_LIMIT else _ERRORS.get(reply.status, "refused")
    body = {"error": name, "error_description": text, "error_uri": "https://posthog.com/docs/api"}
    others = [(name, value) for name, value in reply.headers if name != b"content-type"]
    return replace(reply, body=json.dumps(body).encode(), headers=((b"content-type", b"application/json"), *others))


async def _send_reply(reply: HttpReply, request: CaptureRequest, send: Send) -> None:
    """Send an answer with its length declared; if it should take time, send its body byte by byte."""
    headers = [(name, value) for name, value in reply.headers if name.lower() != b"content-length"]
    headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    for byte in reply.body if reply.over else b"":
        await send({"type": "http.response.body", "body": bytes([byte]), "more_body": True})
        await request.pause(reply.over / len(reply.body))
    await send({"type": "http.response.body", "body": b"" if reply.over else reply.body})


async def _cut(transport: asyncio.Transport, cut: ConnectionCut, receive: Receive) -> None:
    """End the connection and wait until it has ended: returning earlier would count as a missing answer."""
    if cut.reset:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()
    else:
        transport.write(cut.raw)
        transport.close()
    while (await receive())["type"] != "http.disconnect":
        pass
