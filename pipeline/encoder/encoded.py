"""Reads and changes events that are encoded already: what the plan's tables decide after a block was transformed.

An encoded event is the bytes of one JSON object as `pipeline.encoder.event` writes it: `event` first, `distinct_id` the
first of the properties, `timestamp` and `uuid` last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from pipeline.encoder.identified_ids import IdentifiedIds

_DISTINCT_ID = b'"distinct_id":'
_BEFORE_ID = b',"properties":{' + _DISTINCT_ID
"""Occurs once in an encoded event: inside a text every quotation mark has a backslash before it."""
_PROFILE_FLAG = "$process_person_profile"
_NO_PROFILE = b'"%b":false,' % _PROFILE_FLAG.encode()
UUID_LENGTH, _END = 36, b'"}'
_FALSE = Raw(b"false")
_TEXT = rb'"(?:[^"\\]|\\.)*"'
match_head = re.compile(
    rb'{"event":(%b),"properties":{(%b)?"distinct_id":(%b)(?:,(?=")|(?=}))' % (_TEXT, re.escape(_NO_PROFILE), _TEXT),
    re.DOTALL,
).match
"""Matches an encoded event from its start: its name, the flag that it gets no profile or None, its `distinct_id`."""
_NO_SKEW = b'"options":{"disable_skew_correction":true}'
"""Without it the per-event endpoint would move the time of each event by the difference of two clocks."""


class _SentProperties(msgspec.Struct):
    distinct_id: str


class SentEvent(msgspec.Struct):
    """The four fields by which the service recognises a duplicate. `timestamp` is spelled as it was sent."""

    event: str
    properties: _SentProperties
    timestamp: str
    uuid: str


class _Properties(msgspec.Struct):
    properties: dict[str, Raw]


read_event = msgspec.json.Decoder(SentEvent).decode
_read_properties = msgspec.json.Decoder(_Properties).decode


def read_properties(event: bytes) -> dict[str, Raw]:
    """The properties of an encoded event, each value as JSON."""
    return _read_properties(event).properties


def has_profile(properties: dict[str, Raw]) -> bool:
    """Whether the service processes a person profile for an event with these properties."""
    return properties.get(_PROFILE_FLAG) != _FALSE


def uuid_of(event: bytes) -> str:
    """The uuid of an encoded event."""
    return event[-len(_END) - UUID_LENGTH : -len(_END)].decode()


def replace_uuid(event: bytes, uuid: str) -> bytes:
    """The event with another uuid."""
    return event[: -len(_END) - UUID_LENGTH] + uuid.encode() + _END


def spell_per_event(events: Sequence[bytes]) -> list[bytes]:
    """The events as the per-event endpoint reads them: `distinct_id` beside the properties, and the time not corrected.

    All other bytes are the sealed ones, `timestamp` and `uuid` last (docs/know/service.md#per-event-endpoint).
    """
    return [_lift_id(event, _NO_SKEW + b",") for event in events]


def spell_lines(events: Sequence[bytes]) -> list[bytes]:
    """The events as JSON lines for the service's own importer: `distinct_id` beside the properties.

    A line break can only stand between the tokens of an untouched value, where a space means the same.
    """
    return [_lift_id(event).replace(b"\n", b" ").replace(b"\r", b" ") for event in events]


def _lift_id(event: bytes, options: bytes = b"") -> bytes:
    """The event with its `distinct_id` beside the properties, and `options` after it."""
    head = match_head(event)
    assert head is not None, "an encoded event"
    name, flag, distinct_id = head.groups(b"")
    rest = event[head.end() :]
    if flag and rest[:1] == b"}":
        flag = flag[:-1]
    return b'{"event":%b,"distinct_id":%b,%b"properties":{%b%b' % (name, distinct_id, options, flag, rest)


def without_profiles(events: Sequence[bytes], identified: IdentifiedIds) -> list[bytes]:
    """The events, those of ids that are not identified flagged so that the service makes no profile for them."""
    cuts = [event.index(_BEFORE_ID) + len(_BEFORE_ID) for event in events]
    ids = [_text_at(event, cut) for event, cut in zip(events, cuts, strict=True)]
    return [
        event if known else event[: cut - len(_DISTINCT_ID)] + _NO_PROFILE + event[cut - len(_DISTINCT_ID) :]
        for event, cut, known in zip(events, cuts, identified.holds(ids).tolist(), strict=True)
    ]


def _text_at(event: bytes, start: int) -> str:
    """The JSON string that begins at an offset."""
    end = event.index(b'"', start + 1)
    if b"\\" in event[start:end]:
        return json.JSONDecoder().raw_decode(event[start:].decode())[0]  # type: ignore[no-any-return]
    return event[start + 1 : end].decode()
