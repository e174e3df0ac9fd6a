"""What happens to a request to the per-event endpoint: it is checked as a whole, then each event separately.

A request that is refused as a whole stores nothing; otherwise each event gets a verdict, and a bad event does not keep
others from being stored (docs/know/service.md#per-event-endpoint). Errors are JSON with a stable name.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.local_service.capture.decoding import RequestRefused, from_gzip, too_large
from pipeline.local_service.capture.parsing import RawEvent, is_uuid
from pipeline.local_service.capture.timestamps import FUTURE_CUTOFF, parse_rfc3339
from pipeline.local_service.capture.validation import (
    NEVER_HISTORICAL,
    WHITESPACE,
    AcceptedRequest,
    oversize,
    reason_to_drop,
    token_problem,
)
from pipeline.local_service.keys import Keyring
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import EventColumns

LONGEST = 200
"""The most bytes of an event's name and of an id."""
LONGEST_SDK_INFO = 200
ILLEGAL_IDS = frozenset(
    (
        "0", "00000000-0000-0000-0000-000000000000", "[object object]", "anonymous", "anonymous-user", "backend",
        "distinct_id", "distinctid", "email", "false", "guest", "id", "nan", "none", "not_authenticated", "null",
        "system", "true", "undefined", "user",
    )
)  # fmt: skip
"""Ids, in any case, whose events are accepted without person processing, with a note in their verdict."""
_HEADERS = (
    "posthog-sdk-info", "posthog-attempt", "posthog-request-id", "posthog-request-timestamp", "content-type",
    "user-agent",
)  # fmt: skip
_ENCODINGS = ("", "gzip", "deflate")
_OTHER_ENCODINGS = ("br", "zstd")
_BOOLEANS = ("cookieless_mode", "disable_skew_correction", "process_person_profile")
_STORED_AS = {
    "cookieless_mode": "$cookieless_mode",
    "disable_skew_correction": "$ignore_sent_at",
    "product_tour_id": "$product_tour_id",
    "process_person_profile": "$process_person_profile",
}
"""The property that the service stores each option as."""

_encode = msgspec.json.encode
_as_object = msgspec.json.Decoder(dict[str, Any]).decode


def refused(status: int, name: str, text: str) -> RequestRefused:
    return RequestRefused(status, text, name)


def error_body(refusal: RequestRefused) -> dict[str, str]:
    return {
        "error": refusal.name,
        "error_description": refusal.text,
        "error_uri": "https://posthog.com/docs/api",
    }


class _Event(msgspec.Struct, gc=False):
    event: str
    uuid: str
    distinct_id: str
    timestamp: str
    session_id: str | None = None
    window_id: str | None = None
    options: Any = None
    properties: Raw = Raw(b"{}")


class _Batch(msgspec.Struct):
    created_at: str
    batch: list[_Event]
    historical_migration: bool = False
    capture_internal: bool | None = None


_as_batch = msgspec.json.Decoder(_Batch).decode


class _Dropped(Exception):
    """An event that is dropped, with the reason's name."""


