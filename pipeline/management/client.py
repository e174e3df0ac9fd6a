"""The management API over HTTP: `Authorization: Bearer <personal key>`, project-scoped, trailing slashes.

The key goes to one origin (scheme, host and port) and nowhere else: redirects are not followed, nor is a `next` that
leads elsewhere. If an error shows a response, the key and the input values that were sent are masked in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

from pipeline.config import Secret, masking
from pipeline.delivery.retry import RetryPolicy, backoff, with_retries
from pipeline.errors import Refused, UsageError
from pipeline.http import Reply, certificates_for, exchange, httpx, open_client
from pipeline.management.operations import QUERY, Endpoint
from pipeline.management.problems import (
    ServiceProblem,
    error_for,
    no_answer,
    not_sent,
    read_error_body,
    unexpected_answer,
)
from pipeline.targets import address_of, has_files, region_of

if TYPE_CHECKING:
    from pipeline.management.models import ServiceObject
    from pipeline.management.resources import HogFunctions, Projects, SessionRecordings

DEFAULT_TRIES = 4
REGIONS = {"us": "https://us.posthog.com", "eu": "https://eu.posthog.com"}
"""Hosts of the private API (docs/know/service.md#routes-and-hosts)."""
_SHOWN = 300
_SHORTEST_SECRET = 4
"""Only input values of at least this many characters are masked; shorter ones would mask half of a sentence."""
Query = Mapping[str, str | int | bool | None]
Body: TypeAlias = "ServiceObject | Mapping[str, object] | bytes"


def management_address(target: str, api: str | None = None) -> str:
    """Where the management API of a target is: `us`, `eu`, a URL, or a capture host for its region's.

    `api` is its address if that does not follow from the target. Raises UsageError.
    """
    chosen = api or target
    return REGIONS.get(region_of(chosen)) or address_of(chosen)


class QueryAnswer(NamedTuple):
    """Rows of one query. `types` pairs each column with its type. `more`: the service cut the rows off."""

    columns: list[str]
    types: list[Any]
    results: list[list[Any]]
    more: bool = False


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """A success: its status, its body and the media type of the body. `gone`: the object no longer exists (404).

    `date` is the `Date` header, empty if there is none.
    """

    operation: Endpoint
    url: str
    status: int
    body: bytes = field(repr=False)
    media_type: str
    gone: bool = False
    date: str = ""

    def json(self) -> Any:
        """The body as JSON; None if it is empty. Raises UnexpectedAnswer."""
        if not self.body.strip():
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise unexpected_answer(self.operation, self.url, self.status, "its body is not JSON") from None


class ManagementClient:
    """A client for one project. Use as a context manager, or `close` it.

    `base_url` is us, eu or a URL; a capture host stands for its region. Without a `project_id`, only `projects` works
    until `choose_project`. Thread-safe after that. Raises UsageError.

    Every method raises a `pipeline.management.problems.ServiceProblem` for an answer that is not a success. GET, PATCH,
    PUT and DELETE are resent after 408, 429, 5xx or no answer; a POST is sent once.
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
            raise UsageError(
                "the personal key is empty, or contains a space or another character that no key has",
                hint="copy it again; it begins with phx_",
            )
        if project_id is not None:
            _segment("project id", project_id)
        self.base_url = management_address(base_url)
        if has_files(self.base_url):
            raise UsageError(
                f"{base_url} takes files and has no management API", hint="name us, eu or the URL of a service"
            )
        self.project_id = project_id
        self._key = personal_key
        self._retry = retry or RetryPolicy(tries=DEFAULT_TRIES)
        self._http = open_client(
            self.base_url,
            {"Authorization": f"Bearer {key}", "Accept": "application/json, */*"},
            timeout=timeout,
            certificates=certificates_for(self.base_url, ca_file),
        )

    def __enter__(self) -> ManagementClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ManagementClient({self.base_url!r}, ***, {self.project_id!r})"

    def close(self) -> None:
        self._http.close()

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
        """Use the key's only project from now on; returns its id. Raises UsageError if there are several, and names
        them."""
        self.project_id = self.projects.only_id()
        return self.project_id

    def call(
        self,
        operation: Endpoint,
        id: str | None = None,
        *,
        query: Query | None = None,
        body: Body | None = None,
        gone_is_done: bool = False,
    ) -> ServiceResponse:
        """Do one operation. `gone_is_done`: 404 is a success if an earlier try without a response may have done it.

        Query parameters that are None are left out; a bool is sent as true or false.
        """
        return self._call(operation, self._address(operation, id, query or {}), body, gone_is_done)

    def follow(self, operation: Endpoint, page: ServiceResponse, url: str) -> ServiceResponse:
        """The page that `url`, the `next` of another page, leads to. Raises UnexpectedAnswer if it leads elsewhere."""
        try:
            onward = urljoin(page.url, url)
            same = _origin(onward) == _origin(self.base_url)
        except ValueError:
            same = False
        if not same:
            raise unexpected_answer(
                operation, page.url, page.status, f"its next page has another address: {url[:_SHOWN]!r}"
            )
        return self._call(operation, onward, None, False)

    def _address(self, operation: Endpoint, id: str | None, query: Query) -> str:
        ids = {}
        if operation.in_project:
            if self.project_id is None:
                raise UsageError(f"{operation.name} needs a project", hint="give its id, or call choose_project()")
            ids["project_id"] = _segment("project id", self.project_id)
        if operation.of_one:
            ids["id"] = ids["recording_id"] = _segment("id", id or "")
        parameters = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in query.items()
            if value is not None
        }
        url = f"{self.base_url}{operation.path.format(**ids)}/"
        return f"{url}?{httpx.QueryParams(parameters)}" if parameters else url

    def _call(
        self,
        operation: Endpoint,
        url: str,
        body: Body | None,
        gone_is_done: bool,
    ) -> ServiceResponse:
        content = None if body is None else encoded(body)
        # A precondition fails on the second try.
        again = operation.method != "POST" and b'"base_updated_at"' not in (content or b"")
        last, doubtful = self._send(operation.method, url, content, again)
        media_type = last.headers.get("content-type", "").partition(";")[0].strip()
        if 200 <= last.status < 300:
            return ServiceResponse(
                operation, url, last.status, last.body, media_type, date=last.headers.get("date", "")
            )
        if last.status == 404 and gone_is_done and doubtful:
            return ServiceResponse(operation, url, last.status, b"", media_type, gone=True)
        raise self._problem(operation, url, content, last, doubtful)

    def _send(self, method: str, url: str, content: bytes | None, again: bool) -> tuple[Reply, bool]:
        """The last reply to a request, which is resent if `again`, with back-off and at least Retry-After; and whether
        an earlier try may have done the operation.

        Only `tries` (None: no retries), `first` and `most` of the retry policy count: a person waits for the response,
        and the service limits calls per minute (docs/know/service.md#management-api), so a wait of more than a minute
        is reported.
        """
        headers = {} if content is None else {"Content-Type": "application/json"}
        doubts: list[bool] = []

        def attempt() -> Reply:
            reply = exchange(self._http, method, url, content=content, headers=headers)
            doubts.append(reply.reached and reply.status not in (429, *range(200, 300)))
            return reply

        def is_retried(reply: Reply) -> bool:
            hopeless = reply.final or reply.unreadable or reply.retry_after > self._retry.most
            return again and reply.is_passing and not hopeless

        most = (self._retry.tries or 0) + 1
        wait = backoff(self._retry)
        last = with_retries(attempt, is_retried, wait=wait, stop=lambda state: state.attempt_number >= most)
        return last, any(doubts[:-1])

    def _problem(
        self, operation: Endpoint, url: str, content: bytes | None, last: Reply, doubtful: bool
    ) -> ServiceProblem:
        key, values = masking(self._key.reveal()), list(_input_values(content))

        def mask(text: str) -> str:
            text = key.sub("***", text)
            for secret in values:
                text = text.replace(secret, "***")
            return text

        if not last.status:
            error = not_sent if last.final else no_answer
            return error(operation, url, mask(last.failure))
        if 300 <= last.status < 400:
            onward = mask(last.headers.get("location", ""))[:_SHOWN]
            return unexpected_answer(operation, url, last.status, f"it redirects to {onward!r}, which is not followed")
        error_body = read_error_body(last.body.decode("utf-8", "replace"), mask)
        return error_for(operation, url, last.status, error_body, retry_after=last.retry_after, doubtful=doubtful)

    def query(self, sql: str) -> QueryAnswer:
        """Run one read-only SELECT, once. Raises Refused, also for a bad query, and Unfinished if it must wait."""
        try:
            answer = self.call(QUERY, body={"query": {"kind": "HogQLQuery", "query": sql}})
        except ServiceProblem as error:
            if isinstance(error, UsageError):
                raise Refused(error.message, status=error.status, hint=error.hint) from None
            raise
        try:
            result = answer.json()
            return QueryAnswer(result["columns"], result["types"], result["results"], result.get("hasMore") is True)
        except (KeyError, TypeError):
            raise unexpected_answer(QUERY, answer.url, answer.status, "it is not a query result") from None


def encoded(body: Body) -> bytes:
    """A body as JSON. Raises UsageError for values that JSON cannot express."""
    if isinstance(body, bytes):
        return body
    value = dict(body) if isinstance(body, Mapping) else body.plain()
    try:
        return json.dumps(value, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the body cannot be written as JSON: {error}", hint="use only JSON values") from None


def _plain(value: object) -> object:
    plain = getattr(value, "plain", None)
    if plain is None:
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    return plain()


def _input_values(content: bytes | None) -> Iterator[str]:
    """Strings and numbers in a body's inputs, longest first: any of them may be a secret."""
    try:
        body = json.loads(content or b"null")
    except (ValueError, RecursionError):
        return
    if not isinstance(body, dict):
        return
    mappings = body.get("mappings")
    values: list[object] = [mapping.get("inputs") for mapping in (mappings or []) if isinstance(mapping, dict)]
    values.append(body.get("inputs"))
    secrets: set[str] = set()
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
        elif isinstance(value, str) and len(value) >= _SHORTEST_SECRET:
            secrets.update((value, json.dumps(value)[1:-1]))
        elif isinstance(value, int | float) and len(str(value)) >= _SHORTEST_SECRET and not isinstance(value, bool):
            secrets.add(str(value))
    yield from sorted(secrets, key=len, reverse=True)


def _segment(kind: str, text: str) -> str:
    """An id as one segment of a path. Raises UsageError if it would lead to another path."""
    if not isinstance(text, str) or text.strip() in ("", ".", "..") or not text.isprintable():
        raise UsageError(f"{text!r} is not a valid {kind}", hint=f"copy the {kind} as the service shows it")
    return quote(text, safe="")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("a user in an address")
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
