"""The management API over HTTP: `Authorization: Bearer <personal key>`, project-scoped, trailing slashes.

The key goes to one origin (scheme, host and port) and nowhere else: redirects are not followed, nor is a `next` that
leads elsewhere. A response that is shown in an error has the key and the input values that were sent masked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

import httpx

from pipeline.config import Secret
from pipeline.delivery.retry import RetryPolicy
from pipeline.delivery.transport import retry_after, trusted
from pipeline.errors import Refused, Unfinished, UsageError
from pipeline.management.operations import Operation
from pipeline.management.problems import (
    ServiceProblem,
    error_for,
    no_answer,
    read_error_body,
    unexpected_answer,
    untrusted,
)
from pipeline.management.retry import RequestAttempt, RequestResult, request_with_retries
from pipeline.targets import address_of, is_loopback, region_of

if TYPE_CHECKING:
    from pipeline.management.models import ServiceObject
    from pipeline.management.resources import HogFunctions, Projects, SessionRecordings

DEFAULT_TRIES = 4
REGIONS = {"us": "https://us.posthog.com", "eu": "https://eu.posthog.com"}
"""Hosts of the private API (docs/know/service.md#routes-and-hosts)."""
_SHOWN = 300
_SHORTEST_SECRET = 4
"""Characters of the shortest input value that is masked; shorter ones would mask half of a sentence."""
Query = Mapping[str, str | int | bool | None]


def management_address(target: str, api: str | None = None) -> str:
    """Where the management API of a target is: `us`, `eu`, a URL, or a capture host, which stands for its region.

    `api` is its address where that cannot be read_error_body from the target. Raises UsageError.
    """
    chosen = api or target
    return REGIONS.get(region_of(chosen)) or address_of(chosen)


class QueryAnswer(NamedTuple):
    """Rows of one query. `types` pairs each column with its type."""

    columns: list[str]
    types: list[Any]
    results: list[list[Any]]


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """A success: its status, its body and the media type of that. `gone`: nothing was there any more (404).

    `date` is the `Date` header, empty where there is none.
    """

    operation: Operation
    url: str
    status: int
    body: bytes = field(repr=False)
    media_type: str
    gone: bool = False
    date: str = ""

    def json(self) -> Any:
        """The body as JSON; None when it is empty. Raises UnexpectedAnswer."""
        if not self.body.strip():
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise unexpected_answer(self.operation, self.url, self.status, "its body is no JSON") from None


class ManagementClient:
    """A client for one project. Use as a context manager, or `close` it.

    `base_url` is us, eu or a URL; a capture host of a region stands for that region. Without a `project_id` only
    `projects` can be used, until `choose_project`. Thread-safe after that. Raises UsageError.

    Every method raises a `pipeline.management.problems.ServiceProblem` for an answer that is no success. GET, PATCH,
    PUT and DELETE are asked again after 408, 429, 5xx or no answer; a POST is sent once.
    """

    def __init__(
        self,
        base_url: str,
        personal_key: Secret,
        project_id: str | None = None,
        *,
        timeout: float = 120.0,
        retry: RetryPolicy | None = None,
        ca_file: str | None = None,
    ) -> None:
        key = personal_key.reveal()
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise UsageError("the personal key has a shape that no key has", hint="copy it again: phx_ and letters")
        if project_id is not None:
            _segment("project id", project_id)
        self.base_url = management_address(base_url)
        self.project_id = project_id
        self._key = personal_key
        self._retry = retry or RetryPolicy(tries=DEFAULT_TRIES)
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(timeout, 20.0)),
            headers={"Authorization": f"Bearer {key}", "User-Agent": "backcast", "Accept": "application/json, */*"},
            verify=trusted(ca_file) if self.base_url.startswith("https") else False,
            trust_env=not is_loopback(self.base_url),
        )

    def __enter__(self) -> ManagementClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ManagementClient({self.base_url!r}, ***, {self.project_id!r})"

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    @cached_property
    def hog_functions(self) -> HogFunctions:
        """Hog functions of the project (docs/know/service.md#hog-functions)."""
        from pipeline.management.resources import HogFunctions

        return HogFunctions(self)

    @cached_property
    def session_recordings(self) -> SessionRecordings:
        """Session recordings of the project (docs/know/service.md#session-recordings)."""
        from pipeline.management.resources import SessionRecordings

        return SessionRecordings(self)

    @cached_property
    def projects(self) -> Projects:
        """Projects that the key reaches (docs/know/service.md#management-api)."""
        from pipeline.management.resources import Projects

        return Projects(self)

    def choose_project(self) -> str:
        """Use the key's only project from now on; returns its id. Raises UsageError, naming them, for several."""
        self.project_id = self.projects.only_id()
        return self.project_id

    def call(
        self,
        operation: Operation,
        id: str | None = None,
        *,
        query: Query | None = None,
        body: ServiceObject | Mapping[str, object] | bytes | None = None,
        gone_is_done: bool = False,
    ) -> ServiceResponse:
        """Do one operation. `gone_is_done`: 404 is a success where an earlier try without a response may have done it.

        Query parameters that are None are left out; a bool is sent as true or false.
        """
        return self._call(operation, self._address(operation, id, query or {}), body, gone_is_done)

    def follow(self, operation: Operation, page: ServiceResponse, url: str) -> ServiceResponse:
        """The page that `url`, the `next` of another page, leads to. Raises UnexpectedAnswer if it leads elsewhere."""
        try:
            onward = urljoin(page.url, url)
            same = _origin(onward) == _origin(self.base_url)
        except ValueError:
            same = False
        if not same:
            raise unexpected_answer(
                operation, page.url, page.status, f"its next page is at another address: {url[:_SHOWN]!r}"
            )
        return self._call(operation, onward, None, False)

    def _address(self, operation: Operation, id: str | None, query: Query) -> str:
        places = {}
        if "{project_id}" in operation.path:
            if self.project_id is None:
                raise UsageError(f"which project, to {operation.name}?", hint="name its id, or choose_project()")
            places["project_id"] = _segment("project id", self.project_id)
        if "{id}" in operation.path:
            places["id"] = _segment("id", id or "")
        asked = {name: _parameter(value) for name, value in query.items() if value is not None}
        path = operation.path.format(**places)
        return f"{self.base_url}{path}" + (f"?{httpx.QueryParams(asked)}" if asked else "")

    def _call(
        self,
        operation: Operation,
        url: str,
        body: ServiceObject | Mapping[str, object] | bytes | None,
        gone_is_done: bool,
    ) -> ServiceResponse:
        content = None if body is None else encoded(body)
        again = operation.again and b'"base_updated_at"' not in (content or b"")  # a precondition fails the second time
        sent = request_with_retries(lambda: self._ask(operation.method, url, content), self._retry, again=again)
        last = sent.last
        media_type = last.headers.get("content-type", "").partition(";")[0].strip()
        if 200 <= last.status < 300:
            return ServiceResponse(
                operation, url, last.status, last.body, media_type, date=last.headers.get("date", "")
            )
        if last.status == 404 and gone_is_done and sent.doubtful:
            return ServiceResponse(operation, url, last.status, b"", media_type, gone=True)
        raise self._problem(operation, url, content, sent)

    def _ask(self, method: str, url: str, content: bytes | None) -> RequestAttempt:
        headers = {} if content is None else {"Content-Type": "application/json"}
        try:
            answer = self._client.request(method, url, content=content, headers=headers)
        except httpx.ConnectError as error:
            distrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
            return RequestAttempt(0, {}, b"", f"no connection: {error}", reached=False, final=distrusted)
        except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return RequestAttempt(0, {}, b"", f"no connection: {type(error).__name__}", reached=False)
        except httpx.TransportError as error:
            return RequestAttempt(0, {}, b"", f"{type(error).__name__}: {error}")
        except (httpx.DecodingError, httpx.InvalidURL) as error:
            return RequestAttempt(0, {}, b"", f"an answer nobody can read: {error}", final=True)
        floor = retry_after(answer.headers.get("retry-after", ""), datetime.now(UTC))
        return RequestAttempt(answer.status_code, answer.headers, answer.content, retry_after=floor)

    def _problem(self, operation: Operation, url: str, content: bytes | None, sent: RequestResult) -> ServiceProblem:
        last = sent.last
        secrets = (self._key.reveal(), *_input_values(content))

        def mask(text: str) -> str:
            for secret in secrets:
                text = text.replace(secret, "***")
            return text

        if not last.status:
            refusal = untrusted if last.final and not last.reached else no_answer
            return refusal(operation, url, mask(last.failure))
        if 300 <= last.status < 400:
            onward = mask(last.headers.get("location", ""))[:_SHOWN]
            return unexpected_answer(operation, url, last.status, f"a redirect is not followed, here to {onward!r}")
        error_body = read_error_body(last.body.decode("utf-8", "replace"), mask)
        return error_for(operation, url, last.status, error_body, retry_after=last.retry_after, doubtful=sent.doubtful)

    def query(self, sql: str) -> QueryAnswer:
        """Run one read-only SELECT. Raises Refused for an answer other than 200, Unfinished when it must wait."""
        url = f"{self.base_url}/api/projects/{_segment('project id', self.project_id or '')}/query/"
        try:
            response = self._client.post(url, json={"query": {"kind": "HogQLQuery", "query": sql}})
        except httpx.HTTPError as error:
            raise Unfinished(f"no answer from {self.base_url}: {error}", hint="run the same command again") from None
        said = response.text.replace(self._key.reveal(), "***")[:_SHOWN]
        if response.status_code == 429 or response.status_code >= 500:
            raise Unfinished(
                f"{url} answered {response.status_code}: {said}", hint="wait a little and run the same command again"
            )
        if response.status_code != 200:
            raise Refused(
                f"{url} answered {response.status_code}: {said}",
                status=response.status_code,
                hint="check the personal key, its scope query:read and the project",
            )
        try:
            found = response.json()
            return QueryAnswer(found["columns"], found["types"], found["results"])
        except (ValueError, KeyError, TypeError):
            raise Refused(
                f"{url} gave no result of a query: {said}",
                status=response.status_code,
                hint="check the address: --to names the service itself",
            ) from None


