"""An event in the form in which a mapping's own code gets it, and the code's result turned back into events.

The code gets a number as an `int` or a `Decimal`, which keep all digits. A property whose value the code leaves alone
keeps its bytes (docs/know/promises.md#exactness); a property that the code sets is checked and encoded here.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.json_limits import MAX_DEPTH, unsendable
from pipeline.mapper.codegen.runtime import clean_uuid
from pipeline.models import Skip, UnvalidatedEvent
from pipeline.timestamps import BadTime, format_utc, read_iso

MEMBERS = ("event", "distinct_id", "timestamp", "uuid", "properties")
"""The members of an event that the function gets. All but `uuid` have to be in its result."""
MOST_EVENTS = 1_000
"""The most events in a list that is returned for one event."""
SKIPPED, CHANGED_ID = "python_skipped", "python_changed_id"
LINK_LEFT_OUT = (
    "the code changed the distinct_id of a row that joins two ids; the merge is left out:"
    " change the id in the mapping, or give merges with --identities"
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


class WrongResult(Exception):
    """The code returned something that is not an event; the text says why."""


class GivenEvent:
    """One event as the function gets it, and what is needed to find out what the function changed.

    `plain` is the dict. `_before` keeps the objects in it by name, and lists and dicts as text too, because the
    function may change them in place.
    """

    def __init__(self, event: UnvalidatedEvent, own_uuid: str | None) -> None:
        properties: Any = event.properties
        self._raw: dict[str, Any] = properties if properties.__class__ is dict else properties.as_dict()
        event.properties = self._raw
        self._event = event
        self._id, self._when = event.distinct_id, event.time
        self._uuid = own_uuid
        self._time = format_utc(event.time) if isinstance(event.time, int) else None
        values = _plain(self._raw)
        self._before = values.copy()
        self._texts = {name: repr(value) for name, value in values.items() if value.__class__ in (dict, list)}
        self.plain: dict[str, Any] = {
            "event": event.event,
            "distinct_id": event.distinct_id,
            "timestamp": self._time,
            "uuid": own_uuid,
            "properties": values,
        }

    def outcomes(self, returned: Any, *, shifted: bool) -> list[Any]:
        """The outcomes of what the function returned. `shifted`: earlier events of the row became more or fewer.

        Raises WrongResult.
        """
        if returned is None:
            return [Skip(SKIPPED)]
        if not isinstance(returned, list):
            return [self._read(returned, "", self._event, self._own(shifted))]
        if len(returned) > MOST_EVENTS:
            raise WrongResult(f"returned a list of {len(returned):,} events; the limit is {MOST_EVENTS:,}")
        made: list[Any] = []
        taken: set[str | None] = set()
        first = self._event
        for index, item in enumerate(returned):
            where = f"item {index} of the list: "
            event, own = (first, self._own(shifted)) if index == 0 else (self._further(), None)
            made.append(self._read(item, where, event, own))
            asked = self._asked(item)
            if index and asked is not None and asked in taken:
                event.uuid = asked = str(uuid.uuid5(uuid.UUID(asked), str(index)))
            elif index and event.uuid is None:
                event.uuid = asked
            taken.add(asked)
        return made or [Skip(SKIPPED)]

    def _further(self) -> UnvalidatedEvent:
        """A further event of the row; only the first one carries what the row states about its person."""
        return UnvalidatedEvent(None, self._id, self._when, {}, received=self._event.received)

    def _own(self, shifted: bool) -> str | None:
        """The uuid to set on the row's own event; None if its key gives the same one."""
        return self._uuid if shifted else self._event.uuid

    def _asked(self, item: dict[str, Any]) -> str | None:
        """The uuid of an item that was read: its own, or the row's."""
        asked = item.get("uuid")
        return self._uuid if asked is None else clean_uuid(asked)

    def _read(self, item: Any, where: str, event: UnvalidatedEvent, own: str | None) -> UnvalidatedEvent:
        """Write what was returned into `event`, which gets the uuid `own` unless the item has another one."""
        if not isinstance(item, dict):
            raise WrongResult(f"{where}returned {_kind(item)}, not the event as a dict, a list of events or None")
        for name in MEMBERS:
            if name not in item and name != "uuid":
                raise WrongResult(f"{where}the event lacks {name!r}")
        if len(item) > len(MEMBERS) - ("uuid" not in item):
            other = next(name for name in item if name not in MEMBERS)
            raise WrongResult(f"{where}an event has no member {other!r}; is it one of the properties?")
        properties = self._properties(item["properties"], where)
        event.event = _text(item["event"], f"{where}event")
        self._read_id(event, _text(item["distinct_id"], f"{where}distinct_id"))
        timestamp, asked = item["timestamp"], item.get("uuid")
        if timestamp is not self._time and (timestamp.__class__ is not str or timestamp != self._time):
            event.time, event.wall = _time(timestamp, where), None
        if asked is not None and (asked.__class__ is not str or asked != self._uuid):
            own = clean_uuid(asked) if isinstance(asked, str) else None
            if own is None:
                raise WrongResult(f"{where}uuid is {_shown(asked)}, which is not a UUID")
        event.uuid = own
        event.properties = properties
        return event

    def _read_id(self, event: UnvalidatedEvent, distinct_id: str | None) -> None:
        if distinct_id == self._id:
            return
        event.distinct_id, event.mapped_id, event.placeholder_id = distinct_id, self._id, ""
        note = event.note
        if note is not None:
            if note.anonymous is not None and note.user is not None:
                event.warnings += ((CHANGED_ID, LINK_LEFT_OUT),)
            note.anonymous = None
            note.user = distinct_id if note.user == self._id else None

    def _properties(self, properties: Any, where: str) -> dict[str, Any]:
        if not isinstance(properties, dict):
            raise WrongResult(f"{where}properties is {_kind(properties)}, not a dict")
        before, texts, raw = self._before, self._texts, self._raw
        made: dict[str, Any] = {}
        for name, value in properties.items():
            if name in before:
                old = before[name]
                if value is old:
                    if name not in texts or texts[name] == repr(value):
                        made[name] = raw[name]
                        continue
                elif value.__class__ is old.__class__ and repr(value) == (texts.get(name) or repr(old)):
                    made[name] = raw[name]
                    continue
            made[_name(name, f"{where}properties")] = _json(value, f"{where}properties[{name!r}]")
        return made


