"""Events that are answered with 200 and then thrown away, decided by the event alone
(docs/know/service.md#historical-migration, #persons)."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from pipeline.local_service import ingestion_warnings
from pipeline.local_service.capture.decoding import FORM, Refusal, payload, too_large
from pipeline.local_service.capture.parsing import Parsed, RawEvent, parse
from pipeline.local_service.capture.timestamps import parse_sent_at, stored
from pipeline.local_service.ingestion_warnings import CONTENT_TYPE, LONG_ID, LONG_NAME, Notice, notice
from pipeline.local_service.keys import Keyring
from pipeline.local_service.people.updates import GROUP_EVENTS, IDENTIFY, MERGES, as_text, is_group_event
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import Rows

LONGEST_GROUP_KEY = 400

_JUDGED = MERGES | GROUP_EVENTS


def dropped(event: str, properties: dict[str, Any], instant: int, now: int, settings: Settings) -> Notice | None:
    """Why an event would be thrown away, or None. Instants are microseconds since 1970 (UTC)."""
    oldest = settings.drop_events_older_than
    if oldest is not None and instant < now - oldest * 1_000_000:
        return notice(ingestion_warnings.TOO_OLD, dropped=True, seconds=oldest)
    if event not in _JUDGED:
        return None
    if event in MERGES or is_group_event(event, settings):
        if properties.get("$process_person_profile") is False:
            return notice(ingestion_warnings.NOT_WITHOUT_PROFILE, dropped=True, event=event)
        return _bad_merge(event, properties, settings) if event in MERGES else _bad_group(properties)
    return None


def _bad_merge(event: str, properties: dict[str, Any], settings: Settings) -> Notice | None:
    given = properties.get("$anon_distinct_id" if event == IDENTIFY else "alias")
    if settings.merge_ids == "text" and given is not None and not isinstance(given, str):
        return notice(ingestion_warnings.BAD_MERGE_ID, dropped=True, event=event, given=given)
    return None


def _bad_group(properties: dict[str, Any]) -> Notice | None:
    key, given = properties.get("$group_key"), properties.get("$group_set")
    if key is not None and len(as_text(key)) > LONGEST_GROUP_KEY:
        return notice(
            ingestion_warnings.LONG_GROUP_KEY, dropped=True, length=len(as_text(key)), longest=LONGEST_GROUP_KEY
        )
    if given is not None and not isinstance(given, dict):
        return notice(ingestion_warnings.BAD_GROUP_SET, dropped=True, group_set=given)
    return None


OK = '{"status":"Ok"}'
LONGEST_ID = 200
"""Characters of a distinct_id that are kept (docs/know/service.md#ids-and-text)."""
LONGEST_NAME = 200
"""UTF-16 units of an event's name that are kept (docs/know/service.md#ids-and-text)."""
LONGEST_TOKEN = 64

_NEVER_HISTORICAL = frozenset({"$exception", "$$heatmap", "$$client_ingestion_warning"})
"""Events that keep out of the historical lane even when the batch asks for it
(docs/know/service.md#historical-migration)."""
_WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_SUSPECT = 200_000
"""Bytes of an event above which its queued size is reckoned exactly; no shorter one comes near the limit."""
_EXPONENT = re.compile(r"e([+-])0*(\d)")

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_open = msgspec.json.Decoder(dict[str, Raw]).decode


@dataclass(frozen=True, slots=True)
class Landing:
    """What a good request comes to: rows for one project, or for none."""

    project: int | None
    rows: Rows
    problem: Refusal | None = None
    """An event that was found too large after the rows before it were taken (`oversize_event`)."""


def received(
    body: bytes,
    *,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    keys: Keyring,
    settings: Settings,
) -> Landing:
    """Judge one request whose body has arrived. Raises Refusal; stores nothing itself."""
    odd = path.rstrip("/") == "/batch" and bool(body) and not _is_json(headers)
    if odd and settings.content_type == "json":
        raise Refusal(415, "expected Content-Type: application/json")
    text = payload(body, query, headers, settings.decoded_limit)
    parsed = parse(text, engage=path.startswith("/engage"))
    now = settings.clock()
    if not parsed.events:
        raise Refusal(400, "request holds no event")
    _leave_out_performance_events(parsed)
    if not parsed.events:
        return Landing(None, Rows(now))
    token = _token(parsed)
    project = keys.project_of(token)
    if project is None and settings.token_validation == "enforce":
        raise Refusal(401, "API key is not valid: unknown")
    landing = _landing(project, parsed, _sent_at(parsed, query), now, token, settings)
    if odd and landing.rows.uuid:
        landing.rows.notices.append((0, notice(CONTENT_TYPE, content_type=headers.get("content-type"))))
    return landing


def _is_json(headers: Mapping[str, str]) -> bool:
    """Whether the body is said to be JSON, as the contract asks (docs/know/service.md#routes-and-hosts), or a form."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() in ("application/json", FORM)


def _leave_out_performance_events(parsed: Parsed) -> None:
    """`$performance_event` is filtered in silence, before the key is looked at (docs/know/service.md#answers)."""
    if any(event.event == "$performance_event" for event in parsed.events):
        kept = [place for place, event in enumerate(parsed.events) if event.event != "$performance_event"]
        parsed.events = [parsed.events[place] for place in kept]
        parsed.properties = [parsed.properties[place] for place in kept]
        parsed.texts = [parsed.texts[place] for place in kept]
        parsed.sizes = [parsed.sizes[place] for place in kept]


def _token(parsed: Parsed) -> str:
    """The capture key: the batch's own, else the one that all events share (docs/know/service.md#event-fields)."""
    token = parsed.token
    if token is None:
        found = {_event_token(*pair) for pair in zip(parsed.events, parsed.properties, strict=True)} - {None}
        if not found:
            raise Refusal(401, "event submitted without an api_key")
        if len(found) > 1:
            raise Refusal(401, "batch submitted with inconsistent api_key values")
        token = str(found.pop())
    token = token.strip(_WHITE)
    problem = _token_problem(token)
    if problem:
        raise Refusal(401, f"API key is not valid: {problem}")
    return token


def _event_token(event: RawEvent, properties: dict[str, Any]) -> str | None:
    for given in (event.token, event.dollar_token, event.api_key):
        if isinstance(given, str):
            return given
    given = properties.get("token")
    return given if isinstance(given, str) else None


def _token_problem(token: str) -> str:
    if not token:
        return "empty"
    if len(token.encode("utf-8", "surrogatepass")) > LONGEST_TOKEN:
        return "too_long"
    if not token.isascii():
        return "not_ascii"
    if token.startswith("phx_"):
        return "personal_api_key"
    return "null_byte" if "\0" in token else ""


def _sent_at(parsed: Parsed, query: Mapping[str, str]) -> int | None:
    """The client's clock: the batch's `sent_at`, else the query's `_` in milliseconds, if after 2020."""
    if parsed.sent_at is not None:
        instant = parse_sent_at(parsed.sent_at)
        if instant is not None:
            return instant
    given = query.get("_", "")
    if given.isascii() and given.isdigit() and len(given) < 16:
        instant = int(given) * 1000
        if instant >= 1_609_459_200_000_000:
            return instant
    return None


def _landing(
    project: int | None, parsed: Parsed, sent_at: int | None, now: int, token: str, settings: Settings
) -> Landing:
    """Every event checked and turned into a row."""
    rows = Rows(now)
    historical = parsed.historical
    problem = None
    columns = (parsed.events, parsed.properties, parsed.texts, parsed.sizes)
    for event, properties, text, size in zip(*columns, strict=True):
        if not event.event:
            raise Refusal(400, "event submitted with an empty event name")
        whole_id = _distinct_id(event, properties)
        if not isinstance(properties.get("$cookieless_mode", False), bool):
            raise Refusal(400, "event submitted with invalid cookieless mode")
        if problem is None and size > _SUSPECT:
            problem = _oversize(event, properties, token, now, settings.stored_event_limit)
        if problem is not None:
            continue  # the rest is still checked: a refusal of the checks goes before one of the queue
        skew = sent_at
        if skew is not None and properties.get("$ignore_sent_at") is True:
            skew = None
        instant, trouble = stored(event.timestamp, event.offset, skew, now)
        if trouble:
            rows.notices.append((len(rows.uuid), notice(trouble, timestamp=event.timestamp)))
        name, distinct_id = event.event, whole_id
        if len(distinct_id) > LONGEST_ID:
            rows.notices.append((len(rows.uuid), notice(LONG_ID, distinct_id=distinct_id)))
            distinct_id = distinct_id[:LONGEST_ID]
        if len(name) > LONGEST_NAME // 2:
            name = _shortened(name)
            if name != event.event:
                rows.notices.append((len(rows.uuid), notice(LONG_NAME, event=event.event)))
        if name[0] == "$" or settings.drop_events_older_than is not None:
            lost = dropped(name, properties, instant, now, settings)
            if lost is not None:
                rows.notices.append((len(rows.uuid), lost))
        rows.uuid.append(event.uuid or _new_uuid(now))
        rows.event.append(name)
        rows.distinct_id.append(distinct_id)
        rows.timestamp.append(instant)
        rows.properties.append(_properties(event, text))
        rows.historical.append(historical and event.event not in _NEVER_HISTORICAL)
    if problem is not None and settings.oversize_event == "reject":
        raise problem
    return Landing(project, rows, problem)


def _distinct_id(event: RawEvent, properties: dict[str, Any]) -> str:
    """The whole id: text as it stands, anything else as JSON text, NUL replaced."""
    given = event.distinct_id
    if given is UNSET:
        given = event.dollar_distinct_id
    if given is UNSET or given is None:
        given = properties.get("distinct_id")
    if type(given) is not str:
        if given is None:
            raise Refusal(400, "event submitted without a distinct_id")
        given = _json_text(given)
    if "\0" in given:
        given = given.replace("\0", "\ufffd")
    if not given or (given.isspace() and not given.strip(_WHITE)):
        raise Refusal(400, "event submitted without a distinct_id")
    return given


def _shortened(name: str) -> str:
    """The start of an event's name, of so many UTF-16 units; half a surrogate pair is left out."""
    return name.encode("utf-16-le")[: 2 * LONGEST_NAME].decode("utf-16-le", "ignore")


def _json_text(value: Any) -> str:
    """A value as the real service prints it: no spaces, names sorted, the shortest number."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        value = float(value)
    if isinstance(value, float):
        if 1e-5 <= abs(value) < 1e-4:  # Python already writes an exponent here
            return format(Decimal(repr(value)), "f")
        return _EXPONENT.sub(lambda found: "e" + found[1].strip("+") + found[2], repr(value))
    return _encode_sorted(value).decode()


def _new_uuid(now: int) -> str:
    """A uuid that holds the present (version 7), for an event that brought none."""
    raw = bytearray((now // 1000).to_bytes(6, "big") + os.urandom(10))
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))


def _properties(event: RawEvent, text: bytes) -> bytes:
    """The properties as the exact text that came; a `$set` beside them is merged in, and wins by key."""
    if event.set is None and event.set_once is None:
        return text
    merged = _open(text)
    for name, added in (("$set", event.set), ("$set_once", event.set_once)):
        if added is not None:
            inner = merged.get(name)
            base = _open(inner) if inner is not None and bytes(inner)[:1] == b"{" else {}
            merged[name] = Raw(_encode(base | added))
    return _encode(merged)


def _oversize(event: RawEvent, properties: dict[str, Any], token: str, now: int, limit: int) -> Refusal | None:
    """A refusal where the event, encoded once more inside JSON, is over the queue's limit."""
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
