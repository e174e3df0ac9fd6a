"""Who may see the page: a browser on this machine that was asked for it by a loopback name.

The page needs no key, so a site elsewhere must not read it through the browser of somebody who runs the service. A
name of that site that suddenly means 127.0.0.1 (DNS rebinding) is refused by the Host header. Another origin cannot
read the answers, put them in a frame or load them as images and scripts. The page changes nothing, so there is no
request to forge.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer of the page."""

_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
"""Any port: a tunnel to the service has another one than the service."""


Endpoint = Callable[[Request], Awaitable[Response]]


def guarded(endpoint: Endpoint) -> Endpoint:
    """The endpoint for those who may see the page, 403 for others."""

    async def answered(request: Request) -> Response:
        refused = refusal(request)
        response = await endpoint(request) if refused is None else PlainTextResponse(refused + "\n", 403)
        response.headers.update(HEADERS)
        return response

    return answered


def refusal(request: Request) -> str | None:
    """Why this request may not see the page, or None."""
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not _LOOPBACK.fullmatch(hosts[0]):
        return "This page is for this machine alone. Open it as http://127.0.0.1 or http://localhost, with the port."
    site, mode = request.headers.get("sec-fetch-site"), request.headers.get("sec-fetch-mode")
    if site in ("cross-site", "same-site") and mode != "navigate":
        return "This page cannot be loaded into a page of another origin."
    return None
