"""The local service takes every form of body that the real one takes, and no other
(docs/know/service.md#body-shapes)."""

from __future__ import annotations

import json
import uuid as uuids

import pytest

from pipeline.local_service import LocalService
from tests.support.capture_service import KEY, UUID, batch, event, post, taken

HYDRATION = "failed to hydrate events from request: non-engage request missing event name attribute"
NO_SHAPE = "failed to parse request: data did not match any variant of untagged enum RawRequest"
NO_ID = "event submitted without a distinct_id"


def nested(levels: int) -> bytes:
    """A batch whose deepest value is inside `levels` objects and lists."""
    inside = levels - 4  # the batch, its list, the event, its properties
    deep = '"properties":{"distinct_id":"u1","deep":' + "[" * inside + "]" * inside + "}"
    return f'{{"api_key":"{KEY}","batch":[{{"event":"e",{deep}}}]}}'.encode()


REFUSED: list[tuple[str, bytes, int, str]] = [
    ("no body", b"", 400, "request missing data payload"),
    ("no event", batch(batch=[]), 400, "request holds no event"),
    ("no event, and no good key either", batch(batch=[], api_key="phx_x"), 400, "request holds no event"),
    ("an empty list", b"[]", 400, "request holds no event"),
    ("an empty event name", batch(event(event="")), 400, "event submitted with an empty event name"),
    ("no distinct_id", batch(event(properties={})), 400, NO_ID),
    ("a null distinct_id", batch(event(properties={"distinct_id": None})), 400, NO_ID),
    ("an empty distinct_id", batch(event(properties={"distinct_id": ""})), 400, NO_ID),
    ("a blank distinct_id", batch(event(properties={"distinct_id": " \t\u3000\n"})), 400, NO_ID),
    ("a cookieless mode that is no boolean", batch(event(properties={"distinct_id": "u", "$cookieless_mode": "yes"})),
     400, "event submitted with invalid cookieless mode"),
    ("an empty key", batch(api_key="  "), 401, "API key is not valid: empty"),
    ("a long key", batch(api_key="x" * 65), 401, "API key is not valid: too_long"),
    ("a key that is not ASCII", batch(api_key="phc_é"), 401, "API key is not valid: not_ascii"),
    ("a personal key", batch(api_key="phx_personal"), 401, "API key is not valid: personal_api_key"),
    ("a key with a NUL", batch(api_key="phc_\0x"), 401, "API key is not valid: null_byte"),
    ("no key in a list", json.dumps([event()]).encode(), 401, "event submitted without an api_key"),
    ("no key in one event", json.dumps(event()).encode(), 401, "event submitted without an api_key"),
    ("two keys in a list", json.dumps([event(token="a"), event(token="b")]).encode(),
     401, "batch submitted with inconsistent api_key values"),
    ("no key in a batch", batch(api_key=...), 400, HYDRATION),
    ("a null key in a batch", batch(api_key=None), 400, HYDRATION),
    ("a key that is a number", batch(api_key=7), 400, NO_SHAPE),
    ("a key under both its names", batch(token=KEY), 400, NO_SHAPE),
    ("a batch that is no list", batch(batch={}), 400, HYDRATION),
    ("a flag that is no boolean", batch(historical_migration="true"), 400, HYDRATION),
    ("a sent_at that is no text", batch(sent_at=1), 400, HYDRATION),
    ("an element that is no object", batch("event"), 400, HYDRATION),
    ("no event name", batch(event(event=...)), 400, HYDRATION),
    ("an event name that is no text", batch(event(event=1)), 400, HYDRATION),
    ("properties that are no object", batch(event(properties=[])), 400, HYDRATION),
    ("null properties", batch(event(properties=None)), 400, HYDRATION),
    ("a timestamp that is a number", batch(event(timestamp=1_600_000_000)), 400, HYDRATION),
    ("a uuid that is none", batch(event(uuid="row-1")), 400, HYDRATION),
    ("a uuid with misplaced hyphens", batch(event(uuid="0188a5eb00007000-8000-0000-00000000001")), 400, HYDRATION),
    ("a uuid that is a number", batch(event(uuid=1)), 400, HYDRATION),
    ("a $set that is no object", batch(event(**{"$set": []})), 400, HYDRATION),
    ("a $set_once that is no object", batch(event(**{"$set_once": "x"})), 400, HYDRATION),
    ("an offset that is a fraction", batch(event(offset=1.0)), 400, HYDRATION),
    ("an offset beyond 64 bits", batch(event(offset=2**63)), 400, HYDRATION),
    ("a field given twice", batch().replace(b'"event":', b'"event": "x", "event":'), 400, HYDRATION),
    ("a distinct_id under both names", batch(event(distinct_id="a", **{"$distinct_id": "a"})), 400, HYDRATION),
    ("neither object nor list", b'"text"', 400, NO_SHAPE),
    ("a list of something else", b"[1]", 400, NO_SHAPE),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refuses(shared: LocalService, body: bytes, status: int, text: str) -> None:
    """A wrong body is refused with the status and the plain text of the real service, and not stored."""
    before = shared.store.raw_count()
    answer = post(shared, body)
    assert (answer.status_code, answer.text) == (status, text)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert shared.store.raw_count() == before


UNPARSABLE = {
    "cut off": batch()[:-2],
    "text behind it": batch() + b"x",
    "a trailing comma": batch().replace(b"}]}", b"},]}"),
    "NaN": batch(event(properties={"distinct_id": "u", "x": float("nan")})),
    "a number out of range": batch().replace(b'"u1"', b'"u1", "x": 1E400'),
    "a lone surrogate": batch().replace(b'"u1"', rb'"u1", "x": "\ud800"'),
    "a lone trailing surrogate": batch().replace(b'"u1"', rb'"u1", "x": "\udc00 "'),
    "a raw control character": batch().replace(b'"u1"', b'"u\x01"'),
    "128 levels": nested(128),
    "5,000 levels": nested(5000),
    "bad JSON behind a misshapen event": batch(event(event=1), event()).replace(b'"u1"', b'"u1", "x": 1E400'),
}


@pytest.mark.parametrize("body", UNPARSABLE.values(), ids=UNPARSABLE.keys())
def test_refuses_anything_but_json(shared: LocalService, body: bytes) -> None:
    answer = post(shared, body)
    assert (answer.status_code, answer.text.partition(": ")[0]) == (400, "failed to parse request")


def test_takes_127_levels(shared: LocalService) -> None:
    assert post(shared, nested(127)).status_code == 200


def test_one_bad_event_refuses_its_whole_batch(shared: LocalService) -> None:
    before = shared.store.raw_count()
    good = [event(uuid=str(uuids.uuid4())) for _ in range(20)]
    assert post(shared, batch(*good, event(properties={}), *good)).status_code == 400
    assert shared.store.raw_count() == before


SHAPES = {
    "a batch with api_key": batch(),
    "a batch with token": batch(api_key=..., token=KEY),
    "a key with white space around it": batch(api_key=f" {KEY}\n"),
    "a batch whose events have other keys": batch(event(token="phc_other")),
    "unknown members": batch(event(extra=[1]), unknown={"a": 1}),
    "white space": b" \r\n\t" + json.dumps(json.loads(batch()), indent=2).encode(),
    "a list, token": json.dumps([event(token=KEY)]).encode(),
    "a list, $token": json.dumps([event(**{"$token": KEY})]).encode(),
    "a list, api_key": json.dumps([event(api_key=KEY)]).encode(),
    "a list, token in properties": json.dumps([event(properties={"distinct_id": "u1", "token": KEY})]).encode(),
    "one event": json.dumps(event(api_key=KEY)).encode(),
    "a field repeated inside properties": batch().replace(b'"u1"', b'"u1", "x": 1, "x": 2'),
    "properties named as fields": batch(event(properties={"distinct_id": "u1", "event": 1, "uuid": 2})),
}


@pytest.mark.parametrize("body", SHAPES.values(), ids=SHAPES.keys())
def test_takes_every_shape(shared: LocalService, body: bytes) -> None:
    """Each documented form of a body lands as one event, answered with the exact text."""
    assert [(one.uuid, one.event, one.distinct_id) for one in taken(shared, body)] == [(UUID, "Signed up", "u1")]


def test_engage_makes_an_identify(shared: LocalService) -> None:
    """An object without an event name is an `$identify` on `/engage`, and only there."""
    body = json.dumps({"token": KEY, "$distinct_id": "u1", "$set": {"plan": "pro"}}).encode()
    assert post(shared, body).text == HYDRATION
    (one,) = taken(shared, body, "/engage/")
    assert (one.event, one.distinct_id, one.properties) == ("$identify", "u1", '{"$set":{"plan":"pro"}}')


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (batch(), True),
        (batch(historical_migration=False), False),
        (batch(historical_migration=...), False),
        (batch(event(event="$exception")), False),
        (json.dumps([event(token=KEY)]).encode(), False),
        (json.dumps(event(token=KEY, historical_migration=True)).encode(), False),
    ],
    ids=["batch", "false", "absent", "exception", "list", "one"],
)
def test_keeps_the_historical_flag(shared: LocalService, body: bytes, kept: bool) -> None:
    """Only a batch has the flag, and some events are not historical nevertheless."""
    assert [one.historical_migration for one in taken(shared, body)] == [kept]


def test_performance_events_vanish_in_silence(shared: LocalService) -> None:
    """`$performance_event` is answered 200 and not stored, before the key is checked."""
    assert taken(shared, batch(event(event="$performance_event"), api_key="phx_x")) == []
    assert [one.event for one in taken(shared, batch(event(event="$performance_event"), event()))] == ["Signed up"]