def encoded(body: ServiceObject | Mapping[str, object] | bytes) -> bytes:
    """A body as JSON. Raises UsageError for what JSON cannot express."""
    if isinstance(body, bytes):
        return body
    value = dict(body) if isinstance(body, Mapping) else body.plain()
    try:
        return json.dumps(value, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"a body that JSON cannot say: {error}", hint="give JSON values only") from None


def _plain(value: object) -> object:
    """Models inside a mapping."""
    plain = getattr(value, "plain", None)
    if plain is None:
        raise TypeError(f"{type(value).__name__} is no JSON value")
    return plain()


def _input_values(content: bytes | None) -> Iterator[str]:
    """Texts and numbers inside the inputs of a body, longest first: any of them may be a secret."""
    try:
        body = json.loads(content or b"null")
    except (ValueError, RecursionError):
        return
    if not isinstance(body, dict):
        return
    mappings = body.get("mappings")
    inputs = [body.get("inputs"), *(one.get("inputs") for one in (mappings or []) if isinstance(one, dict))]
    found: set[str] = set()
    waiting: list[object] = list(inputs)
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, str) and len(one) >= _SHORTEST_SECRET:
            found.update((one, json.dumps(one)[1:-1]))
        elif isinstance(one, int | float) and len(str(one)) >= _SHORTEST_SECRET and not isinstance(one, bool):
            found.add(str(one))
    yield from sorted(found, key=len, reverse=True)


def _segment(what: str, text: str) -> str:
    """An id as one segment of a path. Raises UsageError for what would lead to another path."""
    if not isinstance(text, str) or text.strip() in ("", ".", "..") or not text.isprintable():
        raise UsageError(f"this is no {what}: {text!r}", hint=f"give the {what} as the service shows it")
    return quote(text, safe="")


def _parameter(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("a user in an address")
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
