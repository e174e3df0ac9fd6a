"""Faults among requests that are on their way together."""

from __future__ import annotations

import gzip
import json
import socket
import time
from contextlib import ExitStack

import pytest

from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from tests.support.services import running

pytestmark = pytest.mark.slow

KEY = "phc_testMARKED"
KEYS = Keyring((Project(1, "Rehearsal", KEY),), {"phx_testMARKED": frozenset({"*"})})
EVENT = {"event": "a", "properties": {"distinct_id": "d"}, "timestamp": "2023-01-02T03:04:05Z"}
BODY = gzip.compress(json.dumps({"api_key": KEY, "batch": [EVENT]}).encode())
HEAD = f"POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
TOGETHER = 6


def met(service: LocalService) -> int:
    return service.faults[0].reached


@pytest.mark.parametrize(
    "fault",
    [
        "before:503", "maintenance:50", "rate:1/m", "poison,event=a", "large:10", "garbage:html", "redirect:307",
        "mix:100%,of=before:503",
    ],
)  # fmt: skip
def test_times_holds_for_requests_that_wait_side_by_side(fault: str) -> None:
    """Six requests have all met the fault before any of them has come whole; two are answered by it, four are taken."""
    with running(KEYS, faults=[f"{fault},times=2"]) as service, ExitStack() as open_:
        spent = 1 if fault.startswith("rate") else 0  # what the rate admits comes first
        for _ in range(spent):
            assert status(opened(service, open_), BODY) == 200
        asking = [opened(service, open_) for _ in range(TOGETHER)]
        until = time.monotonic() + 20
        while met(service) < TOGETHER + spent and time.monotonic() < until:
            time.sleep(0.005)
        assert met(service) == TOGETHER + spent
        said = [status(one, BODY) for one in asking]
        taken = service.store.raw_count() - spent
        assert (service.faults[0].acted, taken) == (2, TOGETHER - 2)
        assert said.count(200) == TOGETHER - 2 + 2 * fault.startswith("garbage")


def opened(service: LocalService, open_: ExitStack) -> socket.socket:
    """A connection over which the head of a request has gone, and nothing of its body."""
    one = open_.enter_context(socket.create_connection(("127.0.0.1", service.port), 20))
    one.sendall(HEAD)
    return one


def status(connection: socket.socket, body: bytes) -> int:
    """The rest of the request, and the status that answers it."""
    connection.sendall(body)
    return int(connection.recv(1 << 16).split(b" ", 2)[1])
