"""The capture endpoint over HTTP: `POST {ingest_url}/batch/`, JSON, gzip.

What an answer means is decided here, in one pure function, by the table of DESIGN 7 (service-behaviour 1.5: error
bodies are plain text; one bad event rejects its whole batch; a 200 can say that the quota dropped everything).
"""

from __future__ import annotations

import email.utils
import json
import ssl
from datetime import UTC, datetime
from urllib.parse import urljoin, urlsplit

import httpx

from pipeline.deliver.sink import Answer, Receipt
from pipeline.errors import UsageError

REGIONS = {"us": "https://us.i.posthog.com", "eu": "https://eu.i.posthog.com"}
"""Capture hosts (service-behaviour 1.1)."""
RETRIED = frozenset({408, 429, 500, 502, 503, 504})
MOST_HOPS = 5
_SHOWN = 300


def address_of(target: str) -> str:
    """The base address of a target: `us`, `eu` or an http(s) URL. Raises UsageError."""
    if target in REGIONS:
        return REGIONS[target]
    parts = urlsplit(target)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"not a target: {target!r}", hint="give us, eu or a URL such as http://127.0.0.1:8100")
    return target.rstrip("/")


def is_loopback(address: str) -> bool:
    """Whether a target is this machine."""
    return urlsplit(address).hostname in ("127.0.0.1", "localhost", "::1")


class CaptureSink:
    """Sends to one capture endpoint. Thread-safe."""

    def __init__(
        self,
        target: str,
        *,
        dialect: str = "contract",
        timeout: float = 60.0,
        ca_file: str | None = None,
        redirect_hosts: tuple[str, ...] = (),
        connections: int = 16,
    ) -> None:
        self.address = address_of(target)
        self._url = self.address + "/batch/"
        self._dialect = dialect
        self._redirect_hosts = frozenset(redirect_hosts)
        verify: ssl.SSLContext | bool = True
        if ca_file:
            try:
                verify = ssl.create_default_context(cafile=ca_file)
            except (OSError, ssl.SSLError) as error:
                raise UsageError(
                    f"cannot read the certificates in {ca_file}: {error}", hint="give a PEM file"
                ) from None
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(timeout, 20.0)),
            verify=verify if self._url.startswith("https") else False,
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            headers={
                "Content-Type": "application/json",
                "Content-Encoding": "gzip",
                "User-Agent": "backcast",
                "Accept": "application/json, text/plain",
            },
            follow_redirects=False,
            trust_env=not is_loopback(self.address),
        )

    def send(self, body: bytes) -> Receipt:
        url = self._url
        for _ in range(MOST_HOPS + 1):
            try:
                response = self._client.post(url, content=body)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                return Receipt(Answer.RETRY, 0, f"no connection: {error}", left=False)
            except httpx.TransportError as error:
                return Receipt(Answer.RETRY, 0, f"no answer: {type(error).__name__}: {error}")
            except (httpx.InvalidURL, httpx.DecodingError) as error:
                return Receipt(Answer.DOUBT, 0, f"an answer nobody can read: {error}")
            if response.status_code not in (301, 302, 303, 307, 308):
                return judge(response.status_code, response.content, response.headers, self._dialect)
            onward = urljoin(url, response.headers.get("location", ""))
            problem = self._refusal(url, onward)
            if problem:
                return Receipt(Answer.STOP, response.status_code, problem)
            url = onward
        return Receipt(Answer.STOP, response.status_code, f"more than {MOST_HOPS} redirects, the last to {url}")

    def _refusal(self, origin: str, onward: str) -> str:
        """Why a redirect is not followed, or "": the project key is in the body and goes where the body goes."""
        before, after = urlsplit(origin), urlsplit(onward)
        if after.scheme not in ("http", "https") or onward == origin:
            return f"a redirect that leads nowhere: {onward!r}"
        if before.scheme == "https" and after.scheme == "http":
            return f"a redirect from https to http: {onward}"
        home = urlsplit(self.address).hostname
        if after.hostname != home and after.hostname not in self._redirect_hosts:
            return f"a redirect to another host: {after.hostname}; allow it with --allow-redirect-host {after.hostname}"
        return ""

    def close(self) -> None:
        self._client.close()


def judge(status: int, body: bytes, headers: httpx.Headers, dialect: str = "contract") -> Receipt:
    """What one answer means. Pure."""
    text = body[:_SHOWN].decode("utf-8", "replace").strip()
    if 200 <= status < 300:
        return _judge_success(status, body, text, dialect)
    if status in RETRIED or 500 <= status < 600:
        return Receipt(Answer.RETRY, status, text, retry_after(headers.get("retry-after", ""), datetime.now(UTC)))
    if status == 400:
        return Receipt(Answer.POISON, status, text)
    if status == 413:
        return Receipt(Answer.TOO_LARGE, status, text)
    return Receipt(Answer.STOP, status, text or "no reason given")


def _judge_success(status: int, body: bytes, text: str, dialect: str) -> Receipt:
    if not body.strip():
        if dialect == "posthog":
            return Receipt(Answer.DOUBT, status, "an empty answer, which the service never gives")
        return Receipt(Answer.SETTLED, status)
    try:
        said = json.loads(body)
    except ValueError:
        return Receipt(Answer.DOUBT, status, f"an answer that is no JSON: {text}")
    if isinstance(said, dict) and said.get("quota_limited"):
        return Receipt(Answer.STOP, status, f"the quota is used up and the events were dropped: {text}")
    if dialect == "posthog" and (not isinstance(said, dict) or said.get("status") not in ("Ok", 1)):
        return Receipt(Answer.DOUBT, status, f"an answer the service never gives: {text}")
    return Receipt(Answer.SETTLED, status)


def retry_after(text: str, now: datetime) -> float:
    """Seconds to wait at least, from a Retry-After header in seconds or as a date; 0 when there is none."""
    text = text.strip()
    if not text:
        return 0.0
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
