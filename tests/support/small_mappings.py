"""Small mappings for tests: a head under which a section is written, and rows from JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from pipeline.mapper import Mapper, compile
from pipeline.mapper.language.loader import parse
from pipeline.models import SealedOptions, UnvalidatedEvent
from pipeline.values import Record, Value, raw

HEAD = """format: backcast.mapping/1
tool: shop
title: Shop
event: /name
distinct_id: /user
time: {from: /at, unit: s, zone: project}
"""
ROW = '"name":"Bought","user":"u-1","at":1609329600'

_decode = msgspec.json.Decoder(dict[str, Raw]).decode


def record(text: str) -> Record:
    """A row as a reader of JSON lines gives it."""
    return {**_decode(text.encode())}


def mapper(sections: str, head: str = HEAD, **options: Any) -> Mapper:
    """A compiled mapping: the head and these sections."""
    return compile(parse(head + sections, "shop.yaml"), SealedOptions(as_of=0, **options))


def drafted(sections: str, members: str, **options: Any) -> UnvalidatedEvent:
    """The one event of a row with these members in addition to name, user and time; properties are under `p`."""
    made = mapper(sections, **options).map_row(record(f"{{{ROW}{',' if members else ''}{members}}}"))
    assert isinstance(made, UnvalidatedEvent), made
    return made


def as_json(value: Value) -> str:
    """A value as JSON."""
    return bytes(raw(value)).decode()


def properties(sections: str, members: str, **options: Any) -> dict[str, str]:
    """The properties of that event, as JSON."""
    return {name: as_json(value) for name, value in drafted(sections, members, **options).properties.items()}
