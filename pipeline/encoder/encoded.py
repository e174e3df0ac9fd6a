"""Reads and changes encoded events, after the plan's tables have decided what a block's events become.

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
"""Occurs once in an encoded event: inside a string every quotation mark has a backslash before it."""
_PROFILE_FLAG = "$process_person_profile"
_NO_PROFILE = b'"%b":false,' % _PROFILE_FLAG.encode()
UUID_LENGTH, _END = 36, b'"}'
_FALSE = Raw(b"false")
_TEXT = rb'"(?:[^"\\]|\\.)*"'
match_head = re.compile(
    rb'{"event":(%b),"properties":{(%b)?"distinct_id":(%b)(?:,(?=")|(?=}))' % (_TEXT, re.escape(_NO_PROFILE), _TEXT),
    re.DOTALL,
).match
"""Matches an encoded event from its start: its name, the no-profile flag or None, its `distinct_id`."""
_NO_SKEW = b'"disable_skew_correction":true'
"""Without it, the per-event endpoint would shift each event's time by the difference of two clocks."""
_OPTIONS = {"$cookieless_mode": b"tf", "$process_person_profile": b"tf", "$product_tour_id": b'"'}
"""Properties that the per-event endpoint takes as options, and how the values begin that mean the same as an option:
true and false, or a string. The endpoint changes other values, or drops the event.
"""


class _SentProperties(msgspec.Struct):
    distinct_id: str


class SentEvent(msgspec.Struct):
    """The four fields by which the service recognises a duplicate. `timestamp` is spelled as sent."""

    event: str
    properties: _SentProperties
    timestamp: str
    uuid: str


class DecodedEvent(msgspec.Struct):
    """A whole event as it is sent; the distinct_id is one of its properties."""

    event: str
    properties: dict[str, Raw]
    timestamp: str
    uuid: str


class _Options(msgspec.Struct, rename=lambda name: f"${name}"):
    cookieless_mode: Raw = Raw()
    process_person_profile: Raw = Raw()
    product_tour_id: Raw = Raw()


class _WithOptions(msgspec.Struct):
    properties: _Options


class _Properties(msgspec.Struct):
    properties: dict[str, Raw]


read_event = msgspec.json.Decoder(SentEvent).decode
decode_event = msgspec.json.Decoder(DecodedEvent).decode
_read_options = msgspec.json.Decoder(_WithOptions).decode
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


def id_of(event: bytes) -> str:
    """The distinct_id of an encoded event."""
    return _text_at(event, event.index(_BEFORE_ID) + len(_BEFORE_ID))


def replace_uuid(event: bytes, uuid: str) -> bytes:
    """The event with another uuid."""
    return event[: -len(_END) - UUID_LENGTH] + uuid.encode() + _END


def spell_per_event(events: Sequence[bytes]) -> list[bytes]:
    """The events as the per-event endpoint reads them: `distinct_id` and the options move out of the properties.

    All other bytes are the sealed ones, `timestamp` and `uuid` last (docs/know/service.md#per-event-endpoint).
    """
    whole = b",".join(events)
    names = [name for name in _OPTIONS if b'"%b"' % name.encode() in whole]
    if not names:
        return [_lift_id(event, b'"options":{%b},' % _NO_SKEW) for event in events]
    return [_lift_id(*_lift_options(event, names)) for event in events]


def spell_lines(events: Sequence[bytes]) -> list[bytes]:
    """The events as JSON lines for the service's own importer: `distinct_id` moves out of the properties.

    A line break can only occur between the tokens of an untouched value, where a space means the same.
    """
    return [_lift_id(event).replace(b"\n", b" ").replace(b"\r", b" ") for event in events]


def _lift_options(event: bytes, names: Sequence[str]) -> tuple[bytes, bytes]:
    """The event without the properties that are options, and the options."""
    options = _NO_SKEW
    for name in names:
        if (member := b'"%b":' % name.encode()) in event:
            value = _option(event, name)
            if value and value[0] in _OPTIONS[name] and (rest := _without(event, member + value, name)):
                event, options = rest, b'%b,"%b":%b' % (options, name[1:].encode(), value)
    return event, b'"options":{%b},' % options


def _option(event: bytes, name: str) -> bytes:
    return bytes(getattr(_read_options(event).properties, name[1:]))


def _without(event: bytes, member: bytes, name: str) -> bytes:
    """The event without a member of its properties; empty if they do not have it or have the name twice."""
    at = event.find(member)
    while at >= 0:
        end = at + len(member)
        after = event[end : end + 1] == b","
        rest = event[: at - (not after and event[at - 1 : at] == b",")] + event[end + after :]
        try:
            if not _option(rest, name):
                return rest
        except msgspec.MsgspecError:
            pass  # the member is inside a value with white space between its tokens
        at = event.find(member, end)
    return b""


def _lift_id(event: bytes, options: bytes = b"") -> bytes:
    """The event with its `distinct_id` moved out of the properties, followed by `options`."""
    head = match_head(event)
    assert head is not None, "an encoded event"
    name, flag, distinct_id = head.groups(b"")
    rest = event[head.end() :]
    if flag and rest[:1] == b"}":
        flag = flag[:-1]
    return b'{"event":%b,"distinct_id":%b,%b"properties":{%b%b' % (name, distinct_id, options, flag, rest)


def without_profiles(events: Sequence[bytes], identified: IdentifiedIds) -> list[bytes]:
    """The events; those of unidentified ids are flagged so that the service makes no profile for them."""
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
