"""A management API on a real socket whose every answer is given by a function of the request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pipeline.config import Secret
from pipeline.management import ManagementClient
from pipeline.management.retry import Patience

KEY = "phx_testMARKED"
AT_ONCE = Patience(tries=3, first=0)


@dataclass(frozen=True)
class Call:
    """One request as it came. `number` counts requests from 0."""

    number: int
    method: str
    target: str
    headers: dict[str, str]
    content: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True)
class Said:
    """One answer; a body that is not bytes is sent as JSON. Status 0 cuts the connection instead."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Service:
    """The server while it runs."""

    url: str
    port: int
    calls: list[Call]

    def client(self, project: str | None = "7", patience: Patience = AT_ONCE) -> ManagementClient:
        return ManagementClient(self.url, Secret(KEY), project, patience=patience, timeout=20)


@contextmanager
def answering(answer: Callable[[Call], Said]) -> Iterator[Service]:
    """Serve on loopback."""
    calls: list[Call] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer

        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with lock:
                call = Call(len(calls), self.command, self.path, headers, content)
                calls.append(call)
            said = answer(call)
            if not said.status:
                self.close_connection = True
                return
            body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response_only(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            if said.status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    port = server.server_address[1]
    try:
        yield Service(f"http://127.0.0.1:{port}", port, calls)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def in_turn(*answers: Said) -> Callable[[Call], Said]:
    """These answers in turn, the last one for ever."""
    return lambda call: answers[min(call.number, len(answers) - 1)]
