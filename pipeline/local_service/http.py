"""Reading the body of a request."""

from __future__ import annotations

from starlette.requests import Request


async def whole_body(request: Request, limit: int) -> bytes | None:
    """The body as it travelled; None when over the limit, in bytes. Raises ClientDisconnect.

    It is read to its end all the same, so that the client, who is still sending, can hear the answer.
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
