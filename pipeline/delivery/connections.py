"""Connections to one destination, each leased to one request at a time, so that every request has a deadline.

The HTTP library's time limit applies to each wait for bytes: a server that sends one byte in time, and then another,
could keep a request open all day. So one thread watches all requests in flight, and shuts down the sockets of those
that are past their deadline.
"""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

TICK = 0.2
"""Seconds between two checks of the requests in flight."""
_SOCKETS = 8
"""A connection remembers this many sockets; only the last ones can be open (redirects lead to other addresses)."""
_SENDING = "send_request_headers.started"
_SENT = "receive_response_headers.started"
_OPENED = ("connect_tcp.complete", "start_tls.complete")


class Connection:
    """One HTTP client, used for one request at a time; `expired` once a request passed its deadline.

    `whole` limits a request from its start, `answer` from when it was sent, both in seconds.
    """

    def __init__(self, client: httpx.Client, whole: float, answer: float) -> None:
        self.client = client
        self.expired = False
        self._whole = whole
        self._answer = answer
        self._latest = self._until = math.inf
        self._sockets: deque[socket.socket] = deque(maxlen=_SOCKETS)

    def begin(self) -> None:
        """Start the deadline of a request."""
        self._latest = self._until = time.monotonic() + self._whole

    def trace_step(self, step: str, details: Mapping[str, Any]) -> None:
        """Called by the HTTP library's trace extension: a step of a request, and its result."""
        if step.endswith(_OPENED):
            self._sockets.append(details["return_value"].get_extra_info("socket"))
        elif step.endswith(_SENDING):  # sent again after a proxy answered
            self._until = self._latest
        elif step.endswith(_SENT):
            self._until = min(self._latest, time.monotonic() + self._answer)

    def end_if_expired(self, now: float) -> None:
        """Shut down the sockets once the deadline is over, which ends every wait on them immediately."""
        if now < self._until:
            return
        self.expired = True
        for opened in tuple(self._sockets):
            with contextlib.suppress(OSError):
                # Not the TLS socket's own method, which would take the session from its reader.
                socket.socket.shutdown(opened, socket.SHUT_RDWR)


class ConnectionPool:
    """As many connections as are used at the same time. Thread-safe. `client` returns one for `http` or `https`."""

    def __init__(self, client: Callable[[str], httpx.Client], *, whole: float, answer: float) -> None:
        self._client = client
        self._whole = whole
        self._answer = answer
        self._lock = threading.Lock()
        self._idle: dict[str, list[Connection]] = {"http": [], "https": []}
        self._busy: set[Connection] = set()
        self._closing = threading.Event()
        self._watch: threading.Thread | None = None

    @contextlib.contextmanager
    def lease(self, scheme: str) -> Iterator[Connection]:
        """A connection for one request; afterwards its `expired` is final."""
        with self._lock:
            idle = self._idle[scheme]
            connection = idle.pop() if idle else Connection(self._client(scheme), self._whole, self._answer)
            connection.begin()
            self._busy.add(connection)
            if self._watch is None:
                self._watch = threading.Thread(target=self._end_expired, name="deadlines", daemon=True)
                self._watch.start()
        try:
            yield connection
        finally:
            with self._lock:
                self._busy.discard(connection)
                if not connection.expired:
                    self._idle[scheme].append(connection)
            if connection.expired:
                connection.client.close()

    def _end_expired(self) -> None:
        while not self._closing.wait(TICK):
            now = time.monotonic()
            with self._lock:
                for connection in self._busy:
                    connection.end_if_expired(now)

    def close(self) -> None:
        """Close all connections, including those in use."""
        self._closing.set()
        if self._watch is not None:
            self._watch.join()
        with self._lock:
            connections = [*self._busy, *self._idle["http"], *self._idle["https"]]
            self._idle = {"http": [], "https": []}
        for connection in connections:
            connection.client.close()
