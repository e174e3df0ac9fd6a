"""The OpenAPI document of the whole service, derived from the table of operations and the objects of the contract.

It describes what this service answers under its settings: the contract's objects with every field that is always
present. Under `observed` functions and recordings have other bodies, which are not described.
"""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

from msgspec.json import schema_components
from pydantic.json_schema import models_json_schema

from pipeline.local_service.management.access import scope_for
from pipeline.local_service.management.projects import GroupType
from pipeline.local_service.management.requests import Json, Problem
from pipeline.local_service.query.endpoint import Query, QueryAnswer
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.syntax import VIEWS
from pipeline.management.models import (
    HogFunction,
    HogFunctionListItem,
    HogFunctionWrite,
    Project,
    SessionRecording,
    SessionRecordingWrite,
    SharingConfiguration,
)
from pipeline.management.operations import LIST_FUNCTIONS, QUERY, Endpoint, Names, Number, Text, operations

_REFERENCE = "#/components/schemas/{name}"


def _ref(name: str) -> Json:
    """A schema of the document."""
    return {"$ref": _REFERENCE.format(name=name)}


def _in_json(schema: Json) -> Json:
    """A body."""
    return {"application/json": {"schema": schema}}


def _shape(*required: str, **properties: Json) -> Json:
    """An object that has these members, some of which are described."""
    return {"type": "object", "required": list(required), "properties": properties}


_MODELS = (
    HogFunction,
    HogFunctionListItem,
    HogFunctionWrite,
    SessionRecording,
    SessionRecordingWrite,
    SharingConfiguration,
    Project,
)
_ALWAYS = ("HogFunction", "HogFunctionListItem", "SharingConfiguration")
"""Objects that this service answers with every field."""
_EMPTY: Json = {"const": ""}
"""A filter without a value filters nothing."""
_INSTANT: Json = {"anyOf": [{"type": "string", "format": "date-time"}, _EMPTY]}
_LISTED: dict[str, Json] = {
    "created_at": _INSTANT,
    "created_by": {"type": "integer", "minimum": 0},
    "id": {"anyOf": [{"type": "string", "format": "uuid"}, _EMPTY]},
    "updated_at": _INSTANT,
}
"""What a filter of the list of functions must be, beyond its type."""
_KINDS: dict[Any, Json] = {
    Text: {"type": "string"},
    Number: {"type": "integer"},
    Names: {"type": "array", "items": {"type": "string"}},
    bool | None: {"type": "boolean"},
}
_SELECT = (
    f" One SELECT over {', '.join(sorted(VIEWS))}, with joins, subqueries and WITH; toDate(timestamp) is the UTC day. "
    "It reads no files and changes nothing; an answer over its limits (--set query_most_rows, query_most_bytes) "
    "is refused, and a query over its limits (--set query_seconds, query_memory) is stopped."
)
_STATED = re.compile(r".*/(hog_functions|session_recordings)(/\{\w+\})?(/sharing)?")
"""Paths of the operations whose scopes the contract states."""
_RUNS = frozenset(f"hog_functions_{name}" for name in ("broadcast", "invoke", "logs", "metrics", "metrics_totals"))
_UNDESCRIBED = " The bodies of hog functions and recordings are not described under this behaviour."
_PROBLEMS = {
    "400": "The body or a parameter is not what it must be.",
    "401": "No personal key, or an unknown one.",
    "403": "The key lacks the scope, or does not reach the project.",
    "404": "No such project, hog function or recording.",
    "405": "The path does not have this method.",
    "409": "Another request changed it.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "429": "Too many calls.",
    "503": "The service cannot store now.",
    "504": "The query took too long.",
    "513": "The query needs too much memory.",
}
_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_ANYTHING: Json = {"type": ["string", "number", "boolean", "object", "array"]}
_REFUSALS = {
    "400": "Bad JSON, a wrong shape or one bad event. Nothing of the request is stored.",
    "401": "The capture key is missing, malformed, or not the same in all events.",
    "408": "The client stopped sending.",
    "413": "The body, or one event, is too large.",
    "503": "The service cannot store now.",
}


