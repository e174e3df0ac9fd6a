"""Session recordings: list, retrieve, update, delete, sharing (docs/know/service.md#session-recordings).

The contract has no way to create one; they come from a seed.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from datetime import timedelta
from typing import Final

from pipeline.local_service.management.function_fields import check_shape
from pipeline.local_service.management.requests import (
    Json,
    ManagementState,
    OperationCall,
    OperationReply,
    invalid,
    not_found,
    paginate,
    parse_instant,
    uuid_of,
)
from pipeline.management.models import Person

KIND: Final = "session_recording"
USUAL = 50
"""Recordings of a page under `observed`."""
RETENTION = 30
"""Days that a recording is stored where its seed does not name them: what the service's source assumes."""
_PARAMETERS = frozenset({
    "date_from", "date_to", "session_ids", "events", "actions", "properties", "console_log_filters",
    "having_predicates", "filter_test_accounts", "order", "order_direction", "limit", "offset", "after",
    "person_uuid", "distinct_ids", "as_query", "version", "hogql_filtering", "add_events_to_property_queries",
})  # fmt: skip
"""Query parameters that the real service knows, as far as is known; any other is a 400
(docs/know/service.md#session-recordings)."""


def list_recordings(state: ManagementState, call: OperationCall) -> OperationReply:
    """One page, the latest first."""
    found = sorted(state.documents.all(KIND, call.project_id), key=_start, reverse=True)
    if state.observed:
        return _observed_page(call, found)
    envelope, shown = paginate(call, found, strict=True)
    envelope["results"] = list(shown)
    return OperationReply(body=envelope)


def retrieve(state: ManagementState, call: OperationCall) -> OperationReply:
    """One recording."""
    recording = _find(state, call, "id")
    return OperationReply(body=_with_retention(call, recording) if state.observed else recording)


def update(state: ManagementState, call: OperationCall) -> OperationReply:
    """Set `person`, whose inner shape the contract does not show: it is merged into the stored one.

    Under `observed` it is marked as viewed or analysed instead, and the answer is not the recording.
    """
    recording = _find(state, call, "id")
    if state.observed:
        return _mark(state, call, recording)
    if "person" in call.body:
        value = call.body["person"]
        if not isinstance(value, dict):
            code = (
                ("null", "This field may not be null.")
                if value is None
                else ("invalid_input", "Expected a dictionary.")
            )
            raise invalid("person", code[1], code[0])
        check_shape(Person, value, attr="person")
        if "uuid" in value and uuid_of(value["uuid"]) is None:
            raise invalid("person__uuid", "Enter a valid UUID.")
        if "created_at" in value and parse_instant(value["created_at"]) is None:
            raise invalid("person__created_at", "Enter a valid date/time.")
        recording = recording | {"person": (recording.get("person") or {}) | value}
        state.documents.put(KIND, call.project_id, recording)
    return OperationReply(body=recording)


def delete(state: ManagementState, call: OperationCall) -> OperationReply:
    """204. The real service does not look whether there is such a recording
    (docs/know/service.md#session-recordings)."""
    id = call.ids["id"]
    if state.documents.get(KIND, call.project_id, id) is not None:
        state.documents.remove(KIND, call.project_id, id)
    elif not state.observed:
        raise not_found()
    return OperationReply(204)


def sharing(state: ManagementState, call: OperationCall) -> OperationReply:
    """How a recording is shared; one that never was gets a disabled configuration."""
    recording = _find(state, call, "recording_id")
    configuration = state.documents.get("sharing", call.project_id, str(recording["id"]))
    if configuration is None:
        configuration = new_sharing(str(recording["id"]), call.now)
        state.documents.put("sharing", call.project_id, configuration)
    return _sharing(state, configuration)


def refresh_sharing(state: ManagementState, call: OperationCall) -> OperationReply:
    """Replace the access token: a new configuration, enabled or not as the one that it replaces."""
    id = str(_find(state, call, "recording_id")["id"])
    configuration = new_sharing(id, call.now)
    before = state.documents.get("sharing", call.project_id, id)
    if before is not None:
        configuration["enabled"] = before["enabled"]
    state.documents.put("sharing", call.project_id, configuration)
    return _sharing(state, configuration)


