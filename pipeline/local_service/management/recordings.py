"""Session recordings: list, retrieve, update, delete, sharing (docs/know/service.md#session-recordings).

The contract has no way to create a recording; they come from a seed.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from pipeline.local_service.management.function_fields import check_shape
from pipeline.local_service.management.requests import (
    Json,
    OperationCall,
    answers,
    invalid,
    not_found,
    paginate,
    parse_instant,
    uuid_of,
)
from pipeline.management import operations

KIND: Final = "session_recording"
RETENTION = 30
"""Days that a recording is stored if its seed does not say: the service's own default."""


@answers(operations.LIST_RECORDINGS)
def recordings_list(call: OperationCall) -> Response:
    """List session recordings. One page, latest first."""
    recordings = sorted(call.state.documents.all(KIND, call.project_id), key=_start, reverse=True)
    if call.observed:
        return _observed_page(call, recordings)
    return paginate(call, recordings, lambda recording: recording)


@answers(operations.RETRIEVE_RECORDING)
def recordings_retrieve(call: OperationCall) -> Response:
    recording = _find(call, "id")
    return JSONResponse(_with_retention(call, recording) if call.observed else recording)


@answers(operations.UPDATE_RECORDING, operations.REPLACE_RECORDING)
def recordings_update(call: OperationCall) -> Response:
    """Update a session recording.

    `person`, whose inner shape the contract does not show, is merged into the stored person. Under `observed`, the
    recording is instead marked as viewed or analysed, and the answer is not the recording.
    """
    recording = _find(call, "id")
    if call.observed:
        return _mark(call, recording)
    if "person" in call.body:
        value = call.body["person"]
        check_shape("Person", value, attr="person")
        if "uuid" in value and uuid_of(value["uuid"]) is None:
            raise invalid("person__uuid", "Enter a valid UUID.")
        if "created_at" in value and parse_instant(value["created_at"]) is None:
            raise invalid("person__created_at", "Enter a valid date/time.")
        recording = recording | {"person": (recording.get("person") or {}) | value}
        call.state.documents.put(KIND, call.project_id, recording)
    return JSONResponse(recording)


@answers(operations.DELETE_RECORDING)
def recordings_delete(call: OperationCall) -> Response:
    """Delete a session recording.

    The real service does not check whether the recording exists (docs/know/service.md#session-recordings).
    """
    id = call.ids["id"]
    if call.state.documents.get(KIND, call.project_id, id) is not None:
        call.state.documents.remove(KIND, call.project_id, id)
    elif not call.observed:
        raise not_found()
    return Response(status_code=204)


@answers(operations.SHARING)
def recordings_sharing(call: OperationCall) -> Response:
    """Retrieve the sharing configuration of a recording.

    A recording that was never shared gets a disabled configuration.
    """
    recording = _find(call, "recording_id")
    configuration = call.state.documents.get("sharing", call.project_id, str(recording["id"]))
    if configuration is None:
        configuration = new_sharing(str(recording["id"]), call.now)
        call.state.documents.put("sharing", call.project_id, configuration)
    return _sharing(call, configuration)


@answers(operations.REFRESH_SHARING)
def recordings_sharing_refresh(call: OperationCall) -> Response:
    """Replace the access token of a recording.

    Makes a new configuration, enabled if the previous one was.
    """
    id = str(_find(call, "recording_id")["id"])
    configuration = new_sharing(id, call.now)
    before = call.state.documents.get("sharing", call.project_id, id)
    if before is not None:
        configuration["enabled"] = before["enabled"]
    call.state.documents.put("sharing", call.project_id, configuration)
    return _sharing(call, configuration)


def _sharing(call: OperationCall, configuration: Json) -> Response:
    shown: Json = {name: configuration[name] for name in ("created_at", "enabled", "access_token")}
    if call.observed:
        shown |= {"settings": {}, "password_required": False, "share_passwords": []}
    return JSONResponse(shown)


def new_sharing(id: str, now: str) -> Json:
    """The sharing configuration of a recording that is not shared."""
    return {"id": id, "created_at": now, "enabled": False, "access_token": secrets.token_urlsafe(22)}


def _find(call: OperationCall, name: str) -> Json:
    recording = call.state.documents.get(KIND, call.project_id, call.ids[name])
    if recording is None:
        raise not_found("Recording not found" if call.observed else "Not found.")
    return recording


def _with_retention(call: OperationCall, recording: Json) -> Json:
    """A recording and when it expires: its retention in days after the day it began; `recording_ttl` is the remaining
    days (the source's query of replay events). The real service no longer shows it then; this one does, with 0 days."""
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


def _observed_page(call: OperationCall, recordings: list[Json]) -> Response:
    """One page. A problem is reported as the text of the model's errors (docs/know/service.md#session-recordings)."""
    from pydantic import ValidationError

    from pipeline.local_service.management.observed_models import RecordingsQuery

    try:
        asked = RecordingsQuery.model_validate({name: _decoded(value) for name, value in call.query if value})
    except ValidationError as error:
        raise invalid(None, error.json(include_url=False, include_input=False, include_context=False)) from None
    for wanted, field in ((asked.session_ids, "id"), (asked.distinct_ids, "distinct_id")):
        if wanted is not None:
            recordings = [recording for recording in recordings if recording.get(field) in wanted]
    end = asked.offset + asked.limit
    shown = [_with_retention(call, recording) for recording in recordings[asked.offset : end]]
    return JSONResponse({"results": shown, "has_next": end < len(recordings), "version": 4})


def _decoded(text: str) -> Any:
    """A parameter, which may be JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _mark(call: OperationCall, recording: Json) -> Response:
    check_shape("SessionRecordingWrite", call.body, observed=True)
    if not (call.body.get("viewed") or call.body.get("analyzed")):
        raise invalid(None, "At least one of 'viewed' or 'analyzed' must be provided.")
    if call.body.get("viewed"):
        viewer = call.caller.user["email"]
        others = [email for email in recording.get("viewers") or [] if email != viewer]
        call.state.documents.put(KIND, call.project_id, recording | {"viewed": True, "viewers": [*others, viewer]})
    return JSONResponse({"success": True})
