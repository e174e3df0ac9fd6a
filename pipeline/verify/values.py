"""Compares the properties of an event as it was sent with those that landed, and shows what the service itself changes.

Values are compared exactly: first by their bytes, then as JSON with the digits of every number. What the service adds
or changes by itself (docs/know/service.md) is a known difference: it is listed and counted, but not as a difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pipeline.identity.promotion import INITIAL, PROMOTED
from pipeline.option_types import MARKS
from pipeline.validator.placeholder_ids import is_person_less

_SERVICE = "docs/know/service.md"


class Known(NamedTuple):
    """What a known difference is, and the page that has its source."""

    meaning: str
    source: str


KNOWN: dict[str, Known] = {}
"""The known differences by code."""


def _known(code: str, meaning: str, anchor: str) -> str:
    KNOWN[code] = Known(meaning, f"{_SERVICE}#{anchor}")
    return code


SPELLING = _known("other_spelling", "the same value, spelled differently, such as 1.1 for 1.10", "stored-values")
PRECISION = _known("number_precision", "a number that 64 bits cannot hold was rounded", "stored-values")
CHARACTERS = _known("replaced_characters", "the service replaces some characters: NUL, lone surrogates", "ids-and-text")
SESSION = _known("session_id_case", "a $session_id that is a UUID is stored in lower case", "ids-and-text")
SENDER = _known("sender_address", "an event without $ip gets the address of its sender", "ids-and-text")
GEOIP = _known("geoip", "the GeoIP transformation writes $geoip_… unless $geoip_disable is set", "ids-and-text")
SENT_AT = _known("sent_at", "the service stores the time of sending as $sent_at", "ids-and-text")
NO_SKEW = _known(
    "no_skew_correction", "the per-event endpoint stores the option as $ignore_sent_at", "per-event-endpoint"
)
NO_PERSON = _known(
    "no_person", "the per-event endpoint stores events of a placeholder id without a person", "per-event-endpoint"
)
PROMOTION = _known("promoted", "the service adds properties to $set and $set_once by itself", "persons")
NO_PROFILE = _known(
    "no_profile", "the service removes $set, $set_once and $unset from events without a profile", "persons"
)
GROUP_NUMBER = _known(
    "group_number", "the service stores the groups of an event again as $group_0 to $group_4", "groups"
)
OTHER_IMPORT = _known(
    "other_import", "the event has the marks of another import that sent it, too, or none", "what-backcast-sends"
)
OWN_COLUMN = _known(
    "own_column", "the per-event endpoint moves the distinct_id out of the properties", "per-event-endpoint"
)


class Compared(NamedTuple):
    """The properties of an event that have another value than was sent, and the known differences by code."""

    altered: list[str]
    known: dict[str, list[str]]


_members = msgspec.json.Decoder(dict[str, Raw]).decode
_GROUP_NUMBER = re.compile(r"\$group_[0-4]")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SURROGATES = re.compile("[\ud800-\udfff]")
_SETS = ("$set", "$set_once")
_MARKS = frozenset(MARKS.values())
_ABSENT, _TRUE, _FALSE = Raw(b""), Raw(b"true"), Raw(b"false")


def landed_properties(text: object) -> dict[str, Raw] | None:
    """The properties of an event that landed, each value as JSON; None if they are not a JSON object."""
    try:
        encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else msgspec.json.encode(text)
        return _members(encoded)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def compare_properties(sent: Mapping[str, Raw], landed: Mapping[str, Raw] | None) -> Compared:
    """Which properties of an event differ from how they were sent."""
    found = Compared([], {})
    if landed is None:
        found.altered.append("properties")
        return found
    for name in sent.keys() | landed.keys():
        before, after = sent.get(name, _ABSENT), landed.get(name, _ABSENT)
        if before == after:
            continue
        if name in _SETS and after != _ABSENT and _is_object(after) and (before == _ABSENT or _is_object(before)):
            _compare_set(name, sent, before, after, found)
            continue
        if name in _MARKS:
            _note(found, OTHER_IMPORT, name)
            continue
        code = _added(name, sent, after) if before == _ABSENT else _removed(name, sent) if after == _ABSENT else None
        code = code or (_changed(name, sent, before, after) if _ABSENT not in (before, after) else None)
        _note(found, code, name)
    found.altered.sort()
    return found


def same_value(before: Raw, after: Raw) -> bool:
    """Whether two JSON texts are one value, or differ only by the service's own rounding and spelling."""
    return before == after or _respelled(before, after) is not None


def _note(found: Compared, code: str | None, name: str) -> None:
    if code is None:
        found.altered.append(name)
    else:
        found.known.setdefault(code, []).append(name)


