"""The shapes that a capture body may have, recognised as the real service does (docs/know/service.md#body-shapes,
#event-fields).

It tries, in this order: a list of events, a batch, one event, an engage object. A body that fits none is a parse error;
one that fits only the last, on a route other than `/engage`, is the hydration error that names neither event nor field.
So a batch with one malformed event is refused as a whole.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, NoReturn

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pipeline.local_service.capture.decoding import RequestRefused, unparsable

NO_SHAPE = "data did not match any variant of untagged enum RawRequest"
NO_EVENT_NAME = "failed to hydrate events from request: non-engage request missing event name attribute"
DEEPEST = 127
"""How many objects and lists may be open at once; any more is a parse error."""

Text = str | None
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _EventFields(msgspec.Struct, gc=False):
    """The fields that an event and an engage object share; unknown ones are ignored."""

    token: Text | UnsetType = UNSET
    dollar_token: Text | UnsetType = msgspec.field(default=UNSET, name="$token")
    api_key: Text | UnsetType = UNSET
    distinct_id: Any = UNSET
    dollar_distinct_id: Any = msgspec.field(default=UNSET, name="$distinct_id")
    uuid: Text = None
    properties: Raw | UnsetType = UNSET
    timestamp: Text = None
    offset: Int64 | None = None
    set: dict[str, Raw] | None = msgspec.field(default=None, name="$set")
    set_once: dict[str, Raw] | None = msgspec.field(default=None, name="$set_once")


class RawEvent(_EventFields, kw_only=True, gc=False):
    event: str


class _EventName(msgspec.Struct, gc=False):
    event: str


class _Batch(msgspec.Struct):
    batch: list[Raw]
    api_key: str | UnsetType = UNSET
    token: str | UnsetType = UNSET
    historical_migration: bool | None = None
    sent_at: Text = None


class _EventNameBatch(msgspec.Struct):
    batch: list[_EventName]


class ParsedEvent(NamedTuple):
    """An event with its properties (decoded, and as text) and its size in bytes."""

    event: RawEvent
    properties: dict[str, Any]
    text: bytes
    size: int


@dataclass(slots=True)
class ParsedRequest:
    events: list[ParsedEvent]
    token: str | None = field(default=None, repr=False)
    historical: bool = False
    sent_at: str | None = None


class _WrongShape(Exception):
    """The body does not have the shape that is being tried."""


_LARGE = 16 * 1024 * 1024
"""A body of at least this many bytes is first checked for events without names: a few bytes of gzip may expand to
millions of those, and decoding each would use up the memory."""

_as_list = msgspec.json.Decoder(list[Raw]).decode
_as_batch = msgspec.json.Decoder(_Batch).decode
_as_event = msgspec.json.Decoder(RawEvent).decode
_as_engage = msgspec.json.Decoder(_EventFields).decode
_as_object = msgspec.json.Decoder(dict[str, Any]).decode
_as_anything = msgspec.json.Decoder().decode
_as_json = msgspec.json.Decoder(Raw).decode
_as_names = msgspec.json.Decoder(list[_EventName]).decode
_as_named_batch = msgspec.json.Decoder(_EventNameBatch).decode

_SHAPE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, _WrongShape)
_UUID = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}"
    r"|\{[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\}"
    r"|urn:uuid:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
).fullmatch
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in b"{}[]")
_AS_BRACES = bytes.maketrans(b"[]", b"{}")
_CANONICAL_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_FIELDS = frozenset(RawEvent.__struct_encode_fields__)
_QUOTED_FIELDS = [f'"{name}"'.encode() for name in _FIELDS]


def parse_body(body: bytes, *, engage: bool = False) -> ParsedRequest:
    """The events of a JSON text (valid UTF-8). Raises RequestRefused.

    `engage`: the route is `/engage`, where an object without an event name is an `$identify`.
    """
    try:
        listed = body.lstrip(b" \t\r\n")[:1] == b"["
        if len(body) > _LARGE:
            (_as_names if listed else _as_named_batch)(body)
        if listed:
            return _events([bytes(raw) for raw in _as_list(body)], around=1)
        return _batch(body)
    except _SHAPE_ERRORS:
        return _parse_single(body, engage)


def _batch(body: bytes) -> ParsedRequest:
    envelope = _as_batch(body)
    if (envelope.api_key is UNSET) == (envelope.token is UNSET):
        raise _WrongShape  # no key at all, or the same field under both its names
    parsed = _events([bytes(raw) for raw in envelope.batch], around=2)
    parsed.token = envelope.token if isinstance(envelope.token, str) else str(envelope.api_key)
    parsed.historical = bool(envelope.historical_migration)
    parsed.sent_at = envelope.sent_at
    return parsed


def _events(texts: list[bytes], *, around: int) -> ParsedRequest:
    """Events from their JSON texts, inside which `around` objects and lists are still open."""
    events = [_as_event(text) for text in texts]
    properties = [_properties(event) for event in events]
    decoded = [_as_object(text) for text in properties]
    for event, inner, text in zip(events, properties, texts, strict=True):
        _check(event, inner, text, around)
    return ParsedRequest(list(map(ParsedEvent, events, decoded, properties, map(len, texts))))


def _properties(event: _EventFields) -> bytes:
    return b"{}" if event.properties is UNSET else bytes(event.properties)


def _check(event: _EventFields, properties: bytes, text: bytes, around: int) -> None:
    """Check what the typed decoder does not: the uuid (written canonically here), repeated fields, depth.

    Raises _WrongShape.
    """
    if event.uuid and not _CANONICAL_UUID(event.uuid):
        if not _UUID(event.uuid):
            raise _WrongShape
        event.uuid = str(uuid.UUID(event.uuid))
    if len(text) != _least_length(event, properties) and _has_repeated_field(event, text):
        raise _WrongShape
    may_be_deep = properties.count(b"{") + properties.count(b"[") > 100 or len(text) > len(properties) + 1000
    if may_be_deep and depth(text) + around > DEEPEST:
        raise _WrongShape


def _least_length(event: _EventFields, properties: bytes) -> int:
    """The length of an event that has each of its common fields once, without spaces or escapes.

    Text of exactly this length can contain nothing else, so no search for repeated fields is needed.
    """
    length = len('{"event":"","properties":}') + len(properties)
    if isinstance(event, RawEvent):
        length += len(event.event)
    if event.timestamp is not None:
        length += len(',"timestamp":""') + len(event.timestamp)
    return length + (len(',"uuid":""') + len(event.uuid) if event.uuid else 0)


def _has_repeated_field(event: _EventFields, text: bytes) -> bool:
    """Whether a field occurs twice, under one of its names or under both."""
    if event.dollar_distinct_id is not UNSET and event.distinct_id is not UNSET:
        return True
    if sum(token is not UNSET for token in (event.token, event.dollar_token, event.api_key)) > 1:
        return True
    return any(text.count(name) > 1 for name in _QUOTED_FIELDS) and _has_repeated_name(text)


def _has_repeated_name(text: bytes) -> bool:
    """Whether an event has one of its fields twice (in properties and unknown fields, that is allowed)."""
    pairs = json.loads(text, object_pairs_hook=list)
    names = [name for name, _ in pairs if name in _FIELDS]
    return len(set(names)) < len(names)


def is_uuid(text: str) -> bool:
    """Whether text is a uuid in a spelling that the service reads."""
    return _UUID(text) is not None


def depth(text: bytes) -> int:
    """The most objects and lists that are open at once in JSON text; DEEPEST + 1 for anything above DEEPEST."""
    brackets = _STRING.sub(b"", text).translate(_AS_BRACES, _NO_BRACKET)
    levels = 0
    while brackets and levels <= DEEPEST:
        brackets = brackets.replace(b"{}", b"")
        levels += 1
    return levels


def _parse_single(body: bytes, engage: bool) -> ParsedRequest:
    """A body that is neither a list of events nor a batch: one event or an engage object. Raises RequestRefused."""
    _check_json(body)
    decoders: tuple[Callable[[bytes], _EventFields], ...] = (_as_event, _as_engage)
    for decode in decoders:
        try:
            event = decode(body)
            properties = _properties(event)
            decoded = _as_object(properties)
            _check(event, properties, body, 0)
        except _SHAPE_ERRORS:
            continue
        if not isinstance(event, RawEvent):
            if not engage:
                raise RequestRefused(400, NO_EVENT_NAME)
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            event = RawEvent(event="$identify", **fields)
        return ParsedRequest([ParsedEvent(event, decoded, properties, len(body))])
    raise unparsable(NO_SHAPE)


def _check_json(body: bytes) -> None:
    """Raise RequestRefused if the text is not JSON that the real service's parser accepts."""
    try:
        (_as_json if len(body) > _LARGE else _as_anything)(body)
    except RecursionError:
        _too_deep()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise unparsable(str(error)) from None
    if depth(body) > DEEPEST:
        _too_deep()


def _too_deep() -> NoReturn:
    raise unparsable("recursion limit exceeded")
