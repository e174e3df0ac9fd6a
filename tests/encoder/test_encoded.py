"""Encoded events are read and changed by the encoder alone, which knows how they are spelt."""

from __future__ import annotations

import json

import pytest

from pipeline.encoder.encoded import has_profile, read_event, read_properties, replace_uuid, uuid_of
from pipeline.encoder.event import Encoder, provenance
from pipeline.models import SealedOptions, UnvalidatedEvent

OLD, NEW = "0829736a-b140-570d-ac78-774cecf956e2", "0829736a-b140-570d-ac78-774cecf956e3"


def encoded(**properties: object) -> bytes:
    """An event with these properties."""
    draft = UnvalidatedEvent("Seen", "u-1", 0, properties, uuid=OLD)
    return Encoder("tiny", SealedOptions(as_of=0, name="first")).encode(draft)


def test_an_encoded_event_is_read_back() -> None:
    """Its identity and its properties, each value as the JSON that is sent."""
    found = read_event(encoded(a=1.5))
    assert (found.event, found.properties.distinct_id, found.uuid) == ("Seen", "u-1", OLD)
    assert found.timestamp == "1970-01-01T00:00:00Z"
    assert bytes(read_properties(encoded(a=1.5))["a"]) == b"1.5"


def test_a_replaced_uuid_changes_nothing_else() -> None:
    """So a duplicate that is sent as an event of its own keeps its content."""
    event = encoded(a='"}')
    assert uuid_of(event) == OLD
    assert replace_uuid(event, NEW) == event.replace(OLD.encode(), NEW.encode())


@pytest.mark.parametrize(("flag", "expected"), [(True, True), (False, False)])
def test_the_profile_flag_is_read(flag: bool, expected: bool) -> None:
    """Only `false` keeps the service from a profile."""
    assert has_profile(read_properties(encoded(**{"$process_person_profile": flag}))) is expected


def test_every_event_carries_the_provenance() -> None:
    """The marks by which an import is found again are those that the encoder writes."""
    options = SealedOptions(as_of=0, name="first")
    written = json.loads(encoded())["properties"]
    assert provenance("tiny", options).items() <= written.items()
    assert provenance("tiny", SealedOptions(as_of=0, provenance=False)) == {}
