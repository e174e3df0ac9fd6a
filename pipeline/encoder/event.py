"""Writes drafts as the service reads them, adding what every imported event carries."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from pipeline.models import UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.options import SealedOptions
from pipeline.timestamps import format_utc
from pipeline.values import NULL

_encode = msgspec.json.Encoder().encode
_encode_into = msgspec.json.Encoder().encode_into
_NOTHING: list[str] = []
_COMMA = 0x2C
_KNOWN_NAMES = 10_000
UNUSUAL = frozenset(("$geoip_disable", "distinct_id", "historical_migration", "analytics_source", "import_name"))
"""Names that an import gives, too, whatever its options."""


class Encoder:
    """Writes drafts as the service reads them, adding what every imported event carries.

    `$geoip_disable` unless the row says otherwise; `$ip` of the row, else the loopback address, because the service
    would stamp the sender's on all of history (docs/know/service.md#ids-and-text); the provenance that makes a bad
    import findable later.
    """

    def __init__(self, tool: str, options: SealedOptions) -> None:
        constants: dict[str, Raw] = {}
        if options.provenance:
            constants["historical_migration"] = Raw(b"true")
            constants["analytics_source"] = Raw(_encode(tool))
            if options.name:
                constants["import_name"] = Raw(_encode(options.name))
        self._provenance = constants
        self._all = {"$geoip_disable": Raw(b"true"), "$ip": Raw(b'"127.0.0.1"'), **constants}
        self._reserved = (*self._all, "distinct_id")
        self.tail = b"," + _encode(self._all)[1:] + b',"timestamp":"'
        beside_ip = {**constants, "$geoip_disable": self._all["$geoip_disable"]}
        self.tail_beside_ip = b"," + _encode(beside_ip)[1:] + b',"timestamp":"'
        self._heads: dict[str, bytes] = {}
        self.write_members = native.Writer(UNUSUAL, self.tail, self.tail_beside_ip) if AVAILABLE else None

    def encode(self, draft: UnvalidatedEvent) -> tuple[bytes, list[str]]:
        """The event up to its uuid (`{…,"uuid":"`), and the names of properties that had to give way."""
        text = bytearray()
        gave_way = self.write(draft, text)
        text += format_utc(draft.time).encode() + b'","uuid":"'  # type: ignore[arg-type]
        return bytes(text), gave_way

    def write(self, draft: UnvalidatedEvent, text: bytearray) -> list[str]:
        """Add the event up to its time (`{…,"timestamp":"`) to `text`; the names of what had to give way."""
        text += self.head(draft.event)  # type: ignore[arg-type]
        _encode_into(draft.distinct_id, text, -1)
        properties = draft.properties
        gave_way = _NOTHING
        tail = self.tail
        if any(name in properties for name in self._reserved):
            # What `tail_beside_ip` says is what comes of this when `$ip` is the only one.
            tail = b'},"timestamp":"'
            gave_way = self._merge(draft)
        if properties:
            start = len(text)
            _encode_into(properties, text, -1)
            text[start] = _COMMA
            text[-1:] = tail
        else:
            text += tail
        return gave_way

    def write_usual(
        self, text: bytearray, head: bytes, distinct_id: str, properties: dict[str, Any], ending: bytes, most: int
    ) -> bool:
        """Add an event whose properties have none of the UNUSUAL names, with `ending` behind its tail.

        False, and nothing added, where `write` has to see it, or it has more than `most` bytes. `write_members` is
        the same for Members.
        """
        if (
            not properties
            or "$geoip_disable" in properties
            or "distinct_id" in properties
            or "historical_migration" in properties
            or "analytics_source" in properties
            or "import_name" in properties
            or ("$ip" in properties and is_falsy(properties["$ip"]))
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
        """How every event of this name begins, up to its distinct_id."""
        head = self._heads.get(event)
        if head is None:
            head = b'{"event":' + _encode(event) + b',"properties":{"distinct_id":'
            if len(self._heads) < _KNOWN_NAMES:
                self._heads[event] = head
        return head

    def _merge(self, draft: UnvalidatedEvent) -> list[str]:
        properties = draft.properties
        gave_way = []
        own_id = properties.pop("distinct_id", None)
        if own_id is not None and _encode(own_id) != _encode(draft.distinct_id):
            gave_way.append("distinct_id")
        for name, constant in self._provenance.items():
            before = properties.pop(name, None)
            if before is not None and bytes(_encode(before)) != bytes(constant):
                gave_way.append(name)
            properties[name] = constant
        properties.setdefault("$geoip_disable", self._all["$geoip_disable"])
        if is_falsy(properties.get("$ip")):
            properties["$ip"] = self._all["$ip"]
        return gave_way


def is_falsy(value: Any) -> bool:
    """What the service takes for "no address"."""
    return value in (None, "", 0, False) or (
        isinstance(value, Raw) and bytes(value) in (bytes(NULL), b'""', b"0", b"false")
    )