def _plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties as Python values; numbers with a fraction or an exponent are Decimal."""
    text = _encode(properties)
    try:
        return _decode(text)
    except (msgspec.MsgspecError, ValueError):  # a lone surrogate, or an integer of thousands of digits
        decoded: dict[str, Any] = json.loads(text, parse_float=Decimal, parse_int=_integer)
        return decoded


def _integer(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:
        return Decimal(digits)


def _text(value: Any, what: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise WrongResult(f"{what} is {_kind(value)}, not a string")
    return _name(str.__str__(value), what)


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise WrongResult(f"{what} has the name {_shown(value)}, which is not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise WrongResult(f"{what} has {_shown(value)}, which is not Unicode") from None
    return str.__str__(value)


def _time(value: Any, where: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise WrongResult(f"{where}timestamp is {_kind(value)}, not a string such as 2023-01-02T03:04:05Z")
    try:
        reading = read_iso(value)
    except BadTime as error:
        raise WrongResult(f"{where}timestamp: {error}") from None
    if not reading.utc:
        raise WrongResult(f"{where}timestamp {_shown(value)} has no offset; write 2023-01-02T03:04:05Z")
    if reading.truncated:
        raise WrongResult(f"{where}timestamp {_shown(value)} has digits below a microsecond")
    return reading.us


def _json(value: Any, where: str) -> Raw:
    """A value that the code set, as JSON. Raises WrongResult if JSON, or the service, cannot hold it."""
    text = _encoded(value, where, 0)
    problem = unsendable(text)
    if problem:
        raise WrongResult(f"{where}: {problem}")
    return Raw(text)


def _encoded(value: Any, where: str, depth: int) -> bytes:
    if value is None or value is True or value is False:
        return _encode(value)
    if isinstance(value, str):
        try:
            return _encode(str.__str__(value))
        except UnicodeEncodeError:
            return json.dumps(value).encode()
    if isinstance(value, int):
        try:
            return int.__repr__(value).encode()
        except ValueError:
            raise WrongResult(f"{where} is an integer of thousands of digits") from None
    if isinstance(value, float):
        if not math.isfinite(value):
            raise WrongResult(f"{where} is {value}, which JSON cannot hold")
        return _encode(float(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise WrongResult(f"{where} is {value}, which JSON cannot hold")
        return str(value).encode()
    if depth >= MAX_DEPTH:
        raise WrongResult(f"{where.partition(']')[0]}] has more than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        members = [
            _encode(_name(name, where)) + b":" + _encoded(one, f"{where}[{name!r}]", depth + 1)
            for name, one in value.items()
        ]
        return b"{" + b",".join(members) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join([_encoded(one, f"{where}[{n}]", depth + 1) for n, one in enumerate(value)]) + b"]"
    raise WrongResult(f"{where} is {_kind(value)}, which JSON cannot hold")


def _kind(value: object) -> str:
    return f"of type {type(value).__name__}"


def _shown(value: object) -> str:
    shown = ascii(value) if isinstance(value, str | int | float) else _kind(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
