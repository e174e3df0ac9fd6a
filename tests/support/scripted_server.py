"""A real HTTP server on loopback; a function of the request gives every answer."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request as it came. `number` counts requests from 0; `target` is the path with its query."""

    number: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of a gzipped batch."""
        found: list[dict[str, Any]] = json.loads(gzip.decompress(self.body))["batch"]
        return found


@dataclass(frozen=True)
class Canned:
    """One answer; a body that is not bytes is sent as JSON. Status 0 cuts the connection instead.

    `cut` is after how many bytes of the body the connection is cut, although all of them were announced.
    """

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


Answer = Callable[[Asked], Canned]


@dataclass
class Server:
    """A server while it runs."""

    url: str
    port: int
    asked: list[Asked]


class _Listening(ThreadingHTTPServer):
    """Closing it ends everything: its open connections are cut, and answers in progress have ended."""

    daemon_threads = False  # so that closing waits for them

    def __init__(self, answer: Answer, methods: Collection[str], port: int) -> None:
        super().__init__(("127.0.0.1", port), _Connection)
        self.answer = answer
        self.methods = methods
        self.asked: list[Asked] = []
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    # Not the method of a TLS socket, which would pull the session away under its reader.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
        super().server_close()

    def received(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Canned:
        """Record a request; the answer to it."""
        with self._lock:
            asked = Asked(len(self.asked), method, target, headers, body)
            self.asked.append(asked)
        return self.answer(asked)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listening

    def _answer(self) -> None:
        if self.command not in self.server.methods:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED)
            return
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # its sender is dead
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        said = self.server.received(self.command, self.path, headers, body)
        if not said.status:
            self.close_connection = True
            return
        content = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
        self.send_response_only(said.status)
        for name, value in said.headers.items():
            self.send_header(name, value)
        if said.status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: said.cut])
        self.close_connection = self.close_connection or said.cut is not None

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer

    def handle(self) -> None:
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):  # a client left, or rejects our certificate
            return

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serving(
    answer: Answer, *, methods: Collection[str] = ("POST",), port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    """Serve at 127.0.0.1, behind TLS if a context is given; `answer` may be called from several threads.

    By default it is a capture service and nothing more: other methods than POST are 501, and not counted.
    """
    server = _Listening(answer, methods, port)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    bound = server.server_address[1]
    try:
        yield Server(f"{'http' if tls is None else 'https'}://127.0.0.1:{bound}", bound, server.asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def scripted(*answers: Canned) -> Answer:
    """These answers in turn, the last one for ever."""
    return lambda asked: answers[min(asked.number, len(answers) - 1)]
