"""Every request ends: a peer that drips, reads or writes byte by byte is given up in time, and the batch is in
doubt."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from select import select

import httpx
import pytest

from pipeline.config import Secret
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.capture import CaptureDestination
from pipeline.delivery.connections import ConnectionPool
from pipeline.delivery.destination import ResponseKind
from pipeline.delivery.retry import RetryPolicy
from tests.support.deliveries import KEY, planned, request_of, run, send
from tests.support.raw_server import raw, read_request
from tests.support.tls_servers import Authority

DRIP = 0.02
OK = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"status":"Ok"}'


def dripping(start: bytes, drop: bytes = b" ") -> Callable[[socket.socket], None]:
    """A server that begins its answer with these bytes and then sends a byte at a time for ever; without bytes it never
    begins."""

    def talk(connection: socket.socket) -> None:
        read_request(connection)
        with contextlib.suppress(OSError):
            connection.sendall(start)
            while not select([connection], [], [], DRIP)[0]:
                connection.sendall(drop)

    return talk


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"", b""),
        (b"H", b"T"),
        (b"HTTP/1.1 200 OK\r\nX-Drip: ", b" "),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b" "),
    ],
    ids=["silence", "status", "header", "body-without-end", "body"],
)
def test_an_answer_that_drips_in_any_of_its_parts_is_given_up_in_time(start: bytes, drop: bytes) -> None:
    """However steadily it drips, the wait ends soon after the request was sent; the batch is in doubt."""
    with raw(dripping(start, drop)) as url:
        began = time.monotonic()
        response = send(url, timeout=0.3)
        took = time.monotonic() - began
    assert (response.kind, response.taken) == (ResponseKind.RETRY, True)
    assert ("too slow" if drop else "no answer: ReadTimeout") in response.detail
    assert took < 8


def test_a_batch_whose_answer_drips_is_in_doubt(tmp_path: Path) -> None:
    """The run ends, and the ledger says that the events may have landed."""
    directory = planned(tmp_path, 10, files=1)
    with raw(dripping(b"HTTP/1.1 200 OK\r\nX-Drip: ")) as url:
        outcome = run(directory, url, timeout=0.3, send_limits=SendLimits(1, RetryPolicy(tries=0, first=0)))
    assert (outcome.counts.in_doubt, outcome.counts.accepted) == (10, 0)


def test_a_drip_through_tls_is_given_up_too(tmp_path: Path) -> None:
    """The socket is shut below the session, and the sender notices."""
    authority = Authority(tmp_path)
    context = authority.context("127.0.0.1")

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
            dripping(b"HTTP/1.1 200 OK\r\nX-Drip: ")(secure)

    with raw(talk) as url:
        response = send(url.replace("http:", "https:"), timeout=0.3, ca_file=authority.file)
    assert (response.kind, response.taken) == (ResponseKind.RETRY, True)
    assert "too slow" in response.detail


def test_a_slow_line_that_moves_on_is_waited_for() -> None:
    """Sending takes longer than the time limit for an answer, but every wait is short: the answer counts."""
    body = os.urandom(6_000_000)

    def talk(connection: socket.socket) -> None:
        left = len(body)
        while left > 0:
            left -= len(connection.recv(100_000))
            time.sleep(DRIP)
        connection.sendall(OK)

    with raw(talk, receive=1 << 16) as url, closing(CaptureDestination(url, key=Secret(KEY), timeout=1.0)) as one:
        began = time.monotonic()
        response = one.send(request_of(body))
        took = time.monotonic() - began
    assert took > 1.0
    assert response.kind is ResponseKind.SETTLED


def test_a_request_as_a_whole_has_an_end() -> None:
    """It ends even before the time for its answer is over, for example if its bytes leave continuously but far too
    slowly."""
    pool = ConnectionPool(lambda scheme: httpx.Client(trust_env=False, verify=False), whole=0.4, answer=60)
    with closing(pool), raw(dripping(b"HTTP/1.1 200 OK\r\nX-Drip: ")) as url, pool.lease("http") as one:
        began = time.monotonic()
        with pytest.raises(httpx.TransportError):
            one.client.post(url, content=b"{}", extensions={"trace": one.trace_step})
        took = time.monotonic() - began
    assert one.expired
    assert took < 8


def test_the_next_request_after_a_late_one_is_as_any_other() -> None:
    """A connection that was shut is not used again; a new one is made."""
    seen: list[int] = []

    def talk(connection: socket.socket) -> None:
        seen.append(1)
        if len(seen) == 1:
            dripping(b"HTTP/1.1 200 OK\r\nX-Drip: ")(connection)
        else:
            read_request(connection)
            connection.sendall(OK)

    with raw(talk) as url, closing(CaptureDestination(url, key=Secret(KEY), timeout=0.3)) as one:
        assert one.send(request_of(b"{}")).kind is ResponseKind.RETRY
        assert one.send(request_of(b"{}")).kind is ResponseKind.SETTLED
    assert len(seen) == 2
