"""What an operation of the management API receives and returns: bodies, parameters, pages, instants and errors.

Errors are the JSON envelope of the service (docs/know/service.md#management-api; the contract shows none). One error
reports one problem; the name of a nested field is joined by `__`. No text here repeats a value that was sent, since it
may be a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from starlette.responses import JSONResponse, Response

from pipeline.local_service.capture.parsing import depth

if TYPE_CHECKING:
    from pipeline.local_service.keys import Keyring, Project
    from pipeline.local_service.management.access import Caller
    from pipeline.local_service.management.documents import Documents
    from pipeline.local_service.settings import Settings
    from pipeline.local_service.store.database import Store
    from pipeline.management.operations import Endpoint


class Problem(msgspec.Struct, frozen=True):
    """The body of an answer that reports a failure."""

    type: str
    code: str
    detail: str
    attr: str | None


class ApiError(Exception):
    """An answer of the management API that is not a success: a status, its envelope, and headers."""

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
        self.problem = Problem(kind, code, detail, attr)
        self.headers = headers

    def response(self) -> Response:
        return JSONResponse(msgspec.structs.asdict(self.problem), self.status, self.headers)


def invalid(attr: str | None, detail: str, code: str = "invalid_input") -> ApiError:
    """400: a field, a filter or the body."""
    return ApiError(400, "validation_error", code, detail, attr)


def malformed(detail: str) -> ApiError:
    """400: the body is not JSON that can be stored."""
    return ApiError(400, "validation_error", "parse_error", f"JSON parse error: {detail}")


def not_found(detail: str = "Not found.") -> ApiError:
    return ApiError(404, "invalid_request", "not_found", detail)


def forbidden(detail: str) -> ApiError:
    return ApiError(403, "authentication_error", "permission_denied", detail)


def not_allowed(method: str, allowed: str) -> ApiError:
    """405 for a method that a path does not have."""
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
        """The last value of a query parameter; None if it is absent or empty."""
        values = [value for key, value in self.query if key == name]
        return values[-1] if values and values[-1] else None

    def values_of(self, name: str) -> frozenset[str]:
        """The values of a query parameter that may be repeated and may be a comma-separated list."""
        return frozenset(part.strip() for key, value in self.query if key == name for part in value.split(",") if part)


Run = Callable[[OperationCall], Response]


HANDLERS: dict[str, Run] = {}
"""The handler of each operation, by its id. Only the query has none here, since it runs separately."""


def answers(*operations: Endpoint) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        HANDLERS.update({operation.id: run for operation in operations})
        return run

    return register


DEEPEST = 100
"""How many objects and lists may be open at once."""
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


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
        raise invalid(None, f"Invalid data. Expected a dictionary, but got {type(content).__name__}.")
    if depth(body) > DEEPEST:
        raise invalid(None, "Nested too deeply.")
    for name, value in content.items():
        if not _is_storable(name):
            raise invalid(None, "A name has characters that cannot be stored.")
        if not _is_storable(value):
            raise invalid(name, "Null characters, lone surrogates and numbers out of range are not allowed.")
    return content


def _reject_constant(name: str) -> Any:
    raise ValueError


def _is_storable(value: Any) -> bool:
    """Whether every string and number of a JSON value can be returned unchanged."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError:
        return False
    return _NUL.search(text) is None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_instant(micros: int) -> str:
    """Microseconds since 1970 as text."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_instant(text: str) -> datetime | None:
    """The instant of an ISO 8601 time, in UTC if it has no zone; None for any other text."""
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
"""Results per page if no limit is given; there is no maximum (docs/know/service.md#management-api)."""


def paginate(call: OperationCall, items: Sequence[Item], show: Callable[[Item], Json]) -> Response:
    """The envelope of one page of `items`, with results as `show` returns them.

    A limit under 1 means the default limit, and an offset under 0 means 0, as at the real service. Under `observed`, so
    does text that is not an integer; the contract states integers, so under it that is a 400.
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
    """The number in a string of at most `digits` ASCII digits; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def _url(call: OperationCall, limit: int, offset: int) -> str:
    """The request's own URL with another offset and all its other parameters."""
    others = [pair for pair in call.query if pair[0] not in ("limit", "offset")]
    others.append(("limit", str(limit)))
    if offset:
        others.append(("offset", str(offset)))
    return f"{call.address}?{urlencode(others)}"
