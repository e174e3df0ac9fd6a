"""What the local service keeps of an event: id, uuid, name, instant and properties, and its warnings about changes."""

from __future__ import annotations

import json
import uuid as uuids
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.local_service import LocalService
from tests.support.capture_service import KEY, NOW, NOW_TEXT, UUID, batch, event, post, taken

IDS: dict[str, tuple[dict[str, Any], str]] = {
    "in properties": ({"properties": {"distinct_id": "p"}}, "p"),
    "beside them": ({"distinct_id": "top"}, "top"),
    "beside them, the other name": ({"$distinct_id": "top"}, "top"),
    "null beside them": ({"distinct_id": None}, "u1"),
    "surrounding white space": ({"distinct_id": "  u "}, "  u "),
    "a number": ({"distinct_id": 23}, "23"),
    "a fraction": ({"distinct_id": 23.40}, "23.4"),
    "a small fraction": ({"distinct_id": 0.000012}, "0.000012"),
    "a smaller fraction": ({"distinct_id": 0.0000012}, "1.2e-6"),
    "a large number": ({"distinct_id": 1e16}, "1e16"),
    "a number beyond 64 bits": ({"distinct_id": 2**64}, "1.8446744073709552e19"),
    "a boolean": ({"distinct_id": False}, "false"),
    "a list": ({"distinct_id": ["a", 1]}, '["a",1]'),
    "an object": ({"distinct_id": {"b": 1, "a": 2}}, '{"a":2,"b":1}'),
    "a NUL": ({"distinct_id": "a\0b"}, "a\ufffdb"),
    "only a NUL": ({"distinct_id": "\0"}, "\ufffd"),
    "200 characters": ({"distinct_id": "é" * 200}, "é" * 200),
    "more than 200": ({"distinct_id": "é" * 199 + "😀tail"}, "é" * 199 + "😀"),
}


