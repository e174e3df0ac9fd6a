"""What an operation of the management API receives and returns: bodies, parameters, pages, instants, and errors.

Errors are the JSON envelope of the service (docs/know/service.md#management-api; the contract shows none). One error
names one problem; the name of a nested field is joined by `__`. No text here repeats a value that was sent, since a
value may be a secret.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

if TYPE_CHECKING:
    from pipeline.local_service.keys import Keyring, Project
    from pipeline.local_service.management.access import Caller
    from pipeline.local_service.management.documents import Documents
    from pipeline.local_service.management.operations import Operation
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
        self.headers = dict(headers or {})


class BareError(ApiError):
    """An error whose body is not the envelope: `body` as it is, None for an empty one."""

    def __init__(self, status: int, body: dict[str, object] | None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, "", "", "", None, headers)
        self.body = body


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


@dataclass(frozen=True, slots=True)
class ManagementState:
    """What the operations share: the documents, the database of events, the keys and the settings."""

    documents: Documents
    store: Store
    keys: Keyring
    settings: Settings

    @property
    def observed(self) -> bool:
        return self.settings.behaviour == "observed"


@dataclass(frozen=True, slots=True)
class OperationCall:
    """One request that was let in. `address` is its absolute URL without the query; `now` is ISO 8601 in UTC."""

    operation: Operation
    caller: Caller
    project: Project | None
    ids: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    body: Json
    address: str
    now: str

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


@dataclass(frozen=True, slots=True)
class OperationReply:
    """A success: JSON where `body` is a value, else the bytes of `content` (none: an empty body)."""

    status: int = 200
    body: object = None
    content: bytes = b""
    media_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


EMPTY = OperationReply()
"""200 without a body: what the contract states for several operations (docs/know/service.md#hog-functions)."""


DEEPEST = 100
"""How many objects and lists may be open at once."""
_TEXT = "Null characters and lone surrogates are not allowed."


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
            yield "A name holds characters that cannot be stored.", None
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
                    return _TEXT
                open_.append(iter(inner.values()))
                break
            if isinstance(inner, list):
                open_.append(iter(inner))
                break
            if isinstance(inner, str) and not _storable(inner):
                return _TEXT
            if isinstance(inner, float) and not math.isfinite(inner):
                return "A number is out of range."
        else:
            open_.pop()
    return ""


def _storable(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_instant(micros: int) -> str:
    """Microseconds since 1970 as text."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_instant(text: str) -> datetime | None:
    """The instant of an ISO 8601 text, in UTC where it has no zone; None for any other text."""
    try:
        found = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text.strip())
    except ValueError:
        return None
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        return None


def uuid_of(text: str) -> str | None:
    """The usual spelling of a UUID; None for any other text."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


PAGE_SIZE = 100
"""Results of a page without a limit; there is no maximum (docs/know/service.md#management-api)."""


def paginate(call: OperationCall, found: Sequence[Any], *, strict: bool) -> tuple[Json, Sequence[Any]]:
    """The envelope of one page, its `results` still empty, and the part of `found` that belongs into it.

    A limit under 1 is the default one and an offset under 0 is 0, as at the real service. Text that is no integer is
    so there too; under `strict` it is a 400, since the contract states integers.
    """
    limit = _number(call, "limit", least=1, otherwise=PAGE_SIZE, strict=strict)
    offset = _number(call, "offset", least=0, otherwise=0, strict=strict)
    following = offset + limit if offset + limit < len(found) else None
    previous = max(offset - limit, 0) if offset > 0 else None
    envelope: Json = {
        "count": len(found),
        "next": None if following is None else _url(call, limit, following),
        "previous": None if previous is None else _url(call, limit, previous),
        "results": [],
    }
    return envelope, found[offset : offset + limit]


def _number(call: OperationCall, name: str, *, least: int, otherwise: int, strict: bool) -> int:
    text = call.parameter(name)
    if text is None:
        return otherwise
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 4000:
        if strict:
            raise invalid(name, "A valid integer is required.")
        return otherwise
    return int(text) if int(text) >= least else otherwise


def _url(call: OperationCall, limit: int, offset: int) -> str:
    """The request's own URL with another offset, its other parameters kept."""
    others = [pair for pair in call.query if pair[0] not in ("limit", "offset")]
    others.append(("limit", str(limit)))
    if offset:
        others.append(("offset", str(offset)))
    return f"{call.address}?{urlencode(others)}"
