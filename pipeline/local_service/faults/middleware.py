"""The faults in front of the service: an application around its application, and a connection that can be cut.

Effects on the connection are real: a reset is an RST packet, a lost answer is a closed socket.
"""

from __future__ import annotations

import asyncio
import functools
import json
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from pipeline.local_service.faults.base import Fault, Tally
from pipeline.local_service.faults.request import (
    App,
    Call,
    Cut,
    Ending,
    Gone,
    Message,
    Onward,
    Receive,
    Reply,
    Scope,
    Send,
)

ADDRESS = "/_faults"
"""Where the tallies are shown."""

_TRANSPORT = "backcast.transport"
_NO_LINGER = struct.pack("ii", 1, 0)


class Faulty:
    """A capture application that misbehaves by a script. Requests that are no POST to `routes` meet no fault."""

    def __init__(
        self, app: App, faults: Sequence[Fault], seed: int, routes: Sequence[str], closing: Callable[[], bool]
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
            await _say(Reply(200, self._tallies(), ((b"content-type", b"application/json"),)), None, send)
        elif scope["method"] == "POST" and scope["path"].rstrip("/") in self._routes:
            call = Call(scope, receive, self._closing)
            try:
                ending = await self._through(call, 0)
            except Gone:
                return
            if isinstance(ending, Cut):
                await _cut(scope["extensions"][_TRANSPORT], ending, receive)
            else:
                await _say(ending, call, send)
        else:
            await self._app(scope, receive, send)

    async def _through(self, call: Call, number: int) -> Ending:
        if number == len(self._faults):
            return await call.ask(self._app)
        onward: Onward = functools.partial(self._through, call, number + 1)
        return await self._faults[number].meet(call, onward)

    def _tallies(self) -> bytes:
        told = [tally._asdict() for tally in tallies(self._faults)]
        return json.dumps({"seed": self._seed, "faults": told}).encode()


def tallies(faults: Sequence[Fault]) -> list[Tally]:
    """What each fault of a script did so far, in its order."""
    return [tally for fault in faults for tally in fault.tallies()]


class Connection(H11Protocol):
    """A connection whose requests know their transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        inner: Any = self.app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scope["extensions"] = {_TRANSPORT: transport}
            await inner(scope, receive, send)

        self.app = app


async def _say(reply: Reply, call: Call | None, send: Send) -> None:
    """An answer, with its length declared; its body piece by piece where it is to take its time."""
    headers = [(name, value) for name, value in reply.headers if name.lower() != b"content-length"]
    headers.append((b"content-length", str(len(reply.body)).encode()))
    start: Message = {"type": "http.response.start", "status": reply.status, "headers": headers}
    await send(start)
    if call is not None and reply.over:
        for byte in reply.body:
            await send({"type": "http.response.body", "body": bytes([byte]), "more_body": True})
            await call.pause(reply.over / len(reply.body))
        await send({"type": "http.response.body", "body": b""})
    else:
        await send({"type": "http.response.body", "body": reply.body})


async def _cut(transport: asyncio.Transport, cut: Cut, receive: Receive) -> None:
    """End the connection, and wait until it has ended: whoever returns before that is taken to have forgotten."""
    if cut.reset:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()
    else:
        transport.write(cut.raw)
        transport.close()
    while (await receive())["type"] != "http.disconnect":
        pass