def _compare_set(name: str, sent: Mapping[str, Raw], before: Raw, after: Raw, found: Compared) -> None:
    """Compare members of `$set` or `$set_once`; those that the service adds by itself are the event's own
    properties."""
    had, has = _members(before) if before != _ABSENT else {}, _members(after)
    for member in had.keys() | has.keys():
        was, now = had.get(member, _ABSENT), has.get(member, _ABSENT)
        if was == now:
            continue
        code = None
        if was == _ABSENT:
            code = PROMOTION if _is_promoted(name, member, now, sent) else None
            if code is None and member.removeprefix("$initial_").startswith(("$geoip_", "geoip_")):
                code = _added("$geoip_", sent, now)
        elif now != _ABSENT:
            code = _respelled(was, now)
        _note(found, code, f"{name}.{member}")


def _is_promoted(name: str, member: str, value: Raw, sent: Mapping[str, Raw]) -> bool:
    own = {member} if name == "$set" else {one for one, initial in INITIAL.items() if initial == member}
    own |= {"$os_name"} if "$os" in own else set()
    return any(one in PROMOTED and one in sent and same_value(sent[one], value) for one in own)


def _added(name: str, sent: Mapping[str, Raw], value: Raw) -> str | None:
    if name.startswith("$geoip_"):
        return GEOIP if _is_falsy(sent.get("$geoip_disable")) else None
    if name == "$ip":
        return SENDER
    if name == "$sent_at":
        return SENT_AT
    if name == "$ignore_sent_at" and value == _TRUE:
        return NO_SKEW
    if name == "$process_person_profile" and value == _FALSE and _is_person_less(sent):
        return NO_PERSON
    return GROUP_NUMBER if "$groups" in sent and _GROUP_NUMBER.fullmatch(name) else None


def _is_person_less(sent: Mapping[str, Raw]) -> bool:
    distinct_id = _decoded(sent["distinct_id"]) if "distinct_id" in sent else None
    return isinstance(distinct_id, str) and is_person_less(distinct_id)


def _removed(name: str, sent: Mapping[str, Raw]) -> str | None:
    if name == "distinct_id":
        return OWN_COLUMN
    without = sent.get("$process_person_profile") == _FALSE or _is_person_less(sent)
    return NO_PROFILE if without and name in (*_SETS, "$unset") else None


def _changed(name: str, sent: Mapping[str, Raw], before: Raw, after: Raw) -> str | None:
    if name == "$session_id":
        was, now = _decoded(before), _decoded(after)
        if isinstance(was, str) and _UUID.fullmatch(was) and now == was.lower():
            return SESSION
    if name == "$ip" and _is_falsy(before):
        return SENDER
    if name.startswith("$geoip_") and name != "$geoip_disable" and _is_falsy(sent.get("$geoip_disable")):
        return GEOIP
    return _respelled(before, after)


class _Number(str):
    """The digits of a number."""

    __slots__ = ()


def _respelled(before: Raw, after: Raw) -> str | None:
    """The code of the change that the service makes when it stores this value; None if the change is something else."""
    was, now = _decoded(before), _decoded(after)
    if _equal(was, now, _same_decimal):
        return SPELLING
    if _equal(was, now, _same_double):
        return PRECISION
    return CHARACTERS if _equal(_replaced(was), _replaced(now), _same_double) else None


def _decoded(value: Raw) -> Any:
    """A JSON value with its numbers as digits; text that is not JSON as itself."""
    text = bytes(value).decode("utf-8", "surrogatepass")
    try:
        return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return text


def _equal(was: Any, now: Any, same_number: Any) -> bool:
    if isinstance(was, _Number) or isinstance(now, _Number):
        return isinstance(was, _Number) and isinstance(now, _Number) and (str(was) == str(now) or same_number(was, now))
    if type(was) is not type(now):
        return False
    if isinstance(was, dict):
        return was.keys() == now.keys() and all(_equal(was[name], now[name], same_number) for name in was)
    if isinstance(was, list):
        return len(was) == len(now) and all(_equal(*pair, same_number) for pair in zip(was, now, strict=True))
    return bool(was == now)


def _same_decimal(was: str, now: str) -> bool:
    try:
        return Decimal(was) == Decimal(now) and was.startswith("-") == now.startswith("-")
    except InvalidOperation:
        return False


def _same_double(was: str, now: str) -> bool:
    return float(was) == float(now)


def _replaced(value: Any) -> Any:
    """A value in which the characters that the service replaces are replaced."""
    if isinstance(value, _Number):
        return value
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value.replace("\0", "\ufffd"))
    if isinstance(value, list):
        return [_replaced(inner) for inner in value]
    if isinstance(value, dict):
        return {_replaced(name): _replaced(inner) for name, inner in value.items()}
    return value


def _is_object(value: Raw) -> bool:
    return bytes(value)[:1] == b"{"


def _is_falsy(value: Raw | None) -> bool:
    return value is None or bytes(value) in (b"null", b"false", b"0", b'""')
