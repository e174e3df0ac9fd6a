"""What happens to a capture request: it is decoded, parsed, each event is checked, and only then is it stored.

One bad event refuses its whole batch, as at the real service: nothing is stored unless every event is good
(docs/know/service.md#answers). Statuses and plain texts are in the order of the service's source.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from pipeline.local_service import ingestion_warnings
from pipeline.local_service.capture.decoding import FORM, RequestRefused, decode_body, too_large
from pipeline.local_service.capture.parsing import ParsedRequest, RawEvent, parse_body
from pipeline.local_service.capture.timestamps import parse_sent_at, stored_instant
from pipeline.local_service.ingestion_warnings import CONTENT_TYPE, LONG_ID, LONG_NAME, EventWarning, event_warning
from pipeline.local_service.keys import Keyring
from pipeline.local_service.people.updates import GROUP_EVENTS, IDENTIFY, MERGES, as_text, is_group_event
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import EventColumns

OK = '{"status":"Ok"}'
LONGEST_ID = 200
"""How many characters of a distinct_id are stored (docs/know/service.md#ids-and-text)."""
LONGEST_NAME = 200
"""How many UTF-16 units of an event's name are stored (docs/know/service.md#ids-and-text)."""
LONGEST_TOKEN = 64
LONGEST_GROUP_KEY = 400
"""The most characters of a group's key."""

_MAY_BE_DROPPED = MERGES | GROUP_EVENTS
NEVER_HISTORICAL = frozenset({"$exception", "$$heatmap", "$$client_ingestion_warning"})
"""Events that are never in the historical lane, even if the batch asks for it
(docs/know/service.md#historical-migration)."""
WHITESPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_EXACT_SIZE_ABOVE = 200_000
"""An event of more bytes has its queued size computed exactly; no shorter one comes near the limit."""
_EXPONENT = re.compile(r"e([+-])0*(\d)")

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_members = msgspec.json.Decoder(dict[str, Raw]).decode


class AcceptedRequest(msgspec.Struct, frozen=True):
    """The events of a request, for one project or for no project.

    `refusal` is set for an event too large for the queue, if the events before it are stored (`oversize_event`).
    `results` has the verdict for each event by its uuid, at the endpoint that gives verdicts.
    """

    project: int | None
    events: EventColumns
    refusal: RequestRefused | None = None
    results: dict[str, dict[str, str]] = {}


def accept_request(
    body: bytes,
    *,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    keys: Keyring,
    settings: Settings,
) -> AcceptedRequest:
    """Check one request whose body has arrived. Raises RequestRefused; stores nothing itself."""
    is_unexpected = path.rstrip("/") == "/batch" and bool(body) and not _is_json(headers)
    if is_unexpected and settings.content_type == "json":
        raise RequestRefused(415, "expected Content-Type: application/json")
    text = decode_body(body, query, headers, settings.decoded_limit)
    parsed = parse_body(text, engage=path.startswith("/engage"))
    now = settings.clock()
    if not parsed.events:
        raise RequestRefused(400, "request holds no event")
    # these are dropped without a record, before the key is checked (docs/know/service.md#answers)
    parsed.events = [parsed_event for parsed_event in parsed.events if parsed_event.event.event != "$performance_event"]
    if not parsed.events:
        return AcceptedRequest(None, EventColumns(now))
    token = _token(parsed)
    project = keys.project_of(token)
    if project is None and settings.token_validation == "enforce":
        raise RequestRefused(401, "API key is not valid: unknown")
    accepted = _check_events(project, parsed, _sent_at(parsed, query), now, token, settings)
    if is_unexpected and accepted.events.uuid:
        warning = event_warning(CONTENT_TYPE, content_type=headers.get("content-type"))
        accepted.events.warnings.append((0, warning))
    return accepted


def _is_json(headers: Mapping[str, str]) -> bool:
    """Whether the body is declared as JSON, as the contract asks, or as a form."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() in ("application/json", FORM)


def _token(parsed: ParsedRequest) -> str:
    """The capture key: the batch's own, otherwise the one that all events share (docs/know/service.md#event-fields)."""
    token = parsed.token
    if token is None:
        tokens = {_event_token(event, properties) for event, properties, _, _ in parsed.events} - {None}
        if not tokens:
            raise RequestRefused(401, "event submitted without an api_key")
        if len(tokens) > 1:
            raise RequestRefused(401, "batch submitted with inconsistent api_key values")
        token = str(tokens.pop())
    token = token.strip(WHITESPACE)
    problem = token_problem(token)
    if problem:
        raise RequestRefused(401, f"API key is not valid: {problem}")
    return token


def _event_token(event: RawEvent, properties: dict[str, Any]) -> str | None:
    for token in (event.token, event.dollar_token, event.api_key, properties.get("token")):
        if isinstance(token, str):
            return token
    return None


def token_problem(token: str) -> str:
    """What is wrong with the shape of a key, "" if nothing is wrong."""
    if not token:
        return "empty"
    if len(token.encode("utf-8", "surrogatepass")) > LONGEST_TOKEN:
        return "too_long"
    if not token.isascii():
        return "not_ascii"
    if token.startswith("phx_"):
        return "personal_api_key"
    return "null_byte" if "\0" in token else ""


def _sent_at(parsed: ParsedRequest, query: Mapping[str, str]) -> int | None:
    """The client's clock: the batch's `sent_at`, otherwise the query's `_` in milliseconds, if after 2020."""
    if parsed.sent_at is not None:
        instant = parse_sent_at(parsed.sent_at)
        if instant is not None:
            return instant
    millis = query.get("_", "")
    if millis.isascii() and millis.isdigit() and len(millis) < 16:
        instant = int(millis) * 1000
        if instant >= 1_609_459_200_000_000:
            return instant
    return None


def _check_events(
    project: int | None, parsed: ParsedRequest, sent_at: int | None, now: int, token: str, settings: Settings
) -> AcceptedRequest:
    """Checks every event and adds it to the columns. Raises RequestRefused."""
    events = EventColumns(now)
    refusal = None
    for event, properties, text, size in parsed.events:
        if not event.event:
            raise RequestRefused(400, "event submitted with an empty event name")
        distinct_id = _distinct_id(event, properties)
        if not isinstance(properties.get("$cookieless_mode", False), bool):
            raise RequestRefused(400, "event submitted with invalid cookieless mode")
        if refusal is None and size > _EXACT_SIZE_ABOVE:
            refusal = oversize(event, properties, token, now, settings.stored_event_limit)
        if refusal is not None:
            continue  # still check the other events: a refusal by the checks comes before one by the queue
        skew = None if properties.get("$ignore_sent_at") is True else sent_at
        instant, problem = stored_instant(event.timestamp, event.offset, skew, now)
        if problem:
            events.warn(event_warning(problem, timestamp=event.timestamp))
        name = event.event
        if len(distinct_id) > LONGEST_ID:
            events.warn(event_warning(LONG_ID, distinct_id=distinct_id))
            distinct_id = distinct_id[:LONGEST_ID]
        if len(name) > LONGEST_NAME // 2:
            name = _shortened(name)
            if name != event.event:
                events.warn(event_warning(LONG_NAME, event=event.event))
        if name[0] == "$" or settings.drop_events_older_than is not None:
            reason = reason_to_drop(name, properties, instant, now, settings)
            if reason is not None:
                events.warn(reason)
        historical = parsed.historical and event.event not in NEVER_HISTORICAL
        events.add(event.uuid or _new_uuid(now), name, distinct_id, instant, _properties(event, text), historical)
    if refusal is not None and settings.oversize_event == "reject":
        raise refusal
    return AcceptedRequest(project, events, refusal)


def _distinct_id(event: RawEvent, properties: dict[str, Any]) -> str:
    """The full id: a string unchanged, anything else as JSON text, NUL replaced. Raises RequestRefused."""
    value = event.distinct_id
    if value is UNSET:
        value = event.dollar_distinct_id
    if value is UNSET or value is None:
        value = properties.get("distinct_id")
    if type(value) is not str:
        if value is None:
            raise RequestRefused(400, "event submitted without a distinct_id")
        value = _json_text(value)
    if "\0" in value:
        value = value.replace("\0", "\ufffd")
    if not value or (value.isspace() and not value.strip(WHITESPACE)):
        raise RequestRefused(400, "event submitted without a distinct_id")
    return value


def _shortened(name: str) -> str:
    """The start of an event's name, up to the limit of UTF-16 units; half a surrogate pair is left out."""
    return name.encode("utf-16-le")[: 2 * LONGEST_NAME].decode("utf-16-le", "ignore")


def _json_text(value: Any) -> str:
    """A value as the real service writes it: no spaces, names sorted, the shortest number."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        value = float(value)
    if isinstance(value, float):
        if 1e-5 <= abs(value) < 1e-4:  # Python already writes an exponent here
            return format(Decimal(repr(value)), "f")
        return _EXPONENT.sub(lambda match: "e" + match[1].strip("+") + match[2], repr(value))
    return _encode_sorted(value).decode()


def _new_uuid(now: int) -> str:
    """A uuid of the current time (version 7), for an event without one."""
    raw = bytearray((now // 1000).to_bytes(6, "big") + os.urandom(10))
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))


def _properties(event: RawEvent, text: bytes) -> bytes:
    """The properties as the exact text that was sent; a `$set` next to them is merged in, and its keys win."""
    if event.set is None and event.set_once is None:
        return text
    merged = _members(text)
    for name, added in (("$set", event.set), ("$set_once", event.set_once)):
        if added is not None:
            inner = merged.get(name)
            base = _members(inner) if inner is not None and bytes(inner)[:1] == b"{" else {}
            merged[name] = Raw(_encode(base | added))
    return _encode(merged)


def oversize(event: RawEvent, properties: dict[str, Any], token: str, now: int, limit: int) -> RequestRefused | None:
    """A refusal if the event, encoded once more inside JSON, is over the queue's limit."""
    inner: dict[str, Any] = {"uuid": event.uuid or None, "event": event.event, "properties": properties}
    outer: dict[str, Any] = {
        "uuid": "0" * 36,
        "distinct_id": _distinct_id(event, properties)[:LONGEST_ID],
        "ip": "127.0.0.1",
    }
    for name in ("token", "distinct_id", "timestamp", "offset"):
        value = getattr(event, name)
        if value is not UNSET and value is not None:
            inner[name] = value
    inner |= {name: value for name, value in (("$set", event.set), ("$set_once", event.set_once)) if value}
    outer |= {"data": _encode(inner).decode(), "now": "2000-01-01T00:00:00.000000Z", "token": token}
    outer |= {"event": event.event, "timestamp": "2000-01-01T00:00:00Z", "historical_migration": True}
    if len(_encode(outer)) > limit:
        return too_large("Event rejected by kafka during send")
    return None


def reason_to_drop(
    event: str, properties: dict[str, Any], instant: int, now: int, settings: Settings
) -> EventWarning | None:
    """Why the service drops an event after its 200, or None; it depends only on the event
    (docs/know/service.md#historical-migration, #persons).

    Instants are microseconds since 1970 (UTC).
    """
    oldest = settings.drop_events_older_than
    if oldest is not None and instant < now - oldest * 1_000_000:
        return event_warning(ingestion_warnings.TOO_OLD, dropped=True, seconds=oldest)
    if event not in _MAY_BE_DROPPED:
        return None
    if event in MERGES or is_group_event(event, settings):
        if properties.get("$process_person_profile") is False:
            return event_warning(ingestion_warnings.NOT_WITHOUT_PROFILE, dropped=True, event=event)
        return _bad_merge(event, properties, settings) if event in MERGES else _bad_group(properties)
    return None


def _bad_merge(event: str, properties: dict[str, Any], settings: Settings) -> EventWarning | None:
    other = properties.get("$anon_distinct_id" if event == IDENTIFY else "alias")
    if settings.merge_ids == "text" and other is not None and not isinstance(other, str):
        return event_warning(ingestion_warnings.BAD_MERGE_ID, dropped=True, event=event, given=other)
    return None


def _bad_group(properties: dict[str, Any]) -> EventWarning | None:
    key, group_set = properties.get("$group_key"), properties.get("$group_set")
    if key is not None and len(as_text(key)) > LONGEST_GROUP_KEY:
        return event_warning(
            ingestion_warnings.LONG_GROUP_KEY, dropped=True, length=len(as_text(key)), longest=LONGEST_GROUP_KEY
        )
    if group_set is not None and not isinstance(group_set, dict):
        return event_warning(ingestion_warnings.BAD_GROUP_SET, dropped=True, group_set=group_set)
    return None
