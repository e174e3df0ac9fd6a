"""Definitions of events and properties, under `observed` alone (docs/know/service.md#definitions).

They arise from what landed. A document has only what requests wrote; the rest is computed when it is asked for.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from starlette.responses import JSONResponse, Response

from pipeline.local_service.management.requests import (
    ApiError,
    Json,
    OperationCall,
    answers,
    invalid,
    not_found,
    paginate,
)
from pipeline.local_service.store.database import Store
from pipeline.management import operations

_SPACE = uuid.UUID("5d1f0c4e-7a0b-5f0d-9c1e-2b7f3a6d8e92")
_KINDS: dict[str, Any] = {"description": str | None, "tags": list, "verified": bool, "hidden": bool | None}
_UNVERIFIED: Json = {"verified_at": None, "verified_by": None}
_UNWRITTEN: Json = {
    "description": None, "tags": [], "verified": False, **_UNVERIFIED, "hidden": None, "updated_at": None,
    "updated_by": None,
}  # fmt: skip
_TYPES = ("DateTime", "String", "Numeric", "Boolean", "Duration", "", None)
_PROPERTIES = """
WITH named AS (SELECT properties, {order} AS nth, unnest(json_keys(properties)) AS name FROM {table}),
read AS (SELECT name, nth, json_type(properties, place) AS kind, json_extract_string(properties, place) AS text
    FROM (SELECT *, '/' || replace(replace(name, '~', '~0'), '/', '~1') AS place FROM named)
    WHERE name NOT IN ('$set', '$set_once', '$groups', '$group_type', '$group_key', '$group_set', 'distinct_id'))
SELECT name, arg_min(CASE
    WHEN kind = 'BOOLEAN' OR (kind = 'VARCHAR' AND lower(text) IN ('true', 'false')) THEN 'Boolean'
    WHEN kind IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT') THEN 'Numeric'
    WHEN kind = 'VARCHAR' AND regexp_matches(text, '^\\d{{4}}-\\d\\d-\\d\\d([T ]\\d\\d:\\d\\d.*)?$') THEN 'DateTime'
    WHEN kind = 'VARCHAR' THEN 'String' END, nth) AS property_type
FROM read GROUP BY name ORDER BY name"""
_SEEN = {
    "": """SELECT event AS name, min(created_at) AS created_at, max(created_at) AS last_seen_at
        FROM raw_events GROUP BY event ORDER BY name""",
    "event": _PROPERTIES.format(table="raw_events", order="receipt"),
    "person": _PROPERTIES.format(table="persons", order="id"),
}
"""What landed, by the `type` of a property, "" for events."""


@lru_cache(64)
def _seen(store: Store, project: int, type: str, accepted: int) -> list[Any]:
    """What landed, read again when there are more events than `accepted`."""
    return store.select(_SEEN[type], project) if type in _SEEN else []


def _shown(call: OperationCall, type: str) -> Iterator[Json]:
    for row in _seen(call.state.store, call.project_id, type, call.state.store.raw_count()):
        id = str(uuid.uuid5(_SPACE, f"{call.project_id}/{type}/{row.name}"))
        written = call.state.documents.get("definition", call.project_id, id) or {}
        yield {"id": id, **row._asdict(), **_UNWRITTEN, **written}


def _types(call: OperationCall) -> tuple[str, ...]:
    return ("",) if "/event_definitions/" in call.address else ("event", "person")


@answers(operations.LIST_EVENTS, operations.LIST_PROPERTIES)
def _list(call: OperationCall) -> Response:
    (usual, *others) = _types(call)
    return paginate(call, [*_shown(call, (others and call.parameter("type")) or usual)], dict)


@answers(operations.UPDATE_EVENT, operations.UPDATE_PROPERTY)
def _update(call: OperationCall) -> Response:
    """Set the fields of a body. To hide a definition takes its verification away, and to verify it shows it."""
    types, id = _types(call), call.ids["id"].lower()
    found = next((one for type in types for one in _shown(call, type) if one["id"] == id), None)
    if found is None:
        raise not_found()
    fields = {name: call.body[name] for name in (*_KINDS, "property_type") if name in call.body and name in found}
    for name, value in fields.items():
        if not isinstance(value, _KINDS[name]) if name in _KINDS else value not in _TYPES:
            raise invalid(name, "Not a valid value.")
    if call.state.settings.definitions == "free":
        if types[0] and any(value != found[name] for name, value in fields.items() if name != "property_type"):
            raise ApiError(402, "invalid_request", "payment_required", "This feature is part of the premium offering.")
        fields.pop("tags", None)
    if fields.get("hidden") and fields.get("verified"):
        raise invalid(None, "A definition cannot be both hidden and verified")
    if "tags" in fields:
        fields["tags"] = sorted({str(tag).strip().lower() for tag in fields["tags"]})
    for flag, other in (("hidden", "verified"), ("verified", "hidden")):
        if fields.get(flag):
            fields[other] = False
    if (verified := fields.get("verified", found["verified"])) != found["verified"]:
        fields |= {"verified_at": call.now, "verified_by": call.caller.user} if verified else _UNVERIFIED
    written = call.state.documents.get("definition", call.project_id, id) or {"id": id}
    written |= fields | {"updated_at": call.now, "updated_by": call.caller.user}
    call.state.documents.put("definition", call.project_id, written)
    return JSONResponse(found | written)
