"""One POST and its answer: connections, deadlines, certificates and redirects, whatever the request is about.

What an answer means for the events of a request is for the endpoint to decide (`pipeline.delivery.capture`); only a
request that got no answer is a `Response` already here.
"""

from __future__ import annotations

import email.utils
import math
import os
import re
import socket
import ssl
from collections.abc import Container, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from pipeline.config import Secret
from pipeline.delivery.connections import Connection, ConnectionPool
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.http_library import httpx
from pipeline.errors import UsageError
from pipeline.targets import is_loopback

REDIRECTS = frozenset({301, 302, 303, 307, 308})
PERMANENT = frozenset({301, 308})
"""Redirects that apply to later requests too (RFC 9110, 15.4)."""
_PORTS = {"http": 80, "https": 443}
MOST_HOPS = 5
MOST_WAITS = 10
"""A request may last this many times the time limit, so that a slow line that makes progress is not cut."""
MOST_ANSWER = 64 * 1024
"""Bytes of an answer that are read; the service itself sends less."""


class Answer(NamedTuple):
    """An answer: its status, the first bytes of its body, and its Retry-After in seconds, 0 without."""

    status: int
    body: bytes
    retry_after: float = 0.0


class Transport:
    """Posts to one address. Thread-safe.

    `timeout` bounds, in seconds, each wait for bytes, and an answer as a whole from when the request was sent; a
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
        self._headers = {"User-Agent": "backcast"} | headers
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
            _ = self._certificates  # a file that cannot be read is an error before anything is sent

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        """Shared by all connections, and loaded only for https: reading certificates takes a while."""
        context = trusted(self._ca_file)
        return httpx.create_ssl_context() if isinstance(context, bool) else context

    def _client(self, scheme: str) -> httpx.Client:
        return httpx.Client(
            timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, 20.0)),
            verify=self._certificates if scheme == "https" else False,
            limits=httpx.Limits(max_keepalive_connections=2),
            headers=self._headers,
            follow_redirects=False,
            trust_env=not is_loopback(self.address),
        )

    def post(self, path: str, body: bytes, headers: Mapping[str, str] = {}) -> Answer | Response:
        """Send a request, and follow its redirects. A `Response` is the result of one that got no answer to judge.

        `headers` are those of this request alone.
        """
        url, status = self.address + path, 0
        for _ in range(MOST_HOPS + 1):
            if url in self._moved:
                url = self._moved[url]
                continue
            try:
                status, answered, content = self._post_once(url, body, headers)
            except httpx.RequestError as error:
                # The address that redirected here may redirect elsewhere by now.
                self._moved.clear()
                return _without_answer(error, urlsplit(url).hostname or "")
            except httpx.InvalidURL as error:
                return _stop(0, f"a redirect to an address that is not valid: {error}")
            if status not in REDIRECTS:
                return Answer(status, content, retry_after(answered.get("retry-after", ""), datetime.now(UTC)))
            location = answered.get("location", "")
            if self._key:
                location = location.replace(self._key.decode(), "***")
            if reason := redirect_refusal(url, location, self._hosts, may_allow=self._may_allow):
                return _stop(status, reason)
            onward = urljoin(url, location)
            if status in PERMANENT:
                self._moved[url] = onward
            url = onward
        return _stop(status, f"more than {MOST_HOPS} redirects, the last to {url}")

    def _post_once(self, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, httpx.Headers, bytes]:
        """Send one request. Returns status, headers and the first bytes of the body, without the key."""
        content = b""
        connection: Connection | None = None
        try:
            with (
                self._connections.lease(urlsplit(url).scheme) as connection,
                connection.client.stream(
                    "POST", url, content=body, headers=headers, extensions={"trace": connection.trace_step}
                ) as response,
            ):
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > self._most_answer:
                        break
        except httpx.RequestError:
            if connection is None or not connection.expired:
                raise
        if connection.expired:
            limits = f"{self._timeout:g} s after the request was sent, or {self._timeout * MOST_WAITS:g} s in all"
            raise httpx.ReadTimeout(f"too slow: no whole answer {limits}")
        self.date = response.headers.get("date", "")
        return response.status_code, response.headers, content.replace(self._key, b"***") if self._key else content

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


def redirect_refusal(origin: str, location: str, hosts: Container[str | None], *, may_allow: bool = True) -> str:
    """Why a redirect is not followed, or "": the project key goes where the request goes.

    `hosts` are those that may have it, each `host` or `host:port`; `may_allow`: the operator may name others.
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


def _stop(status: int, detail: str, hint: str = "") -> Response:
    """A result that no further try would change; the service took nothing."""
    return Response(ResponseKind.STOP, status, detail, taken=False, hint=hint)


def _without_answer(error: httpx.RequestError, host: str) -> Response:
    """What a request without an answer means."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        return _unconnected(error, host)
    if isinstance(error, httpx.DecodingError):
        return Response(ResponseKind.DOUBT, 0, f"an answer that cannot be decoded: {error}")
    return Response(ResponseKind.RETRY, 0, f"no answer: {type(error).__name__}: {error}")


def _unconnected(error: httpx.RequestError, host: str) -> Response:
    """What a failed connection means, whatever the reason; no byte of the request was sent."""
    detail = f"no connection: {str(error) or type(error).__name__}"
    hint = "check the address and its port, and the network of this machine"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _stop(
                0,
                f"its certificate is not trusted: {cause.verify_message}",
                "check the address; give the certificate of its authority with --ca-file",
            )
        if isinstance(cause, ssl.SSLError):
            detail = f"no TLS: {cause.reason or cause}"
            hint = "check the address: does https belong there, and this port?"
            break
        if isinstance(cause, socket.gaierror):
            failure = "there is no host" if cause.errno in _NO_NAME else "the name lookup failed for the host"
            detail, hint = f"{failure} {host}: {cause.strerror}", "check the name, and the network of this machine"
            break
        cause = cause.__cause__ or cause.__context__
    return Response(ResponseKind.UNREACHABLE, 0, detail, taken=False, hint=hint)


_NO_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
"""Errors of a name that does not exist; other failures of a lookup prove nothing about the name."""


def trusted(ca_file: str | None) -> ssl.SSLContext | bool:
    """The certificates to trust: those of `--ca-file`, else of SSL_CERT_FILE, else httpx's own (True)."""
    ca_file = ca_file or os.environ.get("SSL_CERT_FILE")
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot read the certificates in {ca_file}: {error}", hint="give a PEM file") from None


def retry_after(text: str, now: datetime) -> float:
    """Seconds to wait at least, from a Retry-After header in seconds or as a date; 0 where it has neither."""
    text = text.strip()
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = (moment - now).total_seconds()
    return seconds if seconds > 0 and math.isfinite(seconds) else 0.0
