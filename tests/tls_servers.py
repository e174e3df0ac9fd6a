"""Real servers that speak TLS on loopback, with certificates of an authority made for the test."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme
from deliveries import Asked, Reply, Server


class Authority:
    """Who signs the servers' certificates. `file` is its own certificate, as PEM."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.file = str(folder / "authority.pem")
        self._authority.cert_pem.write_to_path(self.file)

    def context(self, *names: str) -> ssl.SSLContext:
        """A server's side of TLS, with a certificate for these names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(*names).configure_cert(context)
        return context


@contextmanager
def serving_tls(answer: Callable[[Asked], Reply], authority: Authority, *names: str, port: int = 0) -> Iterator[Server]:
    """`deliveries.serving` behind TLS, at 127.0.0.1 and localhost unless the certificate has other names."""
    asked: list[Asked] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            with lock:
                one = Asked(len(asked), self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                asked.append(one)
            reply = answer(one)
            self.send_response_only(reply.status)
            for name, value in (reply.headers | {"Content-Length": str(len(reply.body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            return

    class TlsServer(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            return  # a client that trusts nobody here ends the handshake

    server = TlsServer(("127.0.0.1", port), Handler)
    context = authority.context(*(names or ("127.0.0.1", "localhost")))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    bound = server.server_address[1]
    try:
        yield Server(f"https://127.0.0.1:{bound}", bound, asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
