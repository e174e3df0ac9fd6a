"""A server below HTTP: a function handles each connection, byte by byte if it likes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def raw(talk: Callable[[socket.socket], None], receive: int = 0) -> Iterator[str]:
    """A server that passes each connection to a function, one after another; `receive` limits its buffer, in bytes."""
    listening = socket.socket()
    if receive:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    listening.bind(("127.0.0.1", 0))
    listening.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(20)
                talk(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def read_request(connection: socket.socket) -> None:
    """Everything up to the end of the body."""
    had = b""
    while b"\r\n\r\n" not in had:
        had += connection.recv(65_536)
    head, _, body = had.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65_536)
