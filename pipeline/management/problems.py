"""Errors of the management API: one class for each kind of response, with the service's own words.

    BackcastError
    └── ServiceProblem                  status, type, code, detail, attr
        ├── BadRequest        exit 2    400: correct the body or a filter; `attr` names the field
        ├── NotFound          exit 2    404: correct the id or the project
        ├── NotAllowed        exit 2    405: the service has no such operation
        ├── Unauthenticated   exit 5    401: correct the key
        ├── Forbidden         exit 5    403: the key lacks `scope`, or does not reach the project
        ├── Conflict          exit 5    409: the object was changed: retrieve it, then repeat
        ├── UnexpectedAnswer  exit 5    any other answer: is this the service at all?
        ├── Throttled         exit 6    429: wait `retry_after` seconds
        └── ServiceDown       exit 6    5xx or no answer (status 0): run it again

BadRequest, NotFound and NotAllowed are also UsageErrors, the others Refused, but Throttled and ServiceDown are
Unfinished: their `retry_after` is in seconds, 0 if the response has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from pipeline.errors import BackcastError, Refused, Unfinished, UsageError
from pipeline.management.operations import DELETE_FUNCTION, Endpoint

_SHOWN = 300
_UNCERTAIN = "it may have been done anyway: check before you {} again"
_SCOPE = re.compile(r"scope[^a-z*]{1,4}([a-z_]+:(?:read|write))")


class ServiceProblem(BackcastError):
    """A response that is not a success. Fields that it lacks are ""."""

    status = 0
    type = code = detail = attr = ""


class BadRequest(ServiceProblem, UsageError):
    """400."""


class NotFound(ServiceProblem, UsageError):
    """404."""


class NotAllowed(ServiceProblem, UsageError):
    """405."""


class Unauthenticated(ServiceProblem, Refused):
    """401."""


class Forbidden(ServiceProblem, Refused):
    """403. `scope` is what the operation needs according to the response, or else the contract."""

    scope = ""


class Conflict(ServiceProblem, Refused):
    """409."""


class UnexpectedAnswer(ServiceProblem, Refused):
    """A response that the service itself never sends."""


class Throttled(ServiceProblem, Unfinished):
    """429."""


class ServiceDown(ServiceProblem, Unfinished):
    """5xx, or no response."""


_KINDS: dict[int, type[ServiceProblem]] = {
    400: BadRequest, 401: Unauthenticated, 403: Forbidden, 404: NotFound,
    405: NotAllowed, 409: Conflict, 429: Throttled,
}  # fmt: skip


class ErrorBody(NamedTuple):
    """The fields of an error body, as in the service's envelope."""

    type: str
    code: str
    detail: str
    attr: str


def read_error_body(content: str, mask: Callable[[str], str]) -> ErrorBody:
    """Read an error body: the envelope, bare field errors of some operations, `{"error": …}`, or plain text.

    `mask` removes secrets from a string. (docs/know/service.md#management-api, #hog-functions; the contract shows no
    error bodies.)
    """

    def text(value: object) -> str:
        if value is None:
            return ""
        return mask(value if isinstance(value, str) else json.dumps(value))[:_SHOWN]

    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict) and "detail" in body:
        return ErrorBody(*(text(body.get(name)) for name in ("type", "code", "detail", "attr")))
    if isinstance(body, dict) and "error" in body:
        return ErrorBody("", text(body.get("code")), text(body["error"]), "")
    fields = [name for name, words in body.items() if isinstance(words, list)] if isinstance(body, dict) else []
    return ErrorBody("", "", text(content.strip()), text(fields[0]) if len(fields) == 1 else "")


def error_for(
    operation: Endpoint, url: str, status: int, body: ErrorBody, *, retry_after: float = 0.0, doubtful: bool = False
) -> ServiceProblem:
    """The error for a response other than 2xx. `doubtful`: an earlier try may have done the operation."""
    kind = _KINDS.get(status) or (ServiceDown if status >= 500 else UnexpectedAnswer)
    scope = ""
    if kind is Forbidden:
        named = _SCOPE.search(body.detail)
        scope = named.group(1) if named else operation.scope
    field = f" (field {body.attr})" if body.attr else ""
    earlier = "; an earlier try may have done it" if doubtful else ""
    error = kind(
        f"{operation.method} {url} answered {status}: {body.detail or body.code or 'no reason given'}{field}{earlier}",
        hint=_hint(kind, operation, body, scope, retry_after),
    )
    error.status, error.type, error.code, error.detail, error.attr = status, *body
    if isinstance(error, Forbidden):
        error.scope = scope
    if isinstance(error, Unfinished):
        error.retry_after = retry_after
    return error


def _hint(kind: type[ServiceProblem], operation: Endpoint, body: ErrorBody, scope: str, retry_after: float) -> str:
    if kind is Forbidden:
        if "not support personal API key" in body.detail:
            return f"{operation.name} on the service's own pages: personal keys have no access"
        if "project" in body.detail and "scope" not in body.detail:
            return "create a personal key that reaches this project, or name another with --project"
        return f"create a personal key with the scope {scope}, for this project"
    if kind is Throttled:
        return (
            f"wait {retry_after:.0f} seconds, then run it again" if retry_after else "wait a minute, then run it again"
        )
    if kind is ServiceDown:
        if operation.repeatable:
            return "wait a minute, then run it again"
        return _UNCERTAIN.format(operation.name)
    return {
        BadRequest: "correct the request as the message describes",
        NotFound: "check the id and the project; it may have been deleted",
        NotAllowed: "the only way to delete a hog function is an update with deleted true"
        if operation == DELETE_FUNCTION
        else "check the address: the service itself allows this operation",
        Unauthenticated: "check that the personal key is complete, not revoked, and for this region",
        Conflict: "somebody changed it: retrieve it, check it, and repeat",
        UnexpectedAnswer: "check the address: it must be the service's own",
    }[kind]


def no_answer(operation: Endpoint, url: str, failure: str) -> ServiceDown:
    """The error if no try got a response."""
    error = ServiceDown(
        f"{operation.method} {url} got no answer: {failure}",
        hint="check the address and the network, then run it again"
        if operation.repeatable
        else _UNCERTAIN.format(operation.name),
    )
    error.code = "no_answer"
    return error


def not_sent(operation: Endpoint, url: str, failure: str) -> UnexpectedAnswer:
    """The error if nothing was sent and nothing can be, because the certificate is not trusted."""
    return UnexpectedAnswer(
        f"{operation.method} {url} was not sent: {failure}",
        hint="name the certificates to trust in SSL_CERT_FILE",
    )


def unexpected_answer(operation: Endpoint, url: str, status: int, reason: str) -> UnexpectedAnswer:
    """The error for a success that the operation does not have. `reason` quotes nothing from the body, which may have
    secrets."""
    error = UnexpectedAnswer(
        f"{operation.method} {url} answered {status}, but {reason}",
        hint="check the address: it must be the service's own",
    )
    error.status = status
    return error
