"""Requests to the management API, and retries of them: back-off with jitter, Retry-After as a floor.

A person waits for the response, and the service limits calls by the minute (docs/know/service.md#management-api), so a
service that asks for a wait of more than a minute is reported instead of waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pipeline.config import Secret
from pipeline.delivery.http_library import httpx
from pipeline.delivery.retry import RetryPolicy, backoff, with_retries
from pipeline.delivery.transport import retry_after, trusted
from pipeline.targets import is_loopback


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one request. Status 0: no response, and `failure` is the reason.

    `reached`: the service may have done the operation. `final`: another request would not help. `doubtful`: an earlier
    request of the same operation may have done it.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    failure: str = ""
    reached: bool = True
    final: bool = False
    retry_after: float = 0.0
    doubtful: bool = False


class ApiTransport:
    """Sends requests with a personal key. Thread-safe. `timeout` bounds each wait for bytes, in seconds."""

    def __init__(self, base_url: str, key: Secret, timeout: float, ca_file: str | None) -> None:
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(timeout, 20.0)),
            headers={
                "Authorization": f"Bearer {key.reveal()}", "User-Agent": "backcast", "Accept": "application/json, */*"
            },
            verify=trusted(ca_file) if base_url.startswith("https") else False,
            trust_env=not is_loopback(base_url),
        )  # fmt: skip

    def request(self, method: str, url: str, content: bytes | None) -> Attempt:
        """Send one request, with `content` as its JSON body."""
        headers = {} if content is None else {"Content-Type": "application/json"}
        try:
            response = self._client.request(method, url, content=content, headers=headers)
        except httpx.ConnectError as error:
            distrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
            return Attempt(0, failure=f"no connection: {error}", reached=False, final=distrusted)
        except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return Attempt(0, failure=f"no connection: {type(error).__name__}", reached=False)
        except httpx.TransportError as error:
            return Attempt(0, failure=f"{type(error).__name__}: {error}")
        except (httpx.DecodingError, httpx.InvalidURL) as error:
            return Attempt(0, failure=f"an answer that cannot be decoded: {error}", final=True)
        floor = retry_after(response.headers.get("retry-after", ""), datetime.now(UTC))
        return Attempt(response.status_code, response.headers, response.content, retry_after=floor)

    def request_with_retries(self, method: str, url: str, content: bytes | None, retry: RetryPolicy) -> Attempt:
        """Send a request until its response is final or the tries of the policy are used up. Returns the last attempt.

        Of the policy only `tries` (None: none after the first), `first` and `most` count.
        """
        doubts: list[bool] = []

        def attempt() -> Attempt:
            result = self.request(method, url, content)
            doubts.append(result.reached and result.status not in (429, *range(200, 300)))
            return result

        def is_retried(result: Attempt) -> bool:
            passing = result.status in (0, 408, 429) or result.status >= 500
            return passing and not result.final and result.retry_after <= retry.most

        most = (retry.tries or 0) + 1
        last = with_retries(attempt, is_retried, wait=backoff(retry), stop=lambda state: state.attempt_number >= most)
        return replace(last, doubtful=any(doubts[:-1]))

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """An address with query parameters."""
    return f"{url}?{httpx.QueryParams(parameters)}" if parameters else url
