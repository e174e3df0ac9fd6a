"""The capture endpoint of the contract, `/batch/`, in the OpenAPI document (docs/know/service.md)."""

from __future__ import annotations

from pipeline.local_service.management.requests import Json
from pipeline.local_service.settings import Settings

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_ANYTHING: Json = {"type": ["string", "number", "boolean", "object", "array"]}
_REFUSALS = {
    "400": "Bad JSON, a wrong shape or one bad event. Nothing of the request is stored.",
    "401": "The project key is missing, malformed, or not the same in all events.",
    "408": "The client stopped sending.",
    "413": "The body, or one event, is too large.",
    "503": "The service cannot store now.",
}


REFERENCE = "#/components/schemas/{name}"


def ref(name: str) -> Json:
    """A schema of the document."""
    return {"$ref": REFERENCE.format(name=name)}


def in_json(schema: Json) -> Json:
    """A body."""
    return {"application/json": {"schema": schema}}


def shape(*required: str, **properties: Json) -> Json:
    """An object that has these members, some of which are described."""
    return {"type": "object", "required": list(required), "properties": properties}


def capture_batch(settings: Settings) -> Json:
    """The operation."""
    refused = _REFUSALS | ({"415": "The body is not application/json."} if settings.content_type == "json" else {})
    answers: Json = {status: {"description": about, "content": _TEXT} for status, about in refused.items()}
    answers["200"] = {
        "description": "Accepted. The key may still belong to no project.",
        "content": in_json(shape("status", status={"const": "Ok"})),
    }
    answers["204"] = {"description": "Accepted, with beacon=1."}
    return {
        "operationId": "capture_batch",
        "tags": ["capture"],
        "summary": "Send events",
        "description": "The project key is in the body. gzip, base64 and forms are accepted too.",
        "security": [],
        "parameters": [
            _parameter("compression", "gzip, gzip-js, base64 or b64, if no header names it."),
            _parameter("beacon", "1: answer 204, empty."),
        ],
        "requestBody": {"required": True, "content": in_json(ref("CaptureBatch"))},
        "responses": answers,
    }


def capture_schemas() -> dict[str, Json]:
    """The objects of a capture request (docs/know/service.md#event-fields, #body-shapes)."""
    may_be_object: Json = {"type": ["object", "null"]}
    fields: dict[str, Json] = {
        "event": {"type": "string", "minLength": 1},
        "uuid": {"anyOf": [{"type": "string", "format": "uuid"}, {"const": ""}, {"type": "null"}]},
        "timestamp": {"type": ["string", "null"], "description": "ISO 8601; anything that is not a time becomes now."},
        "$set": may_be_object,
        "$set_once": may_be_object,
        "properties": shape(
            "distinct_id",
            **{"distinct_id": {**_ANYTHING, "pattern": "[A-Za-z0-9]"}, "$cookieless_mode": {"type": "boolean"}},
        ),
    }
    key: Json = {"type": "string", "pattern": "^[ -~]*[!-~][ -~]*$", "not": {"pattern": "^ *phx_"}, "maxLength": 64}
    return {
        "CapturedEvent": shape("event", "properties", **fields),
        "CaptureBatch": shape(
            "api_key",
            "batch",
            api_key=key,
            historical_migration={"type": ["boolean", "null"]},
            sent_at={"type": ["string", "null"]},
            batch={"type": "array", "minItems": 1, "items": ref("CapturedEvent")},
        ),
    }


def _parameter(name: str, about: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": "string"}, "description": about}
