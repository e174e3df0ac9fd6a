"""A server between a client and a local service, which sees every request and may drop one, or its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from tests.support.plain_http import PLAIN
from tests.support.scripted_server import Asked, Canned, serving

Before = Callable[[str, str], None]
Body = Callable[[Asked], bytes]
Instead = Callable[[Asked], Canned | None]


@contextmanager
def relay(
    to: str,
    before: Before = lambda *_: None,
    after: Before = lambda *_: None,
    body: Body = lambda asked: asked.body,
    instead: Instead = lambda asked: None,
) -> Iterator[str]:
    """A server that forwards every request with this `body`; `before` and `after` are called with its method and path.

    If one raises a ConnectionError, the request, or its answer, does not reach the other side. A request that `instead`
    answers is not forwarded.
    """
    with httpx.Client(base_url=to, timeout=30, **PLAIN) as client:

        def answer(asked: Asked) -> Canned:
            hop = ("host", "connection", "content-length")
            kept = {name: value for name, value in asked.headers.items() if name not in hop}
            if (own := instead(asked)) is not None:
                return own
            try:
                before(asked.method, asked.target)
                said = client.request(asked.method, asked.target, content=body(asked), headers=kept)
                after(asked.method, asked.target)
            except (ConnectionError, httpx.TransportError):
                return Canned(0)
            return Canned(said.status_code, said.content, {"Content-Type": said.headers.get("content-type", "")})

        with serving(answer, methods=("GET", "POST", "PATCH", "PUT", "DELETE")) as server:
            yield server.url
