"""The capture endpoint over HTTP: `POST {ingest_url}/batch/`, JSON, gzip.

What a response means is decided here, in one pure function, by the table of docs/know/service.md#what-backcast-does
(docs/know/service.md#answers: error bodies are plain text; one bad event rejects its whole batch; a 200 can say that
the quota dropped everything).
"""

from __future__ import annotations

import email.utils
import json
import math
import os
import re
import socket
import ssl
from datetime import UTC, datetime
from urllib.parse import urljoin, urlsplit

import httpx

from pipeline.batcher import Batch
from pipeline.config import Secret
from pipeline.delivery.connections import Connection, ConnectionPool
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.errors import UsageError
from pipeline.targets import address_of, is_loopback

REDIRECTS = frozenset({301, 302, 303, 307, 308})
PERMANENT = frozenset({301, 308})
"""Redirects that apply to later requests too (RFC 9110, 15.4)."""
MOST_HOPS = 5
MOST_WAITS = 10
"""A request may last this many times the time limit, so that a slow line that makes progress is not cut."""
MOST_ANSWER = 64 * 1024
"""Bytes of a response that are read; the service itself sends less."""
_SHOWN = 300


class CaptureDestination:
    """Sends to one capture endpoint. Thread-safe.

    `timeout` bounds, in seconds, each wait for bytes, and a response as a whole from when the request was sent; a
    request with its response lasts at most MOST_WAITS times as long, however slowly the bytes come. `key` is masked in
    every response that repeats it, since responses are shown and stored. `date` is the `Date` header of the last
    response, "" where it had none.
    """

    def __init__(
        self,
        target: str,
        *,
        key: Secret | None = None,
        dialect: str = "contract",
        timeout: float = 60.0,
        ca_file: str | None = None,
        redirect_hosts: tuple[str, ...] = (),
    ) -> None:
        self.address = address_of(target)
        self.date = ""
        self._url = self.address + "/batch/"
        self._key = key.reveal().encode() if key else b""
        self._dialect = dialect
        self._redirect_hosts = frozenset(host.lower() for host in redirect_hosts)
        self._timeout = timeout
        self._ca_file = ca_file
        self._trusted: ssl.SSLContext | None = None
        if self.address.startswith("https") or ca_file:
            self._trusted = _context(ca_file)
        self._moved: dict[str, str] = {}
        self._connections = ConnectionPool(self._client, whole=timeout * MOST_WAITS, answer=timeout)

    def _client(self, scheme: str) -> httpx.Client:
        """A client for a scheme. One for http loads no certificates, which takes a while."""
        if scheme == "https" and self._trusted is None:
            self._trusted = _context(self._ca_file)
        return httpx.Client(
            timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, 20.0)),
            verify=self._trusted if scheme == "https" and self._trusted is not None else False,
            limits=httpx.Limits(max_keepalive_connections=2),
            headers={
                "Content-Type": "application/json",
                "Content-Encoding": "gzip",
                "User-Agent": "backcast",
                "Accept": "application/json, text/plain",
            },
            follow_redirects=False,
            trust_env=not is_loopback(self.address),
        )

    def send(self, batch: Batch) -> Response:
        url, status = self._url, 0
        for _ in range(MOST_HOPS + 1):
            if url in self._moved:
                url = self._moved[url]
                continue
            try:
                status, headers, content = self._post(url, batch.body)
            except httpx.RequestError as error:
                # The address that redirected here may redirect elsewhere by now.
                self._moved.clear()
                return _without_response(error, urlsplit(url).hostname or "")
            except httpx.InvalidURL as error:
                return Response(ResponseKind.STOP, 0, f"a redirect that leads nowhere: {error}", taken=False)
            if status not in REDIRECTS:
                floor = retry_after(headers.get("retry-after", ""), datetime.now(UTC))
                return response_of(status, content, retry_after=floor, dialect=self._dialect)
            location = headers.get("location", "")
            if self._key:
                location = location.replace(self._key.decode(), "***")
            problem = self._refusal(url, location)
            if problem:
                return Response(ResponseKind.STOP, status, problem, taken=False)
            onward = urljoin(url, location)
            if status in PERMANENT:
                self._moved[url] = onward
            url = onward
        return Response(ResponseKind.STOP, status, f"more than {MOST_HOPS} redirects, the last to {url}", taken=False)

    def _post(self, url: str, body: bytes) -> tuple[int, httpx.Headers, bytes]:
        """Send one request. Returns status, headers and the first bytes of the body, without the key."""
        content = b""
        one: Connection | None = None
        try:
            with (
                self._connections.lease(urlsplit(url).scheme) as one,
                one.client.stream("POST", url, content=body, extensions={"trace": one.trace_step}) as response,
            ):
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > MOST_ANSWER:
                        break
        except httpx.RequestError:
            if one is None or not one.late:
                raise
        if one.late:
            limits = f"{self._timeout:g} s after the request was sent, or {self._timeout * MOST_WAITS:g} s in all"
            raise httpx.ReadTimeout(f"too slow: no whole answer {limits}")
        self.date = response.headers.get("date", "")
        return response.status_code, response.headers, content.replace(self._key, b"***") if self._key else content

    def _refusal(self, origin: str, location: str) -> str:
        """Why a redirect is not followed, or "": the project key is in the body and goes where the body goes."""
        try:
            onward = urljoin(origin, location)
            before, after = urlsplit(origin), urlsplit(onward)
        except ValueError:
            return f"a redirect that leads nowhere: {location!r}"
        if after.scheme not in ("http", "https") or not after.hostname or onward == origin:
            return f"a redirect that leads nowhere: {location!r}"
        if before.scheme == "https" and after.scheme == "http":
            return f"a redirect from https to http: {onward}"
        home = urlsplit(self.address).hostname
        if after.hostname != home and after.hostname not in self._redirect_hosts:
            return f"a redirect to another host: {after.hostname}; allow it with --allow-redirect-host {after.hostname}"
        return ""

    def close(self) -> None:
        self._connections.close()


