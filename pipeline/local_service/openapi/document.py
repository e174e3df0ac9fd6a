"""The OpenAPI document of the whole service, derived from the table of operations and the objects of the contract.

It describes what this service answers under its settings: under `contract` the contract's objects with every field that
is always there, under `observed` only what is sure of the shapes of the source.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from pipeline.local_service.management.function_fields import (
    LONGEST_MASK,
    LONGEST_NAME,
    NULLABLE,
    SHORTEST_MASK,
    TEMPLATING,
    TYPES,
)
from pipeline.local_service.management.hog_functions import FILTERS
from pipeline.local_service.management.operations import WITH_BODY, operations
from pipeline.local_service.management.requests import Json, Operation
from pipeline.local_service.management.templates import TEMPLATES
from pipeline.local_service.openapi.capture import capture_paths, capture_schemas
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
_INSTANT: Json = {"anyOf": [{"type": "string", "format": "date-time"}, {"const": ""}]}
_PARAMETERS: dict[str, tuple[Json, str]] = {
    "created_at": (_INSTANT, "Created at this instant."),
    "created_by": ({"type": "integer", "minimum": 0}, "Created by the user with this id."),
    "enabled": ({"type": "boolean"}, "Enabled, or not."),
    "exclude_kind": ({"type": "array", "items": {"type": "string"}}, "None of these kinds; commas separate."),
    "id": ({"anyOf": [{"type": "string", "format": "uuid"}, {"const": ""}]}, "The one with this id."),
    "kind": ({"type": "array", "items": {"type": "string"}}, "One of these kinds; commas separate."),
    "limit": ({"type": "integer"}, "Results per page; under 1: 100."),
    "offset": ({"type": "integer"}, "Where the page starts; under 0: 0."),
    "type": ({"type": "array", "items": {"type": "string"}}, "One of these types; commas separate."),
    "updated_at": (_INSTANT, "Last updated at this instant."),
}
_QUERIES = {
    "hog_functions_list": FILTERS,
    "recordings_list": ("limit", "offset"),
    "projects_list": ("limit", "offset"),
}
_OBSERVED_QUERIES: dict[str, dict[str, Json]] = {
    "hog_functions_icon": {"id": {"type": "string"}},
    "hog_functions_icons": {"query": {"type": "string"}},
    "hog_functions_logs": {"limit": {"type": "integer", "minimum": 1, "maximum": 500}},
    "hog_functions_metrics": {
        "interval": {"enum": ["hour", "day", "week"]},
        "breakdown_by": {"enum": ["name", "kind"]},
    },
    "hog_functions_metrics_totals": {"breakdown_by": {"enum": ["name", "kind"]}},
}
_SELECT = (
    f" One SELECT over {', '.join(sorted(VIEWS))}, with joins, subqueries and WITH; toDate(timestamp) is the UTC day. "
    "It reads no file and changes nothing; an answer over its rows or bytes (--set query_most_rows, query_most_bytes) "
    "is refused, and a query over its time or memory (--set query_seconds, query_memory) ended."
)
_RETENTION: dict[str, Json] = {
    "retention_period_days": {"type": "integer"},
    "expiry_time": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
    "recording_ttl": {"type": ["integer", "null"]},
}
_RUNS = frozenset(f"hog_functions_{name}" for name in ("broadcast", "invoke", "logs", "metrics", "metrics_totals"))
_OBSERVED_ANSWERS: dict[str, Json] = {
    "hog_functions_rearrange": {"type": "array", "items": {"type": "object"}},
    "hog_functions_broadcast": {"type": "object", "required": ["success"]},
    "hog_functions_invoke": {"type": "object", "required": ["status"]},
    "hog_functions_logs": {"type": "object", "required": ["count", "next", "previous", "results"]},
    "hog_functions_metrics": {"type": "object", "required": ["labels", "series"]},
    "hog_functions_metrics_totals": {"type": "object", "required": ["totals"]},
    "hog_functions_icons": {"type": "array", "items": {"type": "object", "required": ["id", "name", "url"]}},
    "recordings_list": {"type": "object", "required": ["results", "has_next", "version"]},
    "recordings_update": {"type": "object", "required": ["success"]},
    "recordings_replace": {"type": "object", "required": ["success"]},
}
_PROBLEMS = {
    "400": "The body or a parameter is not what it has to be.",
    "401": "No personal key, or an unknown one.",
    "403": "The key lacks the scope, or does not reach the project.",
    "404": "No such project, hog function or recording.",
    "405": "The path has no such method.",
    "409": "Another request changed it.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "429": "Too many calls.",
    "503": "The service cannot store now.",
    "504": "The query took too long.",
    "513": "The query needs too much memory.",
}


def openapi_document(settings: Settings) -> Json:
    """The document, as JSON."""
    observed = settings.behaviour == "observed"
    paths: dict[str, Json] = capture_paths(settings)
    for operation in operations(observed=observed):
        paths.setdefault(operation.path + "/", {})[operation.method.lower()] = _operation(operation, observed)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "backcast local service",
            "version": "1",
            "description": f"Capture and management API of the local service, behaviour: {settings.behaviour}. "
            "Every path is answered with and without its final slash; /api/environments is another name of "
            "/api/projects.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(observed) | capture_schemas(),
            "securitySchemes": {"personalKey": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, observed: bool) -> Json:
    scope = operation.scope or ("project:read" if observed else None)
    stated = "" if operation.stated else " (the contract does not state it)"
    needs = f"Needs the scope {scope}{stated}." if scope else "Any personal key may ask."
    runs = " This service runs no hog function, so there is never a run to show." if operation.name in _RUNS else ""
    shown: Json = {
        "operationId": operation.name,
        "tags": [operation.area],
        "summary": operation.summary,
        "description": needs + runs + (_SELECT if operation.name == "query" else ""),
        "security": [{"personalKey": []}],
        "parameters": _parameters(operation, observed),
        "responses": _answers(operation, observed),
    }
    if operation.body:
        schema = _ref(operation.body)
        if observed and operation.name == "hog_functions_create":
            schema = {"allOf": [schema], "anyOf": [{"required": ["hog"]}, {"required": ["template_id"]}]}
        if observed and operation.name == "hog_functions_invoke":
            schema = {
                "type": "object",
                "required": ["configuration"],
                "properties": {"configuration": {"type": "object"}},
            }
        shown["requestBody"] = {
            "required": operation.name == "query" or (observed and operation.name == "hog_functions_invoke"),
            "content": {"application/json": {"schema": schema}},
        }
    return shown


def _parameters(operation: Operation, observed: bool) -> list[Json]:
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in ("project_id", "id", "recording_id")
        if f"{{{name}}}" in operation.path
    ]
    for name in _QUERIES.get(operation.name, ()):
        schema, about = _PARAMETERS[name]
        if observed and name in ("limit", "offset"):
            schema = {"type": "integer", "minimum": 0} if operation.name == "recordings_list" else {}
        shape: Json = {"name": name, "in": "query", "required": False, "schema": schema, "description": about}
        if schema.get("type") == "array":
            shape |= {"style": "form", "explode": False}
        parameters.append(shape)
    if observed:
        for name, schema in _OBSERVED_QUERIES.get(operation.name, {}).items():
            parameters.append({"name": name, "in": "query", "required": False, "schema": schema})
    return parameters


def _answers(operation: Operation, observed: bool) -> Json:
    success: Json = {"description": "Refused." if operation.status == 405 else "Done."}
    if observed and operation.name in _OBSERVED_ANSWERS:
        success["content"] = {"application/json": {"schema": _OBSERVED_ANSWERS[operation.name]}}
    elif observed and operation.name == "hog_functions_icon":
        success["content"] = {"image/png": {"schema": {"type": "string", "format": "binary"}}}
    elif operation.answer:
        success["content"] = {"application/json": {"schema": _ref(operation.answer)}}
    elif operation.name == "hog_functions_rearrange":
        success["description"] = "Done; the contract does not state the answer."
    answers: Json = {str(operation.status): success}
    for status in _problems(operation, observed):
        if status not in answers:
            answers[status] = {"description": _PROBLEMS[status], "content": _problem_body(operation, status, observed)}
    return dict(sorted(answers.items()))


def _problem_body(operation: Operation, status: str, observed: bool) -> Json:
    bare = observed and operation.name == "hog_functions_invoke" and status == "400"
    return {"application/json": {"schema": {"type": "object"} if bare else _ref("Problem")}}


def _problems(operation: Operation, observed: bool) -> list[str]:
    statuses = ["401", "403", "404", "405", "413"]
    has_body = operation.method in WITH_BODY
    if has_body or operation.name in _QUERIES or (observed and operation.name in _OBSERVED_QUERIES):
        statuses.append("400")
    if has_body and operation.name != "query":
        statuses += ["415"]
    if observed and operation.name in ("hog_functions_update", "hog_functions_replace"):
        statuses.append("409")
    if operation.name == "query":
        statuses += ["504", "513"]
    return [*statuses, "429", "503"]


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas(observed: bool) -> dict[str, Json]:
    _, components = models_json_schema(
        [(model, "validation") for model in _MODELS], ref_template="#/components/schemas/{model}"
    )
    schemas: dict[str, Json] = dict(components["$defs"])
    write = schemas["HogFunctionWrite"]["properties"]
    if observed:
        write["template_id"] = {"type": "string", "enum": ["", *TEMPLATES]}
        _observe_write(schemas)
        for name in ("HogFunction", "HogFunctionListItem"):
            schemas[name] = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
        schemas["SessionRecording"] = {
            "type": "object",
            "required": ["id", *_RETENTION],
            "properties": {"id": {"type": "string"}, **_RETENTION},
        }
    else:
        for name in _ALWAYS:
            schemas[name]["required"] = sorted(schemas[name]["properties"])
    schemas["SessionRecordingWrite"] = {"type": "object", "properties": {"person": _ref("Person")}}
    if observed:
        schemas["SessionRecordingWrite"] = {
            "type": "object",
            "properties": {"viewed": {"type": "boolean"}, "analyzed": {"type": "boolean"}},
        }
    schemas["HogFunctionOrders"] = _orders(schemas["HogFunctionWrite"], observed)
    for name, item in (
        ("HogFunctionPage", "HogFunctionListItem"),
        ("SessionRecordingPage", "SessionRecording"),
        ("ProjectPage", "Project"),
    ):
        schemas[name] = _page(item)
    group_type = {"group_type": {"type": "string"}, "group_type_index": {"type": "integer"}}
    schemas["GroupTypes"] = {
        "type": "array",
        "items": {"type": "object", "required": sorted(group_type), "properties": group_type},
    }
    schemas["Problem"] = {
        "type": "object",
        "required": ["type", "code", "detail", "attr"],
        "properties": {
            "type": {"type": "string"},
            "code": {"type": "string"},
            "detail": {"type": "string"},
            "attr": {"type": ["string", "null"]},
        },
    }
    schemas["Query"] = {
        "type": "object",
        "required": ["query"],
        "properties": {
            "query": {
                "type": "object",
                "required": ["kind", "query"],
                "properties": {"kind": {"const": "HogQLQuery"}, "query": {"type": "string"}},
            }
        },
    }
    schemas["QueryAnswer"] = {
        "type": "object",
        "required": ["columns", "types", "results"],
        "properties": {
            "columns": {"type": "array", "items": {"type": "string"}},
            "types": {"type": "array"},
            "results": {"type": "array", "items": {"type": "array"}},
        },
    }
    return schemas


def _observe_write(schemas: dict[str, Json]) -> None:
    """What the source takes and refuses beyond the contract's types (docs/know/service.md#hog-functions)."""
    write = schemas["HogFunctionWrite"]["properties"]
    write["type"] = {"anyOf": [{"type": "string", "enum": list(TYPES)}, {"type": "null"}]}
    write["name"] |= {"maxLength": LONGEST_NAME}
    write["execution_order"] |= {"minimum": 0, "maximum": 32767}
    for name in ("InputSchemaItem", "InputValue"):
        schemas[name]["properties"]["templating"] = {"enum": [True, False, *TEMPLATING]}
    for name in ("HogFunctionWrite", "FunctionMapping"):
        schemas[name]["properties"]["inputs"]["additionalProperties"] = {
            "anyOf": [_ref("InputValue"), {"type": "null"}]
        }
    for name in NULLABLE - {"masking"}:
        write[name] = {"anyOf": [write[name], {"type": "null"}]}
    ttl = {"type": "integer", "minimum": SHORTEST_MASK, "maximum": LONGEST_MASK}
    schemas["MaskingWrite"] = {
        "type": "object",
        "required": ["ttl", "hash"],
        "properties": {"ttl": ttl, "hash": {"type": "string"}, "threshold": {"type": ["integer", "null"]}},
    }
    write["masking"] = {"anyOf": [_ref("MaskingWrite"), {"type": "null"}]}


def _orders(write: Json, observed: bool) -> Json:
    orders: Json = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"format": "uuid"},
        "additionalProperties": {"type": "integer"},
        "description": "The new execution order of each id.",
    }
    if observed:
        return {"type": "object", "required": ["orders"], "properties": {"orders": orders}}
    return write | {"properties": {**write["properties"], "orders": orders}}


def _page(item: str) -> Json:
    address: dict[str, Any] = {"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]}
    return {
        "type": "object",
        "required": ["count", "next", "previous", "results"],
        "properties": {
            "count": {"type": "integer"},
            "next": address,
            "previous": address,
            "results": {"type": "array", "items": _ref(item)},
        },
    }
