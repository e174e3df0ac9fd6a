"""Compares encoded events of two plans one by one, and counts the properties that differ."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from pipeline.encoder.encoded import DecodedEvent, decode_event
from pipeline.mask import masked_value
from pipeline.plan.sealed.directory import EVENTS
from pipeline.text import printable

MOST_PROPERTIES = 2_000
MOST_EXAMPLES = 3
OTHERS = ""
VALUE_CHARACTERS = 80
_ID = "distinct_id"
_OPENED = ("$set", "$set_once", "$unset", "$group_set")
"""Properties whose members are compared one by one, such as `$set.plan`."""
_object = msgspec.json.Decoder(dict[str, Raw]).decode


class PropertyTally(msgspec.Struct):
    """What became of one property (see `result.PropertyChange`). An example begins with the uuid of its event."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    examples: list[tuple[str, str, str]] = msgspec.field(default_factory=list)


class Tally(msgspec.Struct):
    """Counts differences. `changed` counts changed events by phase. In the phase events, `of_properties` counts those
    whose properties differ, and `of_order` those that differ only in the order of their properties. `properties` has
    the properties of all phases, by (phase, name). With `values`, examples show values unmasked."""

    values: bool = False
    changed: Counter[str] = msgspec.field(default_factory=Counter)
    of_properties: int = 0
    of_order: int = 0
    properties: dict[tuple[str, str], PropertyTally] = msgspec.field(default_factory=dict)

    def event(self, first: bytes, second: bytes, *, alike: bool) -> bool:
        """Compare an event of A with that of B; `alike`: name, distinct_id and time are equal. Returns whether they
        differ."""
        if first == second:
            return False
        self.changed[EVENTS] += 1
        if self._compare(EVENTS, decode_event(first), decode_event(second)):
            self.of_properties += 1
        elif alike:
            self.of_order += 1
        return True

    def update(self, phase: str, first: bytes, second: bytes, instants: tuple[str, str]) -> None:
        """Compare an update of A with that of B. `instants` are the times that stand for the plans' own instants, which
        do not count as a difference; neither does the order of properties."""
        a, b = decode_event(first), decode_event(second)
        shifted = a.timestamp != b.timestamp and (_bare(a.timestamp), _bare(b.timestamp)) != tuple(map(_bare, instants))
        moved = a.event != b.event or a.properties[_ID] != b.properties[_ID]
        self.changed[phase] += self._compare(phase, a, b) or moved or shifted

    def _compare(self, phase: str, first: DecodedEvent, second: DecodedEvent) -> bool:
        """Count the properties that differ. Returns whether any does."""
        differs, uuid, a, b = False, second.uuid, first.properties, second.properties
        for name, value in a.items():
            other = b.get(name)
            if name != _ID and (other is None or other != value):
                differs = True
                self._differing(phase, uuid, name, value, other)
        for name, value in b.items():
            if name not in a:
                differs = True
                self._differing(phase, uuid, name, None, value)
        return differs

    def _differing(self, phase: str, uuid: str, name: str, a: Raw | None, b: Raw | None) -> None:
        if name in _OPENED:
            members, others = _members(a), _members(b)
            if members is not None and others is not None:
                for member in members.keys() | others.keys():
                    value, other = members.get(member), others.get(member)
                    if value is None or other is None or value != other:
                        self._one(phase, uuid, f"{name}.{member}", value, other)
                return
        self._one(phase, uuid, name, a, b)

    def _one(self, phase: str, uuid: str, name: str, a: Raw | None, b: Raw | None) -> None:
        tally = self._property(phase, name)
        if a is None:
            tally.added += 1
        elif b is None:
            tally.removed += 1
        else:
            tally.changed += 1
        examples = tally.examples
        if len(examples) < MOST_EXAMPLES or uuid < examples[-1][0]:
            insort(examples, (uuid, self._shown(a), self._shown(b)))
            del examples[MOST_EXAMPLES:]

    def _property(self, phase: str, name: str) -> PropertyTally:
        found = self.properties.get((phase, name))
        if found is None:
            if len(self.properties) >= MOST_PROPERTIES:
                name = OTHERS
            found = self.properties.setdefault((phase, name), PropertyTally())
        return found

    def _shown(self, value: Raw | None) -> str:
        if value is None:
            return ""
        if self.values:
            return printable(bytes(value).decode("utf-8", "replace"), VALUE_CHARACTERS)
        return masked_value(value)


def _members(value: Raw | None) -> Mapping[str, Raw] | None:
    """The members of an object, an empty mapping if it is absent; None if the value is not an object."""
    if value is None:
        return {}
    try:
        return _object(value)
    except msgspec.MsgspecError:
        return None


def _bare(timestamp: str) -> str:
    """An instant in UTC without trailing zeros in its fraction."""
    text = timestamp.removesuffix("Z")
    return text.rstrip("0").rstrip(".") if "." in text else text