def _sharing(state: ManagementState, configuration: Json) -> OperationReply:
    shown: Json = {name: configuration[name] for name in ("created_at", "enabled", "access_token")}
    if state.observed:
        shown |= {"settings": {}, "password_required": False, "share_passwords": []}
    return OperationReply(body=shown)


def new_sharing(id: str, now: str) -> Json:
    """The sharing configuration of a recording that is not shared."""
    return {"id": id, "created_at": now, "enabled": False, "access_token": secrets.token_urlsafe(22)}


def _find(state: ManagementState, call: OperationCall, name: str) -> Json:
    recording = state.documents.get(KIND, call.project_id, call.ids[name])
    if recording is None:
        raise not_found("Recording not found" if state.observed else "Not found.")
    return recording


def _with_retention(call: OperationCall, recording: Json) -> Json:
    """A recording and when it expires: so many days after the day it began; `recording_ttl` is the days that are left
    (the source's query of replay events). The real service shows it no longer then; this one does, with 0 days."""
    days = recording.get("retention_period_days") or RETENTION
    expiry_fields: Json = {"retention_period_days": days, "expiry_time": None, "recording_ttl": None}
    start, now = parse_instant(str(recording.get("start_time") or "")), parse_instant(call.now)
    if start and now:
        with suppress(OverflowError):
            expiry = start.date() + timedelta(days=days)
            expiry_fields |= {"expiry_time": f"{expiry}T00:00:00Z", "recording_ttl": max(0, (expiry - now.date()).days)}
    return recording | {name: value for name, value in expiry_fields.items() if recording.get(name) is None}


def _start(recording: Json) -> tuple[float, str]:
    at = parse_instant(str(recording.get("start_time") or ""))
    return (at.timestamp() if at else 0.0), str(recording["id"])


def _observed_page(call: OperationCall, found: list[Json]) -> OperationReply:
    for name, _ in call.query:
        if name not in _PARAMETERS:
            detail = [{"type": "extra_forbidden", "loc": [name], "msg": "Extra inputs are not permitted"}]
            raise invalid(None, json.dumps(detail))
    limit, offset = _count(call, "limit", USUAL), _count(call, "offset", 0)
    for name, field in (("session_ids", "id"), ("distinct_ids", "distinct_id")):
        wanted = _names(call, name)
        if wanted is not None:
            found = [one for one in found if one.get(field) in wanted]
    shown = [_with_retention(call, one) for one in found[offset : offset + limit]]
    return OperationReply(body={"results": shown, "has_next": offset + limit < len(found), "version": 4})


def _count(call: OperationCall, name: str, usual: int) -> int:
    value = call.parameter(name)
    if value is None:
        return usual
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise invalid(
            None, json.dumps([{"type": "int_parsing", "loc": [name], "msg": "Input should be a valid integer"}])
        )
    return int(value)


def _names(call: OperationCall, name: str) -> list[object] | None:
    value = call.parameter(name)
    if value is None:
        return None
    try:
        listed = json.loads(value)
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list):
        raise invalid(None, json.dumps([{"type": "list_type", "loc": [name], "msg": "Input should be a valid list"}]))
    return listed


def _mark(state: ManagementState, call: OperationCall, recording: Json) -> OperationReply:
    marks = {}
    for name in ("viewed", "analyzed"):
        marks[name] = call.body.get(name, False)
        if not isinstance(marks[name], bool):
            raise invalid(name, "Must be a valid boolean.")
    if not any(marks.values()):
        raise invalid(None, "At least one of 'viewed' or 'analyzed' must be provided.")
    if marks["viewed"]:
        viewer = call.caller.user["email"]
        seen = [one for one in recording.get("viewers") or [] if one != viewer]
        state.documents.put(KIND, call.project_id, recording | {"viewed": True, "viewers": [*seen, viewer]})
    return OperationReply(body={"success": True})
