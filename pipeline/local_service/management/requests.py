"""What an operation of the management API is and receives: bodies, parameters, pages, instants, and errors.

Errors are the JSON envelope of the service (docs/know/service.md#management-api; the contract shows none). One error
names one problem; the name of a nested field is joined by `__`. No text here repeats a value that was sent, since a
value may be a secret.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from pipeline.local_service.keys import Keyring, Project
    from pipeline.local_service.management.access import Caller
    from pipeline.local_service.management.documents import Documents
    from pipeline.local_service.settings import Settings
    from pipeline.local_service.store.database import Store


class ApiError(Exception):
    """An answer of the management API that is no success: a status, its envelope, and headers."""

    def __init__(
        self,
        status: int,
        kind: str,
        code: str,
        detail: str,
        attr: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, code)
        self.status = status
        self.envelope: dict[str, object] = {"type": kind, "code": code, "detail": detail, "attr": attr}
        self.headers = headers

    def response(self) -> Response:
        return JSONResponse(self.envelope, self.status, self.headers)


def invalid(attr: str | None, detail: str, code: str = "invalid_input") -> ApiError:
    """400: a field, a filter or the body."""
    return ApiError(400, "validation_error", code, detail, attr)


def malformed(detail: str) -> ApiError:
    """400: the body is not JSON that can be stored."""
    return ApiError(400, "validation_error", "parse_error", f"JSON parse error: {detail}")


def not_found(detail: str = "Not found.") -> ApiError:
    """404."""
    return ApiError(404, "invalid_request", "not_found", detail)


def forbidden(detail: str) -> ApiError:
    """403."""
    return ApiError(403, "authentication_error", "permission_denied", detail)


def not_allowed(method: str, allowed: str) -> ApiError:
    """405 of a method that a path does not have."""
    shown = method if method.isascii() and method.isalpha() else "?"
    detail = f'Method "{shown[:16]}" not allowed.'
    return ApiError(405, "invalid_request", "method_not_allowed", detail, headers={"Allow": allowed})


Json = dict[str, Any]
Item = TypeVar("Item")


class ManagementState(msgspec.Struct, frozen=True):
    """What the operations share: the documents, the database of events, the keys and the settings."""

    documents: Documents
    store: Store
    keys: Keyring
    settings: Settings

    @property
    def observed(self) -> bool:
        return self.settings.behaviour == "observed"


class OperationCall(msgspec.Struct, frozen=True):
    """One authorised request. `address` is its absolute URL without the query; `now` is ISO 8601 in UTC."""

    state: ManagementState
    caller: Caller
    project: Project | None
    ids: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    body: Json
    address: str
    now: str

    @property
    def observed(self) -> bool:
        return self.state.observed

    @property
    def project_id(self) -> int:
        assert self.project is not None
        return self.project.id

    def parameter(self, name: str) -> str | None:
        """The last value of a query parameter; None where it is absent or empty."""
        values = [value for key, value in self.query if key == name]
        return values[-1] if values and values[-1] else None

    def values_of(self, name: str) -> frozenset[str]:
        """The values of a query parameter that may be repeated and may be a comma list."""
        return frozenset(part.strip() for key, value in self.query if key == name for part in value.split(",") if part)


Run = Callable[[OperationCall], Response]


class Operation(NamedTuple):
    """One operation (docs/know/service.md#management-api, #key-scopes). `scope` None: a key of any scope; `run` None:
    the query, which runs beside the others. `name` and `summary` are in the OpenAPI document.

    Scopes that the contract does not state are those of the service's source where it has one
    (docs/know/service.md#hog-functions), else that of the nearest operation.
    """

    method: str
    path: str
    scope: str | None
    run: Run | None
    name: str
    summary: str
    status: int = 200
    """That of a success, or of the refusal that is its only answer."""
    body: str = ""
    """The schema of the request's body in the OpenAPI document; "" for none."""
    answer: str = ""
    """The schema of the answer; "" for an empty one, or for one that the contract does not state."""
    observed: bool = False
    """Only under `observed`: the service has it, the contract does not (docs/know/service.md#hog-functions)."""

    @property
    def stated(self) -> bool:
        """Whether the contract states the scope."""
        resource = self.path.removesuffix("/{id}").removesuffix("/sharing").removesuffix("/{recording_id}")
        return resource in (FUNCTIONS, RECORDINGS) and not self.observed

    @property
    def analytics(self) -> bool:
        """Whether it counts against the lower of the two rates (docs/know/service.md#management-api)."""
        return (self.scope or "").startswith("session_recording:")

    @property
    def area(self) -> str:
        """The heading in the OpenAPI document."""
        areas = {"hog_functions": "hog functions", "session_recordings": "session recordings", "query": "query"}
        return next((area for part, area in areas.items() if part in self.path), "projects")


PROJECTS = "/api/projects"
PROJECT = PROJECTS + "/{project_id}"
FUNCTIONS = PROJECT + "/hog_functions"
FUNCTION = FUNCTIONS + "/{id}"
RECORDINGS = PROJECT + "/session_recordings"
RECORDING = RECORDINGS + "/{id}"
SHARING = RECORDINGS + "/{recording_id}/sharing"
READ, WRITE = "hog_function:read", "hog_function:write"

registered: list[Operation] = []


def operation(method: str, path: str, scope: str | None, **more: Any) -> Callable[[Run], Run]:
    """Register a function as the operation of its name; its docstring's first sentence is the summary.

    `more` are the other fields of Operation.
    """

    def register(run: Run) -> Run:
        summary = " ".join((run.__doc__ or "").split()).partition(". ")[0].rstrip(".")
        registered.append(Operation(method, path, scope, run, run.__name__, summary, **more))
        return run

    return register


DEEPEST = 100
"""How many objects and lists may be open at once."""
_BAD_TEXT = "Null characters and lone surrogates are not allowed."


def read_json_body(body: bytes, content_type: str) -> Json:
    """The JSON object of a body; an empty body is an empty object. Raises ApiError (415, 400)."""
    if not body:
        return {}
    if content_type.partition(";")[0].strip().lower() != "application/json":
        detail = "Unsupported media type in request: the body has to be application/json."
        raise ApiError(415, "invalid_request", "unsupported_media_type", detail)
    try:
        content = json.loads(body.decode("utf-8"), parse_constant=_reject_constant)
    except UnicodeDecodeError:
        raise malformed("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise malformed(f"{error.msg}, line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise malformed("nested too deeply") from None
    except ValueError:
        raise malformed("a number that cannot be stored") from None
    if not isinstance(content, dict):
        raise invalid(None, f"Invalid data. Expected a dictionary, but got {_kind(content)}.")
    for problem, name in _problems(content):
        raise invalid(name, problem)
    return content


def _reject_constant(name: str) -> Any:
    raise ValueError


def _kind(value: object) -> str:
    return {list: "list", str: "str", bool: "bool", int: "int", float: "float"}.get(type(value), "null")


def _problems(content: Json) -> Iterator[tuple[str, str | None]]:
    """What cannot be stored, with the name of the outermost field where the name itself can be shown."""
    for name, value in content.items():
        if not _storable(name):
            yield "A name has characters that cannot be stored.", None
            continue
        problem = _problem_of(value)
        if problem:
            yield problem, name


def _problem_of(value: Any) -> str:
    """Why a JSON value cannot be stored; "" where it can. Needs no memory beside the value."""
    open_: list[Iterator[Any]] = [iter((value,))]
    while open_:
        for inner in open_[-1]:
            if len(open_) > DEEPEST:
                return "Nested too deeply."
            if isinstance(inner, dict):
                if not all(map(_storable, inner)):
                    return _BAD_TEXT
                open_.append(iter(inner.values()))
                break
            if isinstance(inner, list):
                open_.append(iter(inner))
                break
            if isinstance(inner, str) and not _storable(inner):
                return _BAD_TEXT
            if isinstance(inner, float) and not math.isfinite(inner):
                return "A number is out of range."
        else:
            open_.pop()
    return ""


def _storable(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_instant(micros: int) -> str:
    """Microseconds since 1970 as text."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_instant(text: str) -> datetime | None:
    """The instant of an ISO 8601 text, in UTC where it has no zone; None for any other text."""
    try:
        instant = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text.strip())
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def uuid_of(text: str) -> str | None:
    """The canonical spelling of a UUID; None for any other text."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


PAGE_SIZE = 100
"""Results of a page without a limit; there is no maximum (docs/know/service.md#management-api)."""


def paginate(call: OperationCall, items: Sequence[Item], show: Callable[[Item], Json]) -> Response:
    """The envelope of one page of `items`, its results as `show` returns them.

    A limit under 1 is the default one and an offset under 0 is 0, as at the real service. Text that is no integer is
    so under `observed`; the contract states integers, so there it is a 400.
    """
    limit = _number(call, "limit", minimum=1, default=PAGE_SIZE)
    offset = _number(call, "offset", minimum=0, default=0)
    end = offset + limit
    envelope = {
        "count": len(items),
        "next": _url(call, limit, end) if end < len(items) else None,
        "previous": _url(call, limit, max(offset - limit, 0)) if offset > 0 else None,
        "results": [show(item) for item in items[offset:end]],
    }
    return JSONResponse(envelope)


def _number(call: OperationCall, name: str, *, minimum: int, default: int) -> int:
    text = call.parameter(name) or ""
    number = natural_number(text.removeprefix("-"), digits=4000)
    if number is None:
        if text and not call.observed:
            raise invalid(name, "A valid integer is required.")
        return default
    return default if (text.startswith("-") and number) or number < minimum else number


def natural_number(text: str, digits: int = 9) -> int | None:
    """The number of a text of ASCII digits, at most so many; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def _url(call: OperationCall, limit: int, offset: int) -> str:
    """The request's own URL with another offset, with all its other parameters."""
    others = [pair for pair in call.query if pair[0] not in ("limit", "offset")]
    others.append(("limit", str(limit)))
    if offset:
        others.append(("offset", str(offset)))
    return f"{call.address}?{urlencode(others)}"
