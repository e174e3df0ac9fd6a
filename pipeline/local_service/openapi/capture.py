"""The capture endpoint, and the paths about the service itself, in the OpenAPI document (docs/know/service.md)."""

from __future__ import annotations

from pipeline.local_service.management.requests import Json
from pipeline.local_service.settings import Settings

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_ROUTES = ("/i/v0/e/", "/e/", "/capture/", "/track/", "/engage/")
_ANYTHING: Json = {"type": ["string", "number", "boolean", "object", "array"]}
_REFUSALS = {
    "400": "The request as a whole: bad JSON, a shape, one bad event. Nothing of it is stored.",
    "401": "The project key is missing, malformed, or not the same in all events.",
    "408": "The client stopped sending.",
    "413": "The body, or one event, is too large.",
    "503": "The service cannot store now.",
}


def capture_paths(settings: Settings) -> dict[str, Json]:
    """The paths, each by method."""
    paths: dict[str, Json] = {"/batch/": _methods("capture_batch", "CaptureBatch", settings)}
    for path in _ROUTES:
        paths[path] = _methods("capture" + path.replace("/", "_").rstrip("_"), "CaptureEvent", settings)
    for path, summary in (("/_readiness", "Ready"), ("/_liveness", "Alive")):
        paths[path] = {"get": _service_path(path, summary, _TEXT)}
    counts = {"application/json": {"schema": {"type": "object", "required": ["events", "raw_events", "requests"]}}}
    paths["/_stats"] = {"get": _service_path("/_stats", "Counts of what landed", counts)}
    return paths


def capture_schemas() -> dict[str, Json]:
    """The objects of a capture request (docs/know/service.md#event-fields, #body-shapes)."""
    event: Json = {
        "type": "object",
        "required": ["event", "properties"],
        "properties": {
            "event": {"type": "string", "minLength": 1},
            "uuid": {"anyOf": [{"type": "string", "format": "uuid"}, {"const": ""}, {"type": "null"}]},
            "timestamp": {"type": ["string", "null"], "description": "ISO 8601; one that is no time becomes now."},
            "$set": {"type": ["object", "null"]},
            "$set_once": {"type": ["object", "null"]},
            "properties": {
                "type": "object",
                "required": ["distinct_id"],
                "properties": {
                    "distinct_id": {**_ANYTHING, "pattern": "[A-Za-z0-9]"},
                    "$cookieless_mode": {"type": "boolean"},
                },
            },
        },
    }
    key: Json = {"type": "string", "pattern": "^[ -~]*[!-~][ -~]*$", "not": {"pattern": "^ *phx_"}, "maxLength": 64}
    return {
        "CapturedEvent": event,
        "CaptureEvent": event
        | {"required": ["api_key", *event["required"]], "properties": {"api_key": key, **event["properties"]}},
        "CaptureBatch": {
            "type": "object",
            "required": ["api_key", "batch"],
            "properties": {
                "api_key": key,
                "historical_migration": {"type": ["boolean", "null"]},
                "sent_at": {"type": ["string", "null"]},
                "batch": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"$ref": "#/components/schemas/CapturedEvent"},
                },
            },
        },
        "Accepted": {"type": "object", "required": ["status"], "properties": {"status": {"const": "Ok"}}},
    }


def _methods(name: str, body: str, settings: Settings) -> Json:
    post = _operation(name, "Send events", settings)
    schema = {"$ref": f"#/components/schemas/{body}"}
    post["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    get = _operation(name + "_get", "Send events as ?data=", settings)
    get["parameters"].append(
        {"name": "data", "in": "query", "schema": {"type": "string"}, "description": "The body, often as base64."}
    )
    return {"post": post, "get": get}


def _operation(name: str, summary: str, settings: Settings) -> Json:
    refused = dict(_REFUSALS)
    if settings.content_type == "json":
        refused["415"] = "The body is not application/json."
    answers: Json = {
        "200": {
            "description": "Accepted. The key may still be that of no project.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Accepted"}}},
        },
        "204": {"description": "Accepted, with beacon=1."},
    }
    answers |= {status: {"description": about, "content": _TEXT} for status, about in refused.items()}
    return {
        "operationId": name,
        "tags": ["capture"],
        "summary": summary,
        "description": "The project key is in the body. gzip, base64 and forms are taken too.",
        "security": [],
        "parameters": [
            {
                "name": "compression",
                "in": "query",
                "schema": {"type": "string"},
                "description": "gzip, gzip-js, base64 or b64, where no header names it.",
            },
            {"name": "beacon", "in": "query", "schema": {"type": "string"}, "description": "1: answer 204, empty."},
        ],
        "responses": answers,
    }


def _service_path(path: str, summary: str, content: Json) -> Json:
    return {
        "operationId": path.lstrip("/_"),
        "tags": ["service"],
        "summary": summary,
        "description": "",
        "security": [],
        "responses": {"200": {"description": "As it is.", "content": content}},
    }
