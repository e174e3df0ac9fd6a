"""The query endpoint: one read-only SELECT over what landed.

`POST /api/projects/{id}/query/` with `{"query": {"kind": "HogQLQuery", "query": "select ..."}}` answers `{"columns",
"types", "results"}`; `types` pairs each column's name with its type. Errors are the JSON envelope `{"type", "code",
"detail", "attr"}` of the management API (docs/know/service.md#management-api). A query that needs too much time gets a
504, one that needs too much memory a 513, as in the source of the real service (`posthog/exceptions.py`).

A query runs in a separate process, with limits of time and memory. Its syntax tree is checked there before it runs,
over a locked database: no file access, no settings, a read-only transaction. Its rows and bytes are bounded.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from starlette.requests import ClientDisconnect, Request

from pipeline.local_service.management.requests import ApiError
from pipeline.local_service.query.runner import Abandoned, MemoryExceeded, QueryRunner
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import BadQuery, SlowQuery


class HogQL(msgspec.Struct, frozen=True):
    """A query in the service's language."""

    kind: Literal["HogQLQuery"]
    query: str


class Query(msgspec.Struct, frozen=True):
    """The body of a request."""

    query: HogQL


class QueryAnswer(msgspec.Struct, frozen=True):
    """The body of an answer."""

    columns: list[str]
    types: list[Any]
    results: list[list[Any]]


async def answer_query(request: Request, body: bytes, project: int, queries: QueryRunner, settings: Settings) -> bytes:
    """The JSON answer to a request whose body is a query. Raises ApiError, Unavailable, ClientDisconnect."""
    try:
        return await queries.answer(_sql(body), project, _disconnected(request))
    except BadQuery as error:
        raise _invalid(str(error)) from None
    except SlowQuery:
        detail = f"The query took longer than {settings.query_seconds:g} seconds and was stopped."
        raise ApiError(504, "server_error", "query_timeout", detail) from None
    except MemoryExceeded as error:
        detail = f"The query needs more memory than is available: {error}."
        raise ApiError(513, "server_error", "clickhouse_memory_limit_exceeded", detail) from None
    except Abandoned:
        raise ClientDisconnect from None


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _invalid(detail: str, attr: str = "query", code: str = "invalid_input") -> ApiError:
    return ApiError(400, "validation_error", code, detail, attr)


def _sql(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=Query).query.query
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$.")
        attr = place.rstrip("`").replace(".", "__")
        if attr == "query__kind":
            words = "the local service answers queries of kind HogQLQuery only"
        missing = re.fullmatch("Object missing required field `(.*)`", words)
        if missing is None:
            raise _invalid(words, attr or "query") from None
        raise _invalid("This field is required.", "__".join(filter(None, (attr, missing[1]))), "required") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ApiError(400, "validation_error", "parse_error", "JSON parse error") from None