def _without_response(error: httpx.RequestError, host: str) -> Response:
    """What a request without a response means."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        return _unconnected(error, host)
    if isinstance(error, httpx.DecodingError):
        return Response(ResponseKind.DOUBT, 0, f"an answer nobody can read: {error}")
    return Response(ResponseKind.RETRY, 0, f"no answer: {type(error).__name__}: {error}")


def _unconnected(error: httpx.RequestError, host: str) -> Response:
    """What a failed connection means, whatever the reason; no byte of the request left."""
    detail, hint = f"no connection: {str(error) or type(error).__name__}", _NO_CONNECTION
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Response(
                ResponseKind.STOP, 0, f"its certificate is not trusted: {cause.verify_message}", taken=False,
                hint="check the address; give the certificate of its authority with --ca-file",
            )  # fmt: skip
        if isinstance(cause, ssl.SSLError):
            detail = f"no TLS: {cause.reason or cause}"
            hint = "check the address: does https belong there, and this port?"
            break
        if isinstance(cause, socket.gaierror):
            there_is = "there is no host" if cause.errno in _NO_NAME else "nobody could look up the host"
            detail, hint = f"{there_is} {host}: {cause.strerror}", "check the name, and the network of this machine"
            break
        cause = cause.__cause__ or cause.__context__
    return Response(ResponseKind.UNREACHABLE, 0, detail, taken=False, hint=hint)


_NO_CONNECTION = "check the address and its port, and the network of this machine"
_NO_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
"""Errors of a name that does not exist; other failures to look it up prove nothing about the name."""


def trusted(ca_file: str | None) -> ssl.SSLContext | bool:
    """The certificates to trust: those of `--ca-file`, else of SSL_CERT_FILE, else the usual ones (True)."""
    ca_file = ca_file or os.environ.get("SSL_CERT_FILE")
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot read the certificates in {ca_file}: {error}", hint="give a PEM file") from None


def _context(ca_file: str | None) -> ssl.SSLContext:
    """One for all connections: reading certificates takes a while."""
    found = trusted(ca_file)
    return httpx.create_ssl_context() if isinstance(found, bool) else found


def response_of(status: int, body: bytes, *, retry_after: float = 0.0, dialect: str = "contract") -> Response:
    """What one response means. Pure. `retry_after` is its Retry-After, in seconds."""
    text = body[:_SHOWN].decode("utf-8", "replace").strip()
    if 200 <= status < 300:
        return _success(status, body, text, dialect)
    if status in (408, 429) or 500 <= status < 600:
        return Response(ResponseKind.RETRY, status, text, retry_after, taken=status != 429)
    if status == 400:
        return Response(ResponseKind.POISON, status, text, taken=False)
    if status == 413:
        # What stood before the large event may be stored already (docs/know/service.md#answers); the halves have its
        # uuids.
        return Response(ResponseKind.TOO_LARGE, status, text)
    return Response(ResponseKind.STOP, status, text or "no reason given", taken=not 400 <= status < 500)


def _success(status: int, body: bytes, text: str, dialect: str) -> Response:
    """What a 2xx means: settled only where its body says so in the plan's dialect, else in doubt
    (docs/know/service.md#what-backcast-does)."""
    if len(body) > MOST_ANSWER:
        return Response(ResponseKind.DOUBT, status, f"an answer of more than {MOST_ANSWER:,} bytes: {text}")
    if not body.strip():
        if dialect == "contract" and status == 200:
            return Response(ResponseKind.SETTLED, status)
        return Response(ResponseKind.DOUBT, status, "an empty answer")
    try:
        # The text is decoded here, because `json` would guess at other encodings than UTF-8.
        found = json.loads(body.decode("utf-8"), object_pairs_hook=_members, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        what = "that names a member twice" if isinstance(error, _Twice) else "that is no JSON"
        return Response(ResponseKind.DOUBT, status, f"an answer {what}: {text}")
    if not isinstance(found, dict):
        return Response(ResponseKind.DOUBT, status, f"an answer that is no JSON object: {text}")
    limited = found.get("quota_limited")
    if limited:
        # A list without "events" names other quotas: some of the events may have been taken.
        taken = isinstance(limited, list) and "events" not in limited
        return Response(ResponseKind.STOP, status, f"the quota is used up and events were dropped: {text}", taken=taken)
    if any(value for name, value in found.items() if _names_error(name)):
        return Response(ResponseKind.DOUBT, status, f"an answer that names an error: {text}")
    if not _says_ok(found, dialect):
        return Response(ResponseKind.DOUBT, status, f"an answer that does not say success: {text}")
    return Response(ResponseKind.SETTLED, status)


class _Twice(ValueError):
    """An object has a member twice; readers differ in which of the two counts."""


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice
    return found


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _names_error(name: str) -> bool:
    """Whether a member names an error: the service's own JSON errors have `detail`
    (docs/know/service.md#answers)."""
    return name.casefold().startswith("error") or name.casefold() in ("detail", "exception")


def _says_ok(found: dict[str, object], dialect: str) -> bool:
    """Whether the status is Ok or the number 1, and neither true nor 1.0; the contract shows none, so it may lack."""
    if "status" not in found:
        return dialect == "contract"
    status = found["status"]
    return status == "Ok" or (type(status) is int and status == 1)


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
