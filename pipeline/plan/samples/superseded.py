"""What differs between an event that is left out for another one of its source key, and the one that is sent."""

from __future__ import annotations

from msgspec import Raw

from pipeline.mask import IDS
from pipeline.plan.samples.events import DecodedEvent, Place, decode_event, event_at, wanted_blocks
from pipeline.plan.samples.source_pairs import Shown
from pipeline.plan.sealed.directory import Directory
from pipeline.text import pluralize, printable
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import TransformConfig

_MOST = 2
_NAME_CHARACTERS = 60
_ID_PROPERTIES = IDS | {"$anon_distinct_id", "alias", "$alias"}


def differences(directory: Directory, config: TransformConfig, left_out: Place, sent: Place, shown: Shown) -> str:
    """The first properties and members in which two events differ, with both values, masked unless `shown` says so.

    "" where their blocks lie too far inside a file that has to be read from its beginning.
    """
    transformer = BlockTransformer(config)
    events: dict[Place, DecodedEvent] = {}
    for sealed, block in wanted_blocks(directory, config, {left_out.block, sent.block}):
        for place in (left_out, sent):
            if place.block == sealed.number and (encoded := event_at(transformer, block, place)) is not None:
                events[place] = decode_event(encoded)
    if len(events) < 2:
        return ""
    one, other = events[left_out], events[sent]
    names = {name: None for event in (one, other) for name in event.properties}
    found = [
        f"{name} ({before} here, {after} sent)"
        for name, before, after in (
            ("event", printable(one.event, _NAME_CHARACTERS), printable(other.event, _NAME_CHARACTERS)),
            ("timestamp", one.timestamp, other.timestamp),
        )
        if before != after
    ]
    found += [
        f"{printable(name, _NAME_CHARACTERS)} ({_value(one, name, shown)} here, {_value(other, name, shown)} sent)"
        for name in names
        if _raw(one, name) != _raw(other, name)
    ]
    if not found:
        return "they differ only in the order of their properties"
    more = f" and {pluralize(len(found) - _MOST, 'more place')}" if len(found) > _MOST else ""
    return f"they differ in {', '.join(found[:_MOST])}{more}"


def _raw(event: DecodedEvent, name: str) -> bytes | None:
    value = event.properties.get(name)
    return None if value is None else bytes(value)


def _value(event: DecodedEvent, name: str, shown: Shown) -> str:
    value: Raw | None = event.properties.get(name)
    if value is None:
        return "no value"
    # A value may contain an id, which is shown only where both are.
    is_id = name in _ID_PROPERTIES
    if not shown.ids and not is_id:
        return shown.text(value, frozenset(_ids_of(event)), is_id=False)
    return shown.text(value, frozenset(), is_id=is_id)


def _ids_of(event: DecodedEvent) -> list[str]:
    ids = (bytes(event.properties[name]).decode() for name in _ID_PROPERTIES if name in event.properties)
    return [one.strip('"') for one in ids if len(one) > 5]
