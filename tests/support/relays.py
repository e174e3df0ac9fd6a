"""A server between a client and a local service, which sees every request and may keep one, or its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.support.plain_http import PLAIN

Before = Callable[[str, str], None]


@contextmanager
def relay(to: str, before: Before = lambda *_: None, after: Before = lambda *_: None) -> Iterator[str]:
    """A server that forwards every request; `before` and `after` are called with its method and path.

    One that raises a ConnectionError keeps the request, or its answer, from the other side.
    """
    client = httpx.Client(base_url=to, timeout=30, **PLAIN)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits for the acknowledgement of its head

        def relayed(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            before(self.command, self.path)
            answer = client.request(self.command, self.path, content=body, headers=kept)
            after(self.command, self.path)
            self.send_response(answer.status_code)
            self.send_header("content-type", answer.headers.get("content-type", ""))
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PATCH = relayed

        def log_message(self, *_: object) -> None:
            pass

    class Relay(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass

    server = Relay(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        client.close()
