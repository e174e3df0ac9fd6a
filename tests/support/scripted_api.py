"""A management API on a real socket; a function of the request gives every answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.config import Secret
from pipeline.delivery.retry import RetryPolicy
from pipeline.management import ManagementClient
from tests.support import scripted_server
from tests.support.scripted_server import Answer, Server

KEY = "phx_testMARKED"
AT_ONCE = RetryPolicy(tries=3, first=0)


class Service(Server):
    """The server while it runs."""

    def client(self, project: str | None = "7", retry: RetryPolicy = AT_ONCE) -> ManagementClient:
        return ManagementClient(self.url, Secret(KEY), project, retry=retry, timeout=20)


@contextmanager
def answering(answer: Answer) -> Iterator[Service]:
    """Serve on loopback."""
    with scripted_server.serving(answer, methods=("GET", "POST", "PATCH", "PUT", "DELETE")) as server:
        yield Service(server.url, server.port, server.asked)
