"""The query endpoint: one read-only SELECT over what landed.

`POST /api/projects/{id}/query/` with `{"query": {"kind": "HogQLQuery", "query": "select ..."}}` answers
`{"columns", "types", "results"}`; `types` pairs each column's name with its type. Errors are the JSON
envelope `{"type", "code", "detail", "attr"}` of the management API (service-behaviour 5.1).

A query is judged on its syntax tree before it runs: one SELECT, over the named views and a few harmless
table functions. The database below is locked besides: no file access, no settings, a read-only transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from .keys import Keyring, allows
from .store import VIEWS, Answer, BadQuery, Store

SCOPE = "query:read"

_TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
_TABLE_KINDS = frozenset({"BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "EMPTY", "PIVOT"})


class ApiError(Exception):
    """An answer other than 200 of the management API: a status and its envelope."""

    def __init__(self, status: int, kind: str, code: str, detail: str, attr: str | None = None) -> None:
        super().__init__(status, code)
        self.status = status
        self.envelope = {"type": kind, "code": code, "detail": detail, "attr": attr}


def authorised(header: str | None, project: str, keys: Keyring, scope: str) -> int:
    """The project a request may use. Raises ApiError: 401 (key), 404 (project), 403 (scope)."""
    scheme, _, key = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise ApiError(
            401, "authentication_error", "not_authenticated", "Authentication credentials were not provided."
        )
    scopes = keys.scopes_of(key.strip())
    if scopes is None:
        raise ApiError(
            401,
            "authentication_error",
            "authentication_failed",
            "Personal API key found in request Authorization header is invalid.",
        )
    if not (project.isascii() and project.isdigit() and keys.has_project(int(project))):
        raise ApiError(404, "invalid_request", "not_found", "Not found.")
    if not allows(scopes, scope):
        raise ApiError(403, "authentication_error", "permission_denied", f"API key missing required scope '{scope}'")
    return int(project)


def answer(body: bytes, project: int, store: Store) -> bytes:
    """The JSON answer to the JSON body of a query. Raises ApiError."""
    sql = _sql(body)
    _gate(json.loads(store.syntax(sql)))
    try:
        found = store.select(sql, project)
    except BadQuery as error:
        raise _invalid(str(error)) from None
    columns = [_texts(column) for column in found.table.columns]
    return msgspec.json.encode(
        {
            "columns": found.columns,
            "types": list(zip(found.columns, found.types, strict=True)),
            "results": list(zip(*columns, strict=True)),
        }
    )


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


def _gate(tree: dict[str, Any]) -> None:
    """Refuse whatever is not one SELECT over the views. Raises ApiError."""
    if tree.get("error"):
        raise _invalid(str(tree.get("error_message")))
    statements = tree["statements"]
    if len(statements) != 1:
        raise _invalid(f"one SELECT statement is expected, not {len(statements)}")
    nodes = list(_nodes(statements[0]))
    named = {str(entry["key"]).lower() for node in nodes for entry in node.get("cte_map", {}).get("map", ())}
    for node in nodes:
        _check_table(node, VIEWS | named)


def _check_table(node: dict[str, Any], names: frozenset[str]) -> None:
    """A node that stands where a table stands must be one that we know."""
    kind = node.get("type")
    if "class" in node or "sample" not in node or str(kind).endswith("_NODE"):
        return
    if kind not in _TABLE_KINDS:
        raise _invalid("only a plain SELECT is accepted")
    if kind == "BASE_TABLE":
        name = ".".join(part for part in (node["catalog_name"], node["schema_name"], node["table_name"]) if part)
        if name.lower() not in names:
            raise _invalid(f"unknown table '{name}'; there are: {', '.join(sorted(VIEWS))}")
    if kind == "TABLE_FUNCTION":
        function = str(node["function"].get("function_name"))
        if function.lower() not in _TABLE_FUNCTIONS:
            raise _invalid(f"the table function '{function}' is not accepted")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a syntax tree."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


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
