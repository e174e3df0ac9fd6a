"""Real servers that speak TLS on loopback, with certificates of an authority made for the test."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from tests.support.scripted_server import Answer, Server, serving


class Authority:
    """Signs the servers' certificates. `file` is its own certificate, as PEM."""

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
def serving_tls(answer: Answer, authority: Authority, *names: str, port: int = 0) -> Iterator[Server]:
    """`serving` behind TLS, at 127.0.0.1 and localhost unless the certificate has other names."""
    context = authority.context(*(names or ("127.0.0.1", "localhost")))
    with serving(answer, port=port, tls=context) as server:
        yield server