def judge_request(body: bytes, *, headers: Mapping[str, str], keys: Keyring, settings: Settings) -> AcceptedRequest:
    """Check one request whose body has arrived; names of headers are in lower case. Raises RequestRefused."""
    token = _token(headers)
    sent_at = _check_headers(headers)
    text = _decode(body, headers.get("content-encoding", "").lower(), settings.per_event_decoded_limit)
    try:
        batch = _as_batch(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise refused(400, "request_parsing_error", "Failed to parse request body.") from None
    uuids = _check_batch(batch)
    project = keys.project_of(token)
    if project is None and settings.token_validation == "enforce":
        raise _bad_token()
    now = settings.clock()
    judged = AcceptedRequest(project, EventColumns(now))
    for event, own_uuid in zip(batch.batch, uuids, strict=True):
        try:
            judged.results[own_uuid] = _judge(event, own_uuid, batch, judged.events, headers, sent_at, token, settings)
        except _Dropped as dropped:
            judged.results[own_uuid] = {"result": "drop", "details": str(dropped)}
    return judged


def _token(headers: Mapping[str, str]) -> str:
    given = headers.get("authorization")
    if given is None:
        raise refused(401, "missing_authorization", "request is missing the Authorization header")
    missing = [name for name in _HEADERS if name not in headers]
    if missing:
        raise refused(400, "missing_required_headers", f"request is missing required headers: {missing}")
    if given[:7].lower() != "bearer ":
        raise refused(400, "invalid_header_value", "invalid header value: Authorization must use Bearer scheme")
    token = given[7:].strip()
    if token_problem(token):
        raise _bad_token()
    return token


def _bad_token() -> RequestRefused:
    return refused(401, "invalid_api_token", "The provided API token is not valid.")


def _check_headers(headers: Mapping[str, str]) -> int:
    """The client's clock. Raises RequestRefused."""
    if headers["content-type"].partition(";")[0].strip().lower() != "application/json":
        raise refused(415, "unsupported_content_type", "unsupported content type")
    encoding = headers.get("content-encoding", "").lower()
    if encoding in _OTHER_ENCODINGS:
        raise refused(415, "unsupported_encoding", f"{encoding} is not supported by the local service")
    if encoding not in _ENCODINGS:
        raise refused(415, "unsupported_encoding", "unsupported content encoding")
    sent_at = parse_rfc3339(headers["posthog-request-timestamp"])
    attempt = headers["posthog-attempt"]
    for name, is_valid in (
        ("PostHog-Request-Id", is_uuid(headers["posthog-request-id"])),
        ("PostHog-Attempt", attempt.isascii() and attempt.isdigit() and 1 <= int(attempt) < 1 << 32),
        ("PostHog-Request-Timestamp", sent_at is not None),
    ):
        if not is_valid:
            raise refused(400, "invalid_header_value", f"invalid header value: {name}")
    assert sent_at is not None
    return sent_at


def _decode(body: bytes, encoding: str, limit: int) -> bytes:
    """The JSON text of a body. Raises RequestRefused."""
    if not body:
        raise refused(400, "empty_body", "request body is empty")
    try:
        if encoding == "gzip":
            body = from_gzip(body, limit)
        elif encoding == "deflate":
            body = zlib.decompressobj().decompress(body, limit + 1)
    except (RequestRefused, zlib.error) as error:
        if getattr(error, "status", 400) == 413:
            raise
        raise refused(400, "request_decoding_error", "Failed to decode request body.") from None
    if len(body) > limit:
        raise too_large(f"over {limit} bytes")
    return body


def _check_batch(batch: _Batch) -> list[str]:
    """The uuids of the events, spelled as in the answer. Raises RequestRefused."""
    if not batch.batch:
        raise refused(400, "empty_batch", "request batch is empty")
    if parse_rfc3339(batch.created_at) is None:
        raise refused(400, "invalid_batch", "invalid batch: created_at is not valid RFC 3339")
    uuids: dict[str, None] = {}
    for event in batch.batch:
        given = event.uuid.strip(WHITESPACE)
        if not given:
            raise refused(400, "missing_event_uuid", "event submitted without a uuid")
        if not is_uuid(given):
            raise refused(400, "invalid_event_uuid", f"event submitted with an invalid uuid: {given}")
        own = str(uuid.UUID(given))
        if own in uuids:
            raise refused(400, "duplicate_event_uuid", f"duplicate event uuid: {given}")
        uuids[own] = None
    return list(uuids)


def _judge(
    event: _Event,
    own_uuid: str,
    batch: _Batch,
    events: EventColumns,
    headers: Mapping[str, str],
    sent_at: int,
    token: str,
    settings: Settings,
) -> dict[str, str]:
    """The verdict for an event that is accepted, which is added to the columns. Raises _Dropped."""
    name, distinct_id = event.event, event.distinct_id.strip(WHITESPACE)
    if name == "$performance_event":
        raise _Dropped("dropped_performance_event")
    if not name:
        raise _Dropped("missing_event_name")
    if len(name.encode()) > LONGEST:
        raise _Dropped("event_name_too_long")
    if not distinct_id:
        raise _Dropped("missing_distinct_id")
    if len(distinct_id.encode()) > LONGEST:
        raise _Dropped("distinct_id_too_large")
    instant = parse_rfc3339(event.timestamp)
    if instant is None:
        raise _Dropped("invalid_event_timestamp")
    text = bytes(event.properties)
    if text[:1] != b"{":
        raise _Dropped("malformed_event_properties")
    options = _options(event.options)
    if distinct_id.lower() in ILLEGAL_IDS:
        options["process_person_profile"] = False
    now = events.created_at
    if not options.get("disable_skew_correction"):
        instant -= sent_at - now
        if instant - now > FUTURE_CUTOFF:
            instant = now
    text = _with_properties(text, event, options, headers["posthog-sdk-info"])
    properties = _as_object(text)
    whole = RawEvent(event=name, distinct_id=distinct_id, uuid=own_uuid, timestamp=event.timestamp)
    if oversize(whole, properties, token, now, settings.stored_event_limit) is not None:
        raise _Dropped("event_too_big")
    if (reason := reason_to_drop(name, properties, instant, now, settings)) is not None:
        events.warn(reason)
    historical = batch.historical_migration and name not in NEVER_HISTORICAL
    events.add(own_uuid, name, distinct_id.replace("\0", "\ufffd"), instant, text, historical)
    if distinct_id.lower() in ILLEGAL_IDS:
        return {"result": "ok", "details": "person_processing_disabled"}
    return {"result": "ok"}


def _options(given: Any) -> dict[str, Any]:
    """The known options, each with its type; others are ignored. Raises _Dropped."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise _Dropped("invalid_options")
    options: dict[str, Any] = {}
    for name in _STORED_AS:
        value = given.get(name)
        if value is not None:
            options[name] = _boolean(value) if name in _BOOLEANS else _text(value)
    return options


def _boolean(value: Any) -> bool:
    if isinstance(value, bool | int | float):
        return value != 0
    spelt = value.strip().lower() if isinstance(value, str) else ""
    if spelt in ("true", "1", "false", "0"):
        return spelt in ("true", "1")
    raise _Dropped("invalid_options")


def _text(value: Any) -> str:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise _Dropped("invalid_options")


def _with_properties(text: bytes, event: _Event, options: Mapping[str, Any], sdk_info: str) -> bytes:
    """The properties as sent, followed by what the service stores from the rest of the event.

    `$lib` and `$lib_version` come from the header if it has both.
    """
    added: dict[str, Any] = {}
    if event.session_id is not None:
        added["$session_id"] = event.session_id
    if event.window_id is not None:
        added["$window_id"] = event.window_id
    added |= {_STORED_AS[name]: value for name, value in options.items()}
    library, _, version = (part.strip() for part in sdk_info.rpartition("/"))
    if library and version and len(sdk_info) <= LONGEST_SDK_INFO:
        added |= {"$lib": library, "$lib_version": version}
    if not added:
        return text
    separator = b"" if text[1:].lstrip().startswith(b"}") else b","
    return text[: text.rindex(b"}")] + separator + _encode(added)[1:]
