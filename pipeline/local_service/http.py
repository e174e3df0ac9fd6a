"""What the endpoints share: reading a body within a limit, allowing other origins, working in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

Result = TypeVar("Result")


async def read_body(request: Request, limit: int) -> bytes | None:
    """The body as it was sent; None if it is over the limit, in bytes. Raises ClientDisconnect.

    It is always read to its end: a client that is still sending would not read the answer.
    """
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
        else:
            pieces.clear()
    return b"".join(pieces) if size <= limit else None


async def run_in(executor: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(executor, work)


def allow_origin(request: Request, response: Response) -> Response:
    """Add the headers for browsers: any origin, repeated, with credentials (docs/know/service.md#routes-and-hosts)."""
    origin = request.headers.get("origin")
    if origin is not None:
        response.headers["access-control-allow-origin"] = origin
        response.headers["access-control-allow-credentials"] = "true"
        requested = request.headers.get("access-control-request-headers")
        if requested is not None:
            response.headers["access-control-allow-headers"] = requested
            response.headers["access-control-allow-methods"] = "GET, POST, OPTIONS"
    return response
