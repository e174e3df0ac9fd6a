"""One POST and its answer: connections, deadlines and redirects, whatever the request is about.

The endpoint decides what an answer means for the events of a request (`pipeline.delivery.capture`); here only a request
without an answer already becomes a `Response`.
"""

from __future__ import annotations

import ssl
from collections.abc import Container, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urljoin, urlsplit

from pipeline.config import Secret
from pipeline.delivery.connections import ConnectionPool
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.http import MOST_REFUSAL, Reply, certificates_for, exchange, open_client

if TYPE_CHECKING:
    from httpx import Client

REDIRECTS = frozenset({301, 302, 303, 307, 308})
PERMANENT = frozenset({301, 308})
"""Redirects that apply to later requests too (RFC 9110, 15.4)."""
_PORTS = {"http": 80, "https": 443}
MOST_HOPS = 5
MOST_WAITS = 10
"""A request may last this many times the time limit, so that a slow line that makes progress is not cut off."""
MOST_ANSWER = MOST_REFUSAL
"""At most this many bytes of an answer are read; the service itself sends less."""


class Transport:
    """Posts to one address. Thread-safe.

    `timeout` limits, in seconds, each wait for bytes, and the answer as a whole from when the request was sent. A
    request with its answer lasts at most MOST_WAITS times as long, however slowly the bytes come. `key` is masked in
    every answer that repeats it, since answers are shown and stored. A request may be redirected within the address's
    origin (scheme, host and port), from http to https at the usual ports of its host, and to `redirect_hosts`, each
    `host` or `host:port`; None: to no other origin, whatever the operator allows, since `headers` have the key.
    `most_answer` bytes of an answer are read, and one more. `date` is the `Date` header of the last answer, "" if it
    had none.
    """

    def __init__(
        self,
        address: str,
        headers: dict[str, str],
        *,
        key: Secret | None,
        timeout: float,
        ca_file: str | None,
        redirect_hosts: tuple[str, ...] | None,
        most_answer: int = MOST_ANSWER,
    ) -> None:
        self.address = address
        self.date = ""
        self._headers = headers
        self._key = key.reveal().encode() if key else b""
        own, host = place_of(urlsplit(address)), urlsplit(address).hostname
        self._hosts = {own, *(host.lower() for host in redirect_hosts or ())}
        if own == f"{host}:{_PORTS['http']}":
            self._hosts.add(f"{host}:{_PORTS['https']}")
        self._may_allow = redirect_hosts is not None
        self._most_answer = most_answer
        self._timeout = timeout
        self._ca_file = ca_file
        self._moved: dict[str, str] = {}
        self._connections = ConnectionPool(self._client, whole=timeout * MOST_WAITS, answer=timeout)
        if address.startswith("https") or ca_file:
            _ = self._certificates  # an unreadable file is an error before anything is sent

    @cached_property
    def _certificates(self) -> ssl.SSLContext | None:
        """Shared by all connections, and loaded only for https: reading certificates takes a while."""
        return certificates_for("https", self._ca_file)

    def _client(self, scheme: str) -> Client:
        certificates = self._certificates if scheme == "https" else None
        return open_client(self.address, self._headers, timeout=self._timeout, certificates=certificates)

    def post(self, path: str, body: bytes, headers: Mapping[str, str] = {}) -> Reply | Response:
        """Send a request, and follow its redirects. Returns a `Response` if there was no answer to judge.

        `headers` are only for this request.
        """
        url, status = self.address + path, 0
        for _ in range(MOST_HOPS + 1):
            if url in self._moved:
                url = self._moved[url]
                continue
            reply = self._post_once(url, body, headers)
            status = reply.status
            if not status:
                # By now, the address that redirected here may redirect elsewhere.
                self._moved.clear()
                return without_answer(reply)
            if status not in REDIRECTS:
                return reply
            location = reply.headers.get("location", "")
            if self._key:
                location = location.replace(self._key.decode(), "***")
            if reason := redirect_refusal(url, location, self._hosts, may_allow=self._may_allow):
                return _stop(status, reason)
            onward = urljoin(url, location)
            if status in PERMANENT:
                self._moved[url] = onward
            url = onward
        return _stop(status, f"more than {MOST_HOPS} redirects, the last to {url}")

    def _post_once(self, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Send one request. The body of the reply is without the key."""
        with self._connections.lease(urlsplit(url).scheme) as connection:
            trace = {"trace": connection.trace_step}
            reply = exchange(
                connection.client, "POST", url, most=self._most_answer, content=body, headers=headers, extensions=trace
            )
        if connection.expired:
            limits = f"{self._timeout:g} s after the request was sent, or {self._timeout * MOST_WAITS:g} s in all"
            return Reply(0, failure=f"ReadTimeout: too slow: no whole answer {limits}")
        if reply.status:
            self.date = reply.headers.get("date", "")
        return replace(reply, body=reply.body.replace(self._key, b"***")) if self._key else reply

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


def redirect_refusal(origin: str, location: str, hosts: Container[str | None], *, may_allow: bool = True) -> str:
    """Why a redirect is not followed, or "": the capture key goes wherever the request goes.

    `hosts` are those that may receive it, each `host` or `host:port`; `may_allow`: the operator may name others.
    """
    try:
        onward = urljoin(origin, location)
        before, after = urlsplit(origin), urlsplit(onward)
        place = place_of(after)
    except ValueError:
        return f"a redirect to an address that is not valid: {location!r}"
    if after.scheme not in ("http", "https") or not after.hostname or onward == origin:
        return f"a redirect to an address that is not valid: {location!r}"
    if before.scheme == "https" and after.scheme == "http":
        return f"a redirect from https to http: {onward}"
    if place not in hosts and after.hostname not in hosts:
        advice = f"allow it with --allow-redirect-host {place}"
        if not may_allow:
            advice = "the Authorization header with the key is never sent there; give that host with --to"
        what = "port" if after.hostname == before.hostname else "host"
        return f"a redirect to another {what}: {place}; {advice}"
    return ""


def place_of(url: SplitResult) -> str:
    """The `host:port` of an address, "" without a host. Raises ValueError for an invalid port."""
    return f"{url.hostname}:{url.port or _PORTS.get(url.scheme, 0)}" if url.hostname else ""


def _stop(status: int, detail: str) -> Response:
    """A result that no further try would change; the service took nothing."""
    return Response(ResponseKind.STOP, status, detail, taken=False)


def without_answer(reply: Reply) -> Response:
    """What a request without an answer means."""
    if not reply.reached:
        kind = ResponseKind.STOP if reply.final else ResponseKind.UNREACHABLE
        return Response(kind, 0, reply.failure, taken=False, hint=reply.hint)
    if reply.unreadable:
        return Response(ResponseKind.DOUBT, 0, f"an answer that cannot be decoded: {reply.failure}")
    return Response(ResponseKind.RETRY, 0, f"no answer: {reply.failure}")
