"""The query endpoint: one read-only SELECT over what landed.

`POST /api/projects/{id}/query/` with `{"query": {"kind": "HogQLQuery", "query": "select ..."}}` answers
`{"columns", "types", "results"}`; `types` pairs each column's name with its type. Errors are the JSON
envelope `{"type", "code", "detail", "attr"}` of the management API (service-behaviour 5.1).

A query is judged on its syntax tree before it runs. The database below is locked besides: no file access, no settings,
a read-only transaction. Its time and its rows are bounded.
"""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from .management.errors import ApiError
from .settings import Settings
from .sql_tree import NotAllowed, check, limits
from .store import MOST_BYTES, Answer, BadQuery, SlowQuery, Store


def answer(body: bytes, project: int, store: Store, settings: Settings | None = None) -> bytes:
    """The JSON answer to the JSON body of a query. Raises ApiError."""
    settings = settings or Settings()
    sql = _sql(body)
    try:
        tree = json.loads(store.syntax(sql))
        check(tree)
        cut = None if limits(tree) else settings.query_default_rows
        most = settings.query_most_rows if cut is None else cut
        found = store.select(sql, project, seconds=settings.query_seconds, most=most, tree=tree)
    except (NotAllowed, BadQuery) as error:
        raise _invalid(str(error)) from None
    except RecursionError:
        raise _invalid("the query is nested too deeply") from None
    except SlowQuery:
        detail = f"The query took longer than {settings.query_seconds:g} seconds and was stopped."
        raise ApiError(504, "server_error", "query_timeout", detail) from None
    if found.large:
        raise _invalid(f"the answer is over {MOST_BYTES // 2**20} MiB; ask for fewer rows or columns")
    if found.more and cut is None:
        raise _invalid(f"the answer has more than {most} rows; ask for fewer with LIMIT, and page on")
    columns = [_texts(column) for column in found.table.columns]
    said: dict[str, Any] = {
        "columns": found.columns,
        "types": list(zip(found.columns, found.types, strict=True)),
        "results": list(zip(*columns, strict=True)),
    }
    if cut is not None:
        said |= {"limit": cut, "hasMore": found.more}
    return msgspec.json.encode(said)


def rows(found: Answer) -> list[tuple[Any, ...]]:
    """The rows of an answer as the endpoint gives them."""
    return list(zip(*(_texts(column) for column in found.table.columns), strict=True))


def _invalid(detail: str, attr: str | None = "query") -> ApiError:
    return ApiError(400, "validation_error", "invalid_input", detail, attr)


def _sql(body: bytes) -> str:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise ApiError(400, "validation_error", "parse_error", "JSON parse error") from None
    query = given.get("query") if isinstance(given, dict) else None
    if not isinstance(query, dict):
        raise ApiError(400, "validation_error", "required", "This field is required.", "query")
    if query.get("kind") != "HogQLQuery":
        raise _invalid("the local service answers queries of kind HogQLQuery only", "query__kind")
    sql = query.get("query")
    if not isinstance(sql, str):
        raise ApiError(400, "validation_error", "required", "This field is required.", "query__query")
    return sql


def _texts(column: pa.ChunkedArray) -> list[Any]:
    """A column as JSON values; instants as text with microseconds and Z, so that they compare exactly."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        naive = column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.timestamp("us"))
        return list(pc.strftime(naive, format="%Y-%m-%dT%H:%M:%SZ").to_pylist())
    values = column.to_pylist()
    simple = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return values if simple else [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """A value of a rarer type as JSON."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "nanoseconds"):
        return [_plain(inner) for inner in value]
    if isinstance(value, UUID | timedelta) or hasattr(value, "nanoseconds"):
        return str(value)
    return value