def openapi_document(settings: Settings) -> Json:
    observed = settings.behaviour == "observed"
    paths: dict[str, Json] = {"/batch/": {"post": _capture_batch(settings)}}
    for endpoint in operations(observed=observed):
        paths.setdefault(endpoint.path + "/", {})[endpoint.method.lower()] = _operation(endpoint, observed)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "backcast local service",
            "version": "1",
            "description": f"Capture and management API of the local service, behaviour: {settings.behaviour}. "
            "Every path is answered with and without its final slash; /api/environments is another name of "
            "/api/projects." + (_UNDESCRIBED if observed else ""),
        },
        "paths": paths,
        "components": {
            "schemas": _schemas() | _capture_schemas(),
            "securitySchemes": {"personalKey": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Endpoint, observed: bool) -> Json:
    scope = scope_for(operation, observed=observed)
    stated = "" if _STATED.fullmatch(operation.path) and not operation.observed else " (the contract does not state it)"
    needs = f"Needs the scope {scope}{stated}." if scope else "Any personal key may ask."
    runs = " This service runs no hog function, so there is never a run to show." if operation.id in _RUNS else ""
    shown: Json = {
        "operationId": operation.id,
        "tags": [_area(operation)],
        "summary": operation.name[0].upper() + operation.name[1:],
        "description": needs + runs + (_SELECT if operation is QUERY else ""),
        "security": [{"personalKey": []}],
        "parameters": _parameters(operation, observed),
        "responses": _answers(operation, observed),
    }
    if operation.body:
        schema = _ref(operation.body) if _is_described(operation, observed) else {"type": "object"}
        shown["requestBody"] = {"required": operation is QUERY, "content": _in_json(schema)}
    return shown


def _is_described(operation: Endpoint, observed: bool) -> bool:
    return not observed or _area(operation) in ("projects", "query")


def _parameters(operation: Endpoint, observed: bool) -> list[Json]:
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in ("project_id", "id", "recording_id")
        if f"{{{name}}}" in operation.path
    ]
    for name, hint in _queried(operation, observed).items():
        kind, flag = get_args(hint)
        about = flag.help.partition("  [")[0]  # the default applies to the command line
        special = _LISTED if operation is LIST_FUNCTIONS else {}
        choices = (flag.metavar or "").split("|")
        schema = special.get(name, {"enum": choices} if len(choices) > 1 else _KINDS[kind])
        shape: Json = {"name": name, "in": "query", "required": False, "schema": schema, "description": about}
        parameters.append(shape | ({"style": "form", "explode": False} if kind == Names else {}))
    return parameters


def _queried(operation: Endpoint, observed: bool) -> dict[str, Any]:
    """The declarations of the query parameters: under `contract` only those of lists count."""
    answered = observed or operation.answer.endswith("Page")
    return get_type_hints(operation.query, include_extras=True) if answered else {}


def _area(operation: Endpoint) -> str:
    """The heading in the document."""
    areas = ("hog_functions", "session_recordings", "query")
    return next((area.replace("_", " ") for area in areas if area in operation.path), "projects")


def _answers(operation: Endpoint, observed: bool) -> Json:
    success: Json = {"description": "Refused." if operation.status == 405 else "Done."}
    if operation.answer and _is_described(operation, observed):
        success["content"] = _in_json(_ref(operation.answer))
    elif operation.id == "hog_functions_rearrange":
        success["description"] = "Done; the contract does not state the answer."
    refused = {
        "400": operation.has_body or bool(_queried(operation, observed)),
        "409": observed and operation.id in ("hog_functions_update", "hog_functions_replace"),
        "415": operation.has_body and operation is not QUERY,
        "504": operation is QUERY,
        "513": operation is QUERY,
    }
    answers: Json = {
        status: {"description": about, "content": _in_json(_ref("Problem"))}
        for status, about in _PROBLEMS.items()
        if refused.get(status, True)
    }
    return answers | {str(operation.status): success}