def kept_of(service: LocalService, field: str, events: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The stored value of a field for each of these events, by their names."""
    landed = taken(service, batch(*(event(**changes) for changes in events.values())))
    return dict(zip(events, (getattr(one, field) for one in landed), strict=True))


def test_keeps_the_distinct_id(shared: LocalService) -> None:
    found = kept_of(shared, "distinct_id", {name: changes for name, (changes, _) in IDS.items()})
    assert found == {name: kept for name, (_, kept) in IDS.items()}


def test_spells_uuids_one_way(shared: LocalService) -> None:
    texts = [UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}", f"urn:uuid:{UUID}"]
    assert kept_of(shared, "uuid", {text: {"uuid": text} for text in texts}) == dict.fromkeys(texts, UUID)


def test_makes_a_uuid_if_none_is_given(shared: LocalService) -> None:
    """An event without a uuid gets a new one of version 7, so sending it twice makes two events."""
    body = batch(*(event(uuid=given) for given in (..., None, "")))
    made = {uuids.UUID(one.uuid) for _ in range(2) for one in taken(shared, body)}
    assert len(made) == 6
    assert {(one.version, one.int >> 80) for one in made} == {(7, NOW // 1000)}


TIMES: dict[str, tuple[Any, str]] = {
    "microseconds": ("2023-01-02T03:04:05.678901Z", "2023-01-02T03:04:05.678901Z"),
    "nanoseconds are cut": ("2023-01-02T03:04:05.678901999Z", "2023-01-02T03:04:05.678901Z"),
    "an offset": ("2023-01-02T03:04:05+05:30", "2023-01-01T21:34:05.000000Z"),
    "an offset in hours": ("2023-01-02T03:04:05.5+03", "2023-01-02T00:04:05.500000Z"),
    "lower case": ("2023-01-02t03:04:05z", "2023-01-02T03:04:05.000000Z"),
    "no zone is UTC": ("2023-01-02T03:04:05", "2023-01-02T03:04:05.000000Z"),
    "a space": ("2023-01-02 03:04:05.25", "2023-01-02T03:04:05.250000Z"),
    "a space and a zone": ("2023-01-02 03:04:05 +0200", "2023-01-02T01:04:05.000000Z"),
    "a space and UTC": ("2023-01-02 03:04 UTC", "2023-01-02T03:04:00.000000Z"),
    "a date takes the present time of day": ("2023-01-02", "2023-01-02T22:13:20.000000Z"),
    "slashes": ("2023/1/2 03:04:05", "2023-01-02T03:04:05.000000Z"),
    "month first": ("4/8/2014 10:05 PM", "2014-04-08T22:05:00.000000Z"),
    "month first, short year": ("4/8/99 1:05", "1999-04-08T01:05:00.000000Z"),
    "RFC 2822": ("Tue, 1 Jul 2003 10:52:37 +0200", "2003-07-01T08:52:37.000000Z"),
    "seconds": ("1511648546", "2017-11-25T22:22:26.000000Z"),
    "milliseconds": ("1620021848429", "2021-05-03T06:04:08.429000Z"),
    "nanoseconds": ("1620024872717915000", "2021-05-03T06:54:32.717915Z"),
    "before 1970": ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
    "the first year": ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    "before the year 0": ("0000-01-01T00:00:00+01:00", "1970-01-01T00:00:00.000000Z"),
    "23 hours ahead": ("2023-11-15T21:13:20.000Z", "2023-11-15T21:13:20.000000Z"),
    "more than 23 hours ahead": ("2023-11-15T21:13:20.001Z", NOW_TEXT),
    "a date that does not exist": ("2023-02-30T00:00:00Z", NOW_TEXT),
    "an hour that does not exist": ("2023-02-03T24:00:00Z", NOW_TEXT),
    "a number of eleven digits": ("15116485461", NOW_TEXT),
    "words": ("yesterday", NOW_TEXT),
    "an empty text": ("", NOW_TEXT),
    "null": (None, NOW_TEXT),
    "absent": (..., NOW_TEXT),
}


def test_reads_timestamps(shared: LocalService) -> None:
    """A timestamp is read as the real service reads it; if it cannot be read, it becomes the service's current time,
    with a 200."""
    found = kept_of(shared, "timestamp", {name: {"timestamp": given} for name, (given, _) in TIMES.items()})
    assert found == {name: kept for name, (_, kept) in TIMES.items()}


SKEWS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a client's clock that is behind": ({}, {"sent_at": "2023-11-14T22:13:10Z"}, "", "2023-01-02T03:04:15.678901Z"),
    "a client's clock that is ahead": ({}, {"sent_at": "2023-11-14T23:13:20+00:30"}, "", "2023-01-02T02:34:05.678901Z"),
    "a sent_at that is no time": ({}, {"sent_at": "noon"}, "", "2023-01-02T03:04:05.678901Z"),
    "a sent_at without a zone": ({}, {"sent_at": "2023-11-14T22:13:10"}, "", "2023-01-02T03:04:05.678901Z"),
    "sent_at in the query": ({}, {}, "?_=1699999990000", "2023-01-02T03:04:15.678901Z"),
    "the query in seconds is ignored": ({}, {}, "?_=1699999990", "2023-01-02T03:04:05.678901Z"),
    "an event that asks to ignore it": ({"properties": {"distinct_id": "u", "$ignore_sent_at": True}},
                                        {"sent_at": "2023-11-14T22:13:10Z"}, "", "2023-01-02T03:04:05.678901Z"),
    "an offset wins over the timestamp": ({"offset": 1500}, {}, "", "2023-11-14T22:13:18.500000Z"),
    "an offset far ahead": ({"offset": -90_000_000}, {}, "", NOW_TEXT),
    "an offset before the year 0": ({"offset": 2**62}, {}, "", "1970-01-01T00:00:00.000000Z"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "envelope", "query", "kept"), SKEWS.values(), ids=SKEWS.keys())
def test_corrects_clocks(
    shared: LocalService, changes: dict[str, Any], envelope: dict[str, Any], query: str, kept: str
) -> None:
    """`sent_at` shifts every timestamp by the client's clock error, and `offset` replaces it."""
    landed = taken(shared, batch(event(**changes), **envelope), "/batch/" + query)
    assert [one.timestamp for one in landed] == [kept]


def test_keeps_properties_byte_for_byte(shared: LocalService) -> None:
    """The JSON of the properties object is stored exactly: digits, escapes, white space and order."""
    text = r'{ "distinct_id":"u","z":1.10,"a":-0.0, "n":12345678901234567890123,"é":"\u00e9\/\n","b":{"y":1,"x":[ ]}}'
    body = f'{{"api_key":"{KEY}","batch":[{{"event":"e","properties":{text},"uuid":"{UUID}"}}]}}'
    assert [one.properties for one in taken(shared, body.encode())] == [text]


def test_merges_a_set_outside_the_properties(shared: LocalService) -> None:
    """A `$set` at the top of an event is merged into the one in its properties, and wins by key."""
    changes = {"properties": {"distinct_id": "u", "$set": {"a": 1, "b": 1}}, "$set": {"b": 2}}
    (kept,) = taken(shared, batch(event(**changes)))
    assert json.loads(kept.properties) == {"distinct_id": "u", "$set": {"a": 1, "b": 2}}


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
good_events = st.fixed_dictionaries(
    {
        "event": texts.filter(lambda name: name != "$performance_event"),
        "distinct_id": texts.filter(lambda name: name.strip() and "\0" not in name),
        "timestamp": st.datetimes(datetime(1970, 1, 1), datetime(2023, 11, 1)),
        "uuid": st.uuids(),
        "more": st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=3),
    }
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.lists(good_events, min_size=1, max_size=8, unique_by=lambda one: one["uuid"]))
def test_any_good_batch_reads_back_the_same(shared: LocalService, made: list[dict[str, Any]]) -> None:
    sent = [
        event(
            event=one["event"],
            properties=one["more"] | {"distinct_id": one["distinct_id"], "$cookieless_mode": False},
            timestamp=one["timestamp"].isoformat() + "Z",
            uuid=str(one["uuid"]),
        )
        for one in made
    ]
    assert [(one.uuid, one.event, one.distinct_id, one.timestamp) for one in taken(shared, batch(*sent))] == [
        (str(one["uuid"]), one["event"], one["distinct_id"], f"{one['timestamp']:%Y-%m-%dT%H:%M:%S.%fZ}")
        for one in made
    ]


