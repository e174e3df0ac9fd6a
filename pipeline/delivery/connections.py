"""Connections to one destination, each leased to one request at a time, so that every request has a deadline.

The time limit of the HTTP library bounds each wait for bytes: a server that sends one byte in time, and then another,
could keep a request alive all day. So one thread watches all requests in flight, and shuts down the sockets of those
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
"""Sockets that a connection remembers; only the last ones can be open (redirects lead to other addresses)."""
_SENDING = "send_request_headers.started"
_SENT = "receive_response_headers.started"
_OPENED = ("connect_tcp.complete", "start_tls.complete")


class Connection:
    """One HTTP client, used for one request at a time; `late` once a request passed its deadline.

    `whole` bounds a request from its first moment, `answer` from when it was sent, in seconds.
    """

    def __init__(self, client: httpx.Client, whole: float, answer: float) -> None:
        self.client = client
        self.late = False
        self._whole = whole
        self._answer = answer
        self._last = self._until = math.inf
        self._sockets: deque[socket.socket] = deque(maxlen=_SOCKETS)

    def begin(self) -> None:
        """Start the deadline of a request."""
        self._last = self._until = time.monotonic() + self._whole

    def trace_step(self, step: str, details: Mapping[str, Any]) -> None:
        """Called by the HTTP library's trace extension: a step of a request, and its result."""
        if step.endswith(_OPENED):
            self._sockets.append(details["return_value"].get_extra_info("socket"))
        elif step.endswith(_SENDING):  # again after a proxy answered
            self._until = self._last
        elif step.endswith(_SENT):
            self._until = min(self._last, time.monotonic() + self._answer)

    def end_if_late(self, now: float) -> None:
        """Shut down the sockets when the deadline is over, which ends every wait on them at once."""
        if now < self._until:
            return
        self.late = True
        for one in tuple(self._sockets):
            with contextlib.suppress(OSError):
                # Not the method of a TLS socket, which would pull the session away under its reader.
                socket.socket.shutdown(one, socket.SHUT_RDWR)


class ConnectionPool:
    """As many connections as are in use together. Thread-safe. `make` gives a client for `http` or `https`."""

    def __init__(self, make: Callable[[str], httpx.Client], *, whole: float, answer: float) -> None:
        self._make = make
        self._whole = whole
        self._answer = answer
        self._lock = threading.Lock()
        self._idle: dict[str, list[Connection]] = {"http": [], "https": []}
        self._busy: set[Connection] = set()
        self._closing = threading.Event()
        self._watch: threading.Thread | None = None

    @contextlib.contextmanager
    def lease(self, scheme: str) -> Iterator[Connection]:
        """A connection for one request; afterwards its `late` is final."""
        with self._lock:
            idle = self._idle[scheme]
            one = idle.pop() if idle else Connection(self._make(scheme), self._whole, self._answer)
            one.begin()
            self._busy.add(one)
            if self._watch is None:
                self._watch = threading.Thread(target=self._end_the_late, name="deadlines", daemon=True)
                self._watch.start()
        try:
            yield one
        finally:
            with self._lock:
                self._busy.discard(one)
                if not one.late:
                    self._idle[scheme].append(one)
            if one.late:
                one.client.close()

    def _end_the_late(self) -> None:
        while not self._closing.wait(TICK):
            now = time.monotonic()
            with self._lock:
                for one in self._busy:
                    one.end_if_late(now)

    def close(self) -> None:
        """Close all of them, also those in use."""
        self._closing.set()
        if self._watch is not None:
            self._watch.join()
        with self._lock:
            every = [*self._busy, *self._idle["http"], *self._idle["https"]]
            self._idle = {"http": [], "https": []}
        for one in every:
            one.client.close()
