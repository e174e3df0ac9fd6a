"""Encodes the events of rows as the service reads them, with the properties that every imported event carries.

`Encoder.write` and `write_usual` are the Python writers, `pipeline/native/writer.c` the native twin of `write_usual`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from pipeline.models import SealedOptions, UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.option_types import MARKS
from pipeline.timestamps import format_utc
from pipeline.values import NULL

_encode = msgspec.json.Encoder().encode
_encode_into = msgspec.json.Encoder().encode_into
_NONE: list[str] = []
_COMMA = 0x2C
_KNOWN_NAMES = 10_000
_NO_GEOIP = {"$geoip_disable": True}
"""Every event carries this unless its row sets it: otherwise the service would geolocate the sender's address."""
_NO_ADDRESS = {"$ip": "127.0.0.1"}
"""For an event whose row has no address: the service would store the sender's (docs/know/service.md#ids-and-text)."""
RESERVED = frozenset(("$geoip_disable", "distinct_id", "historical_migration", "analytics_source", "import_name"))
"""Properties that an import may set, whatever its options. `write_usual` leaves events with one to `write`."""


def provenance(tool: str, options: SealedOptions) -> dict[str, bool | str]:
    """The properties that identify the events of an import; empty if it was planned without them."""
    if not options.provenance:
        return {}
    marks: dict[str, bool | str] = {"historical_migration": True, "analytics_source": tool}
    return {**marks, "import_name": options.name} if options.name else marks


class Encoder:
    """Encodes the events of one plan, of `tool` and with the plan's `options`.

    Each event gets `$geoip_disable` unless its row sets it, its row's `$ip` or otherwise the loopback address, and the
    provenance of the import. Its row's properties with the names of the plan's marks are left out: the marks follow
    later (`pipeline.encoder.marks`).
    """

    def __init__(self, tool: str, options: SealedOptions) -> None:
        self._provenance = {name: Raw(_encode(value)) for name, value in provenance(tool, options).items()}
        self._all = {
            name: Raw(_encode(value)) for name, value in (_NO_GEOIP | _NO_ADDRESS | provenance(tool, options)).items()
        }
        self._marks = frozenset(MARKS[mark] for mark in options.marks)
        self._reserved = (*self._all, "distinct_id", *self._marks)
        self.tail = b"," + _encode(self._all)[1:] + b',"timestamp":"'
        beside_ip = {**self._provenance, "$geoip_disable": self._all["$geoip_disable"]}
        self.tail_beside_ip = b"," + _encode(beside_ip)[1:] + b',"timestamp":"'
        self._heads: dict[str, bytes] = {}
        names = RESERVED | self._marks
        self.write_members = native.Writer(names, self.tail, self.tail_beside_ip) if AVAILABLE else None

    def encode(self, draft: UnvalidatedEvent) -> bytes:
        """The whole event. It must have a time and a uuid."""
        text = bytearray()
        self.write(draft, text)
        text += b'%b","uuid":"%b"}' % (format_utc(draft.time).encode(), draft.uuid.encode())  # type: ignore[arg-type, union-attr]
        return bytes(text)

    def write(self, draft: UnvalidatedEvent, text: bytearray) -> list[str]:
        """Append the event up to its time (`{…,"timestamp":"`) to `text`.

        Returns the names of the row's properties that the import overwrites. Takes `draft.properties` apart.
        """
        text += self.head(draft.event)  # type: ignore[arg-type]
        _encode_into(draft.distinct_id, text, -1)
        properties = draft.properties
        overwritten = _NONE
        tail = self.tail
        if any(name in properties for name in self._reserved):
            # `tail_beside_ip` is the same for an event whose only reserved name is `$ip`.
            tail = b'},"timestamp":"'
            overwritten = self._overwrite(draft)
        if properties:
            start = len(text)
            _encode_into(properties, text, -1)
            text[start] = _COMMA
            text[-1:] = tail
        else:
            text += tail
        return overwritten

    def write_usual(
        self, text: bytearray, head: bytes, distinct_id: str, properties: dict[str, Any], ending: bytes, most: int
    ) -> bool:
        """Append an event whose properties have no RESERVED name, and `ending` after its tail.

        Returns False and appends nothing if the event needs `write`, or has `most` bytes or more.
        `write_members` does the same for properties that are native Members.
        """
        if (
            not properties
            or "$geoip_disable" in properties
            or "distinct_id" in properties
            or "historical_migration" in properties
            or "analytics_source" in properties
            or "import_name" in properties
            or ("$ip" in properties and is_falsy(properties["$ip"]))
            or (self._marks and not self._marks.isdisjoint(properties))
        ):
            return False
        start = len(text)
        text += head
        _encode_into(distinct_id, text, -1)
        at = len(text)
        _encode_into(properties, text, -1)
        if len(text) - start >= most:
            del text[start:]
            return False
        text[at] = _COMMA
        text[-1:] = self.tail_beside_ip if "$ip" in properties else self.tail
        text += ending
        return True

    def head(self, event: str) -> bytes:
        """The beginning of every event with this name, up to its distinct_id."""
        head = self._heads.get(event)
        if head is None:
            head = b'{"event":' + _encode(event) + b',"properties":{"distinct_id":'
            if len(self._heads) < _KNOWN_NAMES:
                self._heads[event] = head
        return head

    def _overwrite(self, draft: UnvalidatedEvent) -> list[str]:
        properties = draft.properties
        overwritten = []
        own_id = properties.pop("distinct_id", None)
        if own_id is not None and _encode(own_id) != _encode(draft.distinct_id):
            overwritten.append("distinct_id")
        for name, constant in self._provenance.items():
            before = properties.pop(name, None)
            if before is not None and bytes(_encode(before)) != bytes(constant):
                overwritten.append(name)
            properties[name] = constant
        overwritten += [name for name in sorted(self._marks) if properties.pop(name, None) is not None]
        properties.setdefault("$geoip_disable", self._all["$geoip_disable"])
        if is_falsy(properties.get("$ip")):
            properties["$ip"] = self._all["$ip"]
        return overwritten


def is_falsy(value: Any) -> bool:
    """Whether the service takes an `$ip` for missing."""
    return value in (None, "", 0, False) or (
        isinstance(value, Raw) and bytes(value) in (bytes(NULL), b'""', b"0", b"false")
    )