NOTED: dict[str, dict[str, Any]] = {
    "missing_timestamp": {"timestamp": None},
    "ignored_invalid_timestamp": {"timestamp": "soon"},
    "future_timestamp": {"timestamp": "2023-11-16T00:00:00Z"},
    "timestamp_out_of_range": {"timestamp": "0000-01-01T00:00:00+14:00"},
    "distinct_id_shortened": {"distinct_id": "x" * 201},
    "event_name_shortened": {"event": "é" * 201},
    "event_name_shortened outside the plane": {"event": "😀" * 101},
}


def test_notes_what_it_changes_in_silence(shared: LocalService) -> None:
    """Answered 200, with a warning that says so; an event as in the contract is kept without a warning."""
    before = len(shared.warnings())
    assert post(shared, batch(event(), *(event(**changes) for changes in NOTED.values()))).status_code == 200
    found = [(one.type, one.details, one.dropped) for one in shared.warnings()[before:]]
    assert found == [(name.split()[0], changes, False) for name, changes in NOTED.items()]


def test_shortens_names_of_events(shared: LocalService) -> None:
    """To 200 UTF-16 units."""
    names = {"n" * 200: 200, "n" * 201: 200, "😀" * 100: 100, "n" + "😀" * 100: 100}
    found = kept_of(shared, "event", {name: {"event": name} for name in names})
    assert found == {name: name[:length] for name, length in names.items()}
