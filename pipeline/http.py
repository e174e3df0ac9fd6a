"""One request over HTTP and its reply, for sending, fetching and the management API alike.

This module handles certificates, time limits, size limits of a body, and requests without an answer. It never follows
redirects. Its users decide what to try again, and what a reply means.
"""

from __future__ import annotations

import email.utils
import math
import os
import re
import socket
import ssl
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline.errors import UsageError
from pipeline.targets import is_loopback

# httpx loads its own command line if it can, with pygments and the progress bars of rich: a tenth of a small `apply`.
# Without its optional libraries it does not; so that module is hidden while httpx is imported.
_modules: dict[str, Any] = sys.modules
_hidden = _modules.setdefault("httpx._main", None) is None

import httpx as httpx  # noqa: E402

if _hidden:
    _modules.pop("httpx._main", None)

MOST_ANSWER = 512 << 20
"""At most this many bytes of the body of a success are read into memory."""
MOST_REFUSAL = 64 << 10
"""At most this many bytes of any other body are read."""
_PIECE = 1 << 18
_NO_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
"""Errors of a name that does not exist; other failures of a lookup prove nothing about the name."""


class CutOff(Exception):
    """An answer is incomplete or cannot be decoded; the message says how that was noticed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of one request. Status 0: no complete answer; `failure` is the reason, and `hint` what to do about it.

    `reached`: a server answered or may have. `final`: another request would fail in the same way. `unreadable`: an
    answer came but was incomplete. `value` is what `save` returned. `retry_after` is in seconds, 0 without the header.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    value: Any = None
    failure: str = ""
    hint: str = ""
    retry_after: float = 0.0
    reached: bool = True
    final: bool = False
    unreadable: bool = False

    @property
    def is_passing(self) -> bool:
        return self.status in (0, 408, 429) or self.status >= 500


def open_client(
    base: str,
    headers: Mapping[str, str],
    *,
    timeout: float,
    certificates: ssl.SSLContext | None,
    auth: httpx.Auth | None = None,
) -> httpx.Client:
    """A client for requests to one service. `timeout` limits each wait for bytes, in seconds."""
    return httpx.Client(
        auth=auth,
        headers={"User-Agent": "backcast", "Accept-Encoding": "gzip", **headers},
        timeout=httpx.Timeout(timeout, connect=min(timeout, 20.0)),
        verify=certificates or False,
        trust_env=not is_loopback(base),
    )


def certificates_for(base: str, ca_file: str | None) -> ssl.SSLContext | None:
    """The certificates to trust for an https address, None for http: those in `ca_file`, else those in SSL_CERT_FILE,
    else httpx's own. Raises UsageError. Reading them takes a while."""
    if not base.startswith("https"):
        return None
    ca_file = ca_file or os.environ.get("SSL_CERT_FILE")
    if not ca_file:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"cannot read the certificates in {ca_file}: {error}",
            hint="give a readable PEM file with --ca-file or in SSL_CERT_FILE",
        ) from None


def exchange(
    client: httpx.Client,
    method: str,
    url: str,
    *,
    most: int = MOST_ANSWER,
    save: Callable[[httpx.Response], Any] | None = None,
    **request: Any,
) -> Reply:
    """Send one request, and read the body of its answer: unpacked from gzip, and at most `most` bytes plus one.

    `save` reads the body of a 200 answer itself, and may raise CutOff. `request` is what httpx builds the request from.
    """
    host = ""
    try:
        built = client.build_request(method, url, **request)
        host = built.url.host
        response = client.send(built, stream=True)
        try:
            if save is not None and response.status_code == 200:
                return Reply(200, response.headers, value=save(response))
            body = _body(response, most if response.is_success else min(most, MOST_REFUSAL))
        finally:
            response.close()
            del response.stream  # it refers to the response: both would keep the sent body until a garbage collection
    except CutOff as error:
        return Reply(0, failure=str(error), unreadable=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return failed(error, host)
    seconds = retry_after(response.headers.get("retry-after", ""), datetime.now(UTC))
    return Reply(response.status_code, response.headers, body, retry_after=seconds)


def _body(response: httpx.Response, most: int) -> bytes:
    """Only gzip was asked for, so only that is unpacked: a few bytes of another compression can become any number."""
    gunzip = zlib.decompressobj(31) if response.headers.get("content-encoding", "").lower() == "gzip" else None
    body = bytearray()
    for piece in response.iter_raw(_PIECE):
        try:
            body += gunzip.decompress(piece, most + 1 - len(body)) if gunzip else piece[: most + 1 - len(body)]
        except zlib.error as error:
            if response.is_success:
                raise CutOff(f"the compressed body is damaged ({error})") from None
            break
        if len(body) > most:
            break
    return bytes(body)


def failed(error: httpx.HTTPError | httpx.InvalidURL, host: str) -> Reply:
    if isinstance(error, httpx.InvalidURL):
        return Reply(0, failure=f"an address that is not valid: {error}", reached=False, final=True)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.ProxyError):
        return _unconnected(error, host)
    return Reply(0, failure=f"{type(error).__name__}: {error}")


def _unconnected(error: httpx.HTTPError, host: str) -> Reply:
    """What a failed connection means, whatever the reason; no byte of the request was sent."""
    failure = f"no connection: {str(error) or type(error).__name__}"
    hint = "check the address and its port, and the network of this machine"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            failure = f"its certificate is not trusted: {cause.verify_message}"
            hint = "check the address; give the certificate of its authority with --ca-file"
            return Reply(0, failure=failure, hint=hint, reached=False, final=True)
        if isinstance(cause, ssl.SSLError):
            failure = f"no TLS: {cause.reason or cause}"
            hint = "check the address: does https belong there, and this port?"
            break
        if isinstance(cause, socket.gaierror):
            what = "there is no host" if cause.errno in _NO_NAME else "the name lookup failed for the host"
            failure, hint = f"{what} {host}: {cause.strerror}", "check the name, and the network of this machine"
            break
        cause = cause.__cause__ or cause.__context__
    return Reply(0, failure=failure, hint=hint, reached=False)


def retry_after(text: str, now: datetime) -> float:
    """The least number of seconds to wait, from a Retry-After header in seconds or as a date; 0 if it has neither."""
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