def _schemas() -> dict[str, Json]:
    _, components = models_json_schema(
        [(model, "validation") for model in _MODELS], ref_template=_REFERENCE.replace("name", "model")
    )
    schemas: dict[str, Json] = dict(components["$defs"])
    schemas["SessionRecordingWrite"]["properties"]["person"] = _ref("Person")
    for name in _ALWAYS:
        schemas[name]["required"] = sorted(schemas[name]["properties"])
    schemas["HogFunctionOrders"] = _orders(schemas["HogFunctionWrite"])
    address: Json = {"type": ["string", "null"], "format": "uri"}
    for name, item in (
        ("HogFunctionPage", "HogFunctionListItem"),
        ("SessionRecordingPage", "SessionRecording"),
        ("ProjectPage", "Project"),
    ):
        results: Json = {"type": "array", "items": _ref(item)}
        schemas[name] = _shape(
            *("count", "next", "previous", "results"),
            count={"type": "integer"},
            next=address,
            previous=address,
            results=results,
        )
    schemas["GroupTypes"] = {"type": "array", "items": _ref("GroupType")}
    _, components = schema_components([GroupType, Problem, Query, QueryAnswer], ref_template=_REFERENCE)
    return schemas | components


def _orders(write: Json) -> Json:
    orders: Json = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"format": "uuid"},
        "additionalProperties": {"type": "integer"},
        "description": "The new execution order of each id.",
    }
    return write | {"properties": {**write["properties"], "orders": orders}}


def _capture_batch(settings: Settings) -> Json:
    """The capture endpoint of the contract, `/batch/` (docs/know/service.md)."""
    refused = _REFUSALS | ({"415": "The body is not application/json."} if settings.content_type == "json" else {})
    answers: Json = {status: {"description": about, "content": _TEXT} for status, about in refused.items()}
    answers["200"] = {
        "description": "Accepted. The key may still belong to no project.",
        "content": _in_json(_shape("status", status={"const": "Ok"})),
    }
    answers["204"] = {"description": "Accepted, with beacon=1."}
    return {
        "operationId": "capture_batch",
        "tags": ["capture"],
        "summary": "Send events",
        "description": "The capture key is in the body. gzip, base64 and forms are accepted too.",
        "security": [],
        "parameters": [
            _parameter("compression", "gzip, gzip-js, base64 or b64, if no header names it."),
            _parameter("beacon", "1: answer 204, empty."),
        ],
        "requestBody": {"required": True, "content": _in_json(_ref("CaptureBatch"))},
        "responses": answers,
    }


def _capture_schemas() -> dict[str, Json]:
    """The objects of a capture request (docs/know/service.md#event-fields, #body-shapes)."""
    may_be_object: Json = {"type": ["object", "null"]}
    fields: dict[str, Json] = {
        "event": {"type": "string", "minLength": 1},
        "uuid": {"anyOf": [{"type": "string", "format": "uuid"}, {"const": ""}, {"type": "null"}]},
        "timestamp": {"type": ["string", "null"], "description": "ISO 8601; anything that is not a time becomes now."},
        "$set": may_be_object,
        "$set_once": may_be_object,
        "properties": _shape(
            "distinct_id",
            **{"distinct_id": {**_ANYTHING, "pattern": "[A-Za-z0-9]"}, "$cookieless_mode": {"type": "boolean"}},
        ),
    }
    key: Json = {"type": "string", "pattern": "^[ -~]*[!-~][ -~]*$", "not": {"pattern": "^ *phx_"}, "maxLength": 64}
    return {
        "CapturedEvent": _shape("event", "properties", **fields),
        "CaptureBatch": _shape(
            "api_key",
            "batch",
            api_key=key,
            historical_migration={"type": ["boolean", "null"]},
            sent_at={"type": ["string", "null"]},
            batch={"type": "array", "minItems": 1, "items": _ref("CapturedEvent")},
        ),
    }


def _parameter(name: str, about: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": "string"}, "description": about}
