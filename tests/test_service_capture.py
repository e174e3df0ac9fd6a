"""The local service takes and refuses capture requests as the real one does (service-behaviour 1.1 to 1.8)."""

from __future__ import annotations

import ast
import base64
import gzip
import json
import re
import subprocess
import sys
import uuid as uuids
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.service import Keyring, LocalService, Settings
from pipeline.service.keys import BadKeys, Project, load

NOW = 1_700_000_000_000_000
"""2023-11-14T22:13:20Z, in microseconds."""
UUID = "0188a5eb-0000-7000-8000-000000000001"
KEY = "phc_rehearsal"
KEYS = Keyring((Project(1, "Rehearsal", KEY),), {"phx_personal": frozenset({"*"})})
HYDRATION = "failed to hydrate events from request: non-engage request missing event name attribute"
NO_SHAPE = "failed to parse request: data did not match any variant of untagged enum RawRequest"
NO_ID = "event submitted without a distinct_id"


def make(settings: Settings | None = None, store: Path | None = None) -> LocalService:
    return LocalService(store, keys=KEYS, settings=settings or Settings(clock=lambda: NOW))


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalService]:
    """One service for the tests that do not look at totals."""
    with make() as service:
        yield service


@pytest.fixture
def service() -> Iterator[LocalService]:
    with make() as fresh:
        yield fresh


def event(**changes: Any) -> dict[str, Any]:
    """A good event with members replaced; a member set to `...` is left out."""
    made = {
        "event": "Signed up",
        "properties": {"distinct_id": "u1"},
        "timestamp": "2023-01-02T03:04:05.678901Z",
        "uuid": UUID,
    } | changes
    return {name: value for name, value in made.items() if value is not ...}


def batch(*events: Any, **changes: Any) -> bytes:
    """The JSON text of a batch."""
    made = {"api_key": KEY, "historical_migration": True, "batch": list(events or [event()])} | changes
    return json.dumps({name: value for name, value in made.items() if value is not ...}).encode()


def post(
    service: LocalService, body: bytes, path: str = "/batch/", headers: dict[str, str] | None = None
) -> httpx.Response:
    headers = {"content-type": "application/json"} | (headers or {})
    return httpx.post(service.url + path, content=body, headers=headers)


def nested(levels: int) -> bytes:
    """A batch whose deepest value stands inside `levels` objects and lists."""
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
    (
        "a cookieless mode that is no boolean",
        batch(event(properties={"distinct_id": "u", "$cookieless_mode": "yes"})),
        400,
        "event submitted with invalid cookieless mode",
    ),
    ("an empty key", batch(api_key="  "), 401, "API key is not valid: empty"),
    ("a long key", batch(api_key="x" * 65), 401, "API key is not valid: too_long"),
    ("a key that is not ASCII", batch(api_key="phc_é"), 401, "API key is not valid: not_ascii"),
    ("a personal key", batch(api_key="phx_personal"), 401, "API key is not valid: personal_api_key"),
    ("a key with a NUL", batch(api_key="phc_\0x"), 401, "API key is not valid: null_byte"),
    ("no key in a list", json.dumps([event()]).encode(), 401, "event submitted without an api_key"),
    ("no key in one event", json.dumps(event()).encode(), 401, "event submitted without an api_key"),
    (
        "two keys in a list",
        json.dumps([event(token="a"), event(token="b")]).encode(),
        401,
        "batch submitted with inconsistent api_key values",
    ),
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
    (
        "a uuid with misplaced hyphens",
        batch(event(uuid="0188a5eb00007000-8000-0000-00000000001")),
        400,
        HYDRATION,
    ),
    ("a uuid that is a number", batch(event(uuid=1)), 400, HYDRATION),
    ("a $set that is no object", batch(event(**{"$set": []})), 400, HYDRATION),
    ("a $set_once that is no object", batch(event(**{"$set_once": "x"})), 400, HYDRATION),
    ("an offset that is a fraction", batch(event(offset=1.0)), 400, HYDRATION),
    ("an offset beyond 64 bits", batch(event(offset=2**63)), 400, HYDRATION),
    ("a field given twice", batch().replace(b'"event":', b'"event": "x", "event":'), 400, HYDRATION),
    (
        "a distinct_id under both names",
        batch(event(distinct_id="a", **{"$distinct_id": "a"})),
        400,
        HYDRATION,
    ),
    ("neither object nor list", b'"text"', 400, NO_SHAPE),
    ("a list of something else", b"[1]", 400, NO_SHAPE),
]


@pytest.mark.parametrize(("body", "status", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refuses(shared: LocalService, body: bytes, status: int, text: str) -> None:
    """What does not fit is refused with the status and the plain text of the real service, and not stored."""
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
def test_refuses_what_is_no_json(shared: LocalService, body: bytes) -> None:
    """Text that the real service's parser would not take is a parse error."""
    answer = post(shared, body)
    assert (answer.status_code, answer.text.partition(": ")[0]) == (400, "failed to parse request")


def test_takes_127_levels(shared: LocalService) -> None:
    """The deepest nesting that the real service's parser takes is taken."""
    assert post(shared, nested(127)).status_code == 200


def test_one_bad_event_refuses_its_whole_batch(service: LocalService) -> None:
    """Nothing of a batch is stored when one event of it is bad."""
    good = [event(uuid=str(uuids.uuid4())) for _ in range(20)]
    assert post(service, batch(*good, event(properties={}), *good)).status_code == 400
    assert service.store.raw_count() == 0


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
def test_takes_every_shape(service: LocalService, body: bytes) -> None:
    """Each documented shape of a body lands as one event, answered with the exact text."""
    answer = post(service, body)
    assert (answer.status_code, answer.text) == (200, '{"status":"Ok"}')
    assert answer.headers["content-type"] == "application/json"
    landed = service.events()
    assert [(one.uuid, one.event, one.distinct_id) for one in landed] == [(UUID, "Signed up", "u1")]


def test_engage_makes_an_identify(service: LocalService) -> None:
    """An object without an event name is an `$identify` on `/engage`, and only there."""
    body = json.dumps({"token": KEY, "$distinct_id": "u1", "$set": {"plan": "pro"}}).encode()
    assert post(service, body).text == HYDRATION
    assert post(service, body, "/engage/").status_code == 200
    landed = service.events()
    assert [(one.event, one.distinct_id, one.properties) for one in landed] == [
        ("$identify", "u1", '{"$set":{"plan":"pro"}}')
    ]


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
def test_keeps_the_historical_flag(service: LocalService, body: bytes, kept: bool) -> None:
    """Only a batch carries the flag, and some events keep out of the historical lane all the same."""
    assert post(service, body).status_code == 200
    assert [one.historical_migration for one in service.events()] == [kept]


def test_performance_events_vanish_in_silence(service: LocalService) -> None:
    """`$performance_event` is answered 200 and not stored, before the key is looked at."""
    assert post(service, batch(event(event="$performance_event"), api_key="phx_x")).status_code == 200
    assert post(service, batch(event(event="$performance_event"), event())).status_code == 200
    assert service.store.raw_count() == 1


GZIPPED = gzip.compress(batch())
FORM = {"content-type": "application/x-www-form-urlencoded"}
ENCODED: dict[str, tuple[bytes, str, dict[str, str]]] = {
    "gzip by header": (GZIPPED, "", {"content-encoding": "gzip"}),
    "gzip by query": (GZIPPED, "?compression=gzip-js", {}),
    "gzip by its first bytes": (GZIPPED, "", {}),
    "gzip with bytes behind it": (GZIPPED + b"more", "", {}),
    "a header that is not so": (batch(), "", {"content-encoding": "zstd"}),
    "base64": (base64.b64encode(batch()), "", {}),
    "base64 by query": (base64.b64encode(batch()), "?compression=BASE64", {}),
    "base64 of gzip": (base64.b64encode(GZIPPED), "", {}),
    "a form": (str(httpx.QueryParams({"data": batch().decode()})).encode(), "", FORM),
    "a form with base64": (b"data=" + base64.b64encode(GZIPPED), "", FORM),
    "a form that names gzip": (
        b"compression=gzip&data=" + base64.b64encode(GZIPPED).replace(b"+", b"%2B"),
        "",
        FORM,
    ),
}


@pytest.mark.parametrize(("body", "query", "headers"), ENCODED.values(), ids=ENCODED.keys())
def test_takes_every_encoding(service: LocalService, body: bytes, query: str, headers: dict[str, str]) -> None:
    """Each documented encoding lands as the same event."""
    assert post(service, body, "/batch/" + query, headers).text == '{"status":"Ok"}'
    assert [one.uuid for one in service.events()] == [UUID]


UNDECODABLE: dict[str, tuple[bytes, str, dict[str, str], str]] = {
    "plain text named gzip": (batch(), "", {"content-encoding": "gzip"}, "invalid GZIP data"),
    "gzip cut off": (GZIPPED[:-9], "", {}, "invalid GZIP data"),
    "gzip of no text": (gzip.compress(b"\xff\xfe"), "", {}, "invalid gzip data"),
    "zstd": (
        b"\x28\xb5\x2f\xfd\x04\x00",
        "",
        {"content-encoding": "zstd"},
        "invalid UTF8 in request payload",
    ),
    "surrogates in UTF-8": (
        batch().replace(b"u1", b"\xed\xa0\x80"),
        "",
        {},
        "invalid UTF8 in request payload",
    ),
    "no base64": (b"{}", "?compression=b64", {}, "invalid base64 data"),
    "a form without data": (b"x=1", "", FORM, "expected form data in POST request payload"),
    "lz64": (batch(), "?compression=lz64", {}, "lz64 is not supported by the local service"),
}


@pytest.mark.parametrize(("body", "query", "headers", "text"), UNDECODABLE.values(), ids=UNDECODABLE.keys())
def test_refuses_what_it_cannot_decode(
    shared: LocalService, body: bytes, query: str, headers: dict[str, str], text: str
) -> None:
    """A body that is not encoded as it claims is refused, and the text says what was wrong."""
    answer = post(shared, body, "/batch/" + query, headers)
    assert (answer.status_code, answer.text) == (400, f"failed to decode request: {text}")


def test_takes_data_in_the_query_of_a_get(service: LocalService) -> None:
    """GET is allowed, with the body as `?data=`; without it a resent GET is a missing payload."""
    assert httpx.get(service.url + "/batch/", params={"data": batch().decode()}).status_code == 200
    bare = httpx.get(service.url + "/batch/")
    assert (bare.status_code, bare.text) == (400, "request missing data payload")
    assert service.count() == 1


@pytest.mark.parametrize("path", ["/batch", "/batch/", "/i/v0/e", "/i/v0/e/", "/e/", "/capture", "/track/", "/engage"])
def test_every_route_answers_itself(shared: LocalService, path: str) -> None:
    """Each route is served with and without its last slash, without a redirect."""
    assert post(shared, batch(), path).text == '{"status":"Ok"}'


def test_redirects_nothing(shared: LocalService) -> None:
    """A path that is not served is 404; a slash too many is never a redirect, which would lose a body."""
    assert httpx.get(shared.url + "/_stats/").status_code == 404


def test_beacon_is_answered_empty(shared: LocalService) -> None:
    """`beacon=1` answers 204 without a body."""
    answer = post(shared, batch(), "/batch/?beacon=1")
    assert (answer.status_code, answer.content) == (204, b"")


def test_browsers_are_let_in(shared: LocalService) -> None:
    """OPTIONS answers the Ok body, and mirrors origin and headers."""
    asked = {"origin": "https://app.example", "access-control-request-headers": "content-type"}
    answer = httpx.options(shared.url + "/batch/", headers=asked)
    assert (answer.status_code, answer.text) == (200, '{"status":"Ok"}')
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-allow-headers"] == "content-type"
    assert answer.headers["access-control-allow-credentials"] == "true"


def test_says_that_it_is_ready(shared: LocalService) -> None:
    """`/_readiness` answers the text `capture`."""
    answer = httpx.get(shared.url + "/_readiness")
    assert (answer.status_code, answer.text) == (200, "capture")


def test_default_limits_are_the_services() -> None:
    """The limits are those of the facts: 20 MiB and 2 MiB as sent, 100 MiB decoded, 1,000,000 bytes queued."""
    limits = Settings()
    assert limits.batch_wire_limit == 20 * 1024 * 1024
    assert limits.event_wire_limit == 2 * 1024 * 1024
    assert limits.decoded_limit == 100 * 1024 * 1024
    assert limits.stored_event_limit == 1_000_000


def test_refuses_bodies_over_the_limits() -> None:
    """A body too large as sent, or once decoded, is 413; at the limit it is taken."""
    body = batch()
    with make(Settings(batch_wire_limit=len(body), decoded_limit=len(body))) as service:
        assert post(service, body).status_code == 200
        wire = post(service, body + b" ")
        assert (wire.status_code, wire.text.partition(": ")[0]) == (413, "maximum event size exceeded")
        packed = post(service, gzip.compress(body + b" "))
        assert (packed.status_code, packed.text) == (
            413,
            f"maximum event size exceeded: Decompressed payload would exceed {len(body)} bytes"
            f" (got {len(body) + 1} bytes)",
        )


def test_other_routes_have_the_smaller_limit() -> None:
    """The limit of 2 MiB is for the event routes, the one of 20 MiB for `/batch`."""
    body = batch()
    with make(Settings(event_wire_limit=len(body) - 1)) as service:
        assert post(service, body, "/batch").status_code == 200
        assert post(service, body, "/e").status_code == 413


def large(text: str) -> dict[str, Any]:
    return event(properties={"distinct_id": "u1", "text": text})


def test_an_event_is_measured_as_it_is_queued(service: LocalService) -> None:
    """Quotes count twice and more: an event well under 1,000,000 bytes as sent can be over it once queued."""
    assert post(service, batch(large("x" * 990_000))).status_code == 200
    for text in ("x" * 1_000_000, '"' * 300_000):
        answer = post(service, batch(event(uuid=str(uuids.uuid4())), large(text)))
        assert answer.status_code == 413
        assert answer.text == "maximum event size exceeded: Event rejected by kafka during send"
    assert service.store.raw_count() == 1


def test_earlier_events_of_an_oversize_batch_may_be_kept() -> None:
    """With `oversize_event` set so, what stood before the large event is stored although the answer is 413."""
    with make(Settings(oversize_event="keep_earlier")) as service:
        body = batch(event(), large("x" * 1_000_000), event(uuid=str(uuids.uuid4())))
        assert post(service, body).status_code == 413
        assert [one.uuid for one in service.events()] == [UUID]


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


@pytest.mark.parametrize(("changes", "kept"), IDS.values(), ids=IDS.keys())
def test_keeps_the_distinct_id(service: LocalService, changes: dict[str, Any], kept: str) -> None:
    """The id is found, turned into text and cut as the real service does."""
    assert post(service, batch(event(**changes))).status_code == 200
    assert [one.distinct_id for one in service.events()] == [kept]


@pytest.mark.parametrize("text", [UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}", f"urn:uuid:{UUID}"])
def test_spells_uuids_one_way(service: LocalService, text: str) -> None:
    """Each spelling of a uuid that the real service takes is the same uuid."""
    assert post(service, batch(event(uuid=text))).status_code == 200
    assert [one.uuid for one in service.events()] == [UUID]


@pytest.mark.parametrize("given_uuid", [..., None, ""])
def test_makes_a_uuid_where_none_is_given(service: LocalService, given_uuid: Any) -> None:
    """An event without a uuid gets a new one of version 7, so sending it twice makes two events."""
    for _ in range(2):
        assert post(service, batch(event(uuid=given_uuid))).status_code == 200
    made = [uuids.UUID(one.uuid) for one in service.events()]
    assert [(one.version, one.int >> 80) for one in made] == [(7, NOW // 1000)] * 2
    assert made[0] != made[1]


def micros(text: str) -> str:
    """An instant in the spelling of answers."""
    when = datetime.fromisoformat(text).astimezone(UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


NOW_TEXT = "2023-11-14T22:13:20.000000Z"
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


@pytest.mark.parametrize(("timestamp", "kept"), TIMES.values(), ids=TIMES.keys())
def test_reads_timestamps(service: LocalService, timestamp: Any, kept: str) -> None:
    """A timestamp is read as the real service reads it; what it cannot read becomes its present, with a 200."""
    assert post(service, batch(event(timestamp=timestamp))).status_code == 200
    assert [one.timestamp for one in service.events()] == [kept]


SKEWS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a client's clock that is behind": (
        {},
        {"sent_at": "2023-11-14T22:13:10Z"},
        "",
        "2023-01-02T03:04:15.678901Z",
    ),
    "a client's clock that is ahead": (
        {},
        {"sent_at": "2023-11-14T23:13:20+00:30"},
        "",
        "2023-01-02T02:34:05.678901Z",
    ),
    "a sent_at that is no time": ({}, {"sent_at": "noon"}, "", "2023-01-02T03:04:05.678901Z"),
    "a sent_at without a zone": ({}, {"sent_at": "2023-11-14T22:13:10"}, "", "2023-01-02T03:04:05.678901Z"),
    "sent_at in the query": ({}, {}, "?_=1699999990000", "2023-01-02T03:04:15.678901Z"),
    "the query in seconds is ignored": ({}, {}, "?_=1699999990", "2023-01-02T03:04:05.678901Z"),
    "an event that asks to ignore it": (
        {"properties": {"distinct_id": "u", "$ignore_sent_at": True}},
        {"sent_at": "2023-11-14T22:13:10Z"},
        "",
        "2023-01-02T03:04:05.678901Z",
    ),
    "an offset wins over the timestamp": ({"offset": 1500}, {}, "", "2023-11-14T22:13:18.500000Z"),
    "an offset far ahead": ({"offset": -90_000_000}, {}, "", NOW_TEXT),
    "an offset before the year 0": ({"offset": 2**62}, {}, "", "1970-01-01T00:00:00.000000Z"),
}


@pytest.mark.parametrize(("changes", "envelope", "query", "kept"), SKEWS.values(), ids=SKEWS.keys())
def test_corrects_clocks(
    service: LocalService, changes: dict[str, Any], envelope: dict[str, Any], query: str, kept: str
) -> None:
    """`sent_at` shifts every timestamp by the client's clock error, and `offset` replaces it."""
    assert post(service, batch(event(**changes), **envelope), "/batch/" + query).status_code == 200
    assert [one.timestamp for one in service.events()] == [kept]


def test_keeps_properties_byte_for_byte(service: LocalService) -> None:
    """The text of the properties object is stored exactly: digits, escapes, white space and order."""
    text = r'{ "distinct_id":"u","z":1.10,"a":-0.0, "n":12345678901234567890123,"é":"\u00e9\/\n","b":{"y":1,"x":[ ]}}'
    body = f'{{"api_key":"{KEY}","batch":[{{"event":"e","properties":{text},"uuid":"{UUID}"}}]}}'
    assert post(service, body.encode()).status_code == 200
    assert [one.properties for one in service.events()] == [text]


def test_merges_a_set_beside_the_properties(service: LocalService) -> None:
    """A `$set` at the top of an event joins the one in its properties, and wins by key."""
    changes = {"properties": {"distinct_id": "u", "$set": {"a": 1, "b": 1}}, "$set": {"b": 2}}
    assert post(service, batch(event(**changes))).status_code == 200
    assert [json.loads(one.properties) for one in service.events()] == [{"distinct_id": "u", "$set": {"a": 1, "b": 2}}]


def test_an_unknown_key_is_answered_ok_and_dropped(service: LocalService) -> None:
    """By default a key that no project owns gets 200, stores nothing and is remembered as a rejection."""
    assert post(service, batch(api_key="phc_somebody_else")).text == '{"status":"Ok"}'
    assert service.store.raw_count() == 0
    assert service.select("SELECT status, reason FROM rejections") == [(200, "unknown token")]


def test_an_unknown_key_is_refused_where_keys_are_enforced() -> None:
    """With `token_validation` enforced, a key that no project owns is 401."""
    with make(Settings(token_validation="enforce")) as service:
        assert post(service, batch(api_key="phc_somebody_else")).status_code == 401
        assert post(service, batch()).status_code == 200
        assert service.count() == 1


def test_each_project_has_its_own_events() -> None:
    """A capture key leads to its project only."""
    keys = Keyring((Project(1, "A", "phc_a"), Project(2, "B", "phc_b")), KEYS.personal)
    with LocalService(keys=keys) as service:
        assert post(service, batch(api_key="phc_b")).status_code == 200
        assert post(service, batch(event(), event(uuid=str(uuids.uuid4())), api_key="phc_a")).status_code == 200
        assert (len(service.events(1)), len(service.events(2)), service.count()) == (2, 1, 3)


def test_remembers_refused_bodies_without_keys(service: LocalService) -> None:
    """A rejection keeps time, status, text and the first 500 characters, with every key replaced."""
    body = batch(event(properties={"note": f"{KEY} phx_personal phc_other " + "x" * 900}), api_key=KEY)
    refused = post(service, body)
    [(time, status, reason, payload)] = service.select("SELECT time, status, reason, payload FROM rejections")
    assert (time, status, reason) == (NOW_TEXT, 400, refused.text)
    assert len(payload) == 500
    assert payload.startswith('{"api_key": "***", "historical_migration": true')
    assert "phc_" not in payload
    assert "phx_" not in payload


def test_remembers_no_key_of_any_shape() -> None:
    """A key that does not look like one is replaced too, wherever it stands in a refused body."""
    keys = Keyring((Project(1, "A", "plain"),), {})
    with LocalService(keys=keys) as service:
        assert post(service, b"[not json, plain, of course]").status_code == 400
        assert service.select("SELECT payload FROM rejections") == [("[not json, ***, of course]",)]


def test_keys_are_in_no_repr_and_no_log(service: LocalService, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither an object's repr nor the output of the process shows a key."""
    post(service, batch())
    post(service, b"no json" + KEY.encode())
    seen = repr(service) + repr(service.keys) + repr(service.keys.projects) + "".join(capfd.readouterr())
    assert KEY not in seen
    assert "phx_personal" not in seen


def test_makes_keys_of_its_own() -> None:
    """Without a keys file there is project 1, with new keys of each kind."""
    with LocalService() as one, LocalService() as other:
        assert (one.project_id, one.url != other.url) == (1, True)
        assert re.fullmatch(r"phc_[0-9a-f]{40}", one.capture_key)
        assert re.fullmatch(r"phx_[0-9a-f]{40}", one.personal_key)
        assert one.capture_key != other.capture_key
        assert post(one, batch(api_key=one.capture_key)).status_code == 200
        assert (one.count(), other.count()) == (1, 0)


def test_reads_a_keys_file(tmp_path: Path) -> None:
    """The keys file of the command line is read."""
    file = tmp_path / "keys.json"
    file.write_text('{"projects": [{"id": 7, "name": "P", "capture_key": "phc_x"}], "keys": {"phx_y": ["query:read"]}}')
    keys = load(file)
    assert (keys.project_of("phc_x"), keys.project_of("phc_z")) == (7, None)
    assert (keys.scopes_of("phx_y"), keys.scopes_of("phc_x")) == (frozenset({"query:read"}), None)


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"projects": []}',
        '{"projects": [{"id": "1", "capture_key": "phc_secret"}]}',
        '{"projects": [{"id": 1, "capture_key": "phx_secret"}]}',
        '{"projects": [{"id": 1, "capture_key": "phc_secret"}, {"id": 2, "capture_key": "phc_secret"}]}',
        '{"projects": [{"id": 1, "capture_key": "phc_a"}], "keys": {"phc_secret": ["*"]}}',
        '{"projects": [{"id": 1, "capture_key": "phc_a"}], "keys": {"phx_secret": "*"}}',
    ],
)
def test_refuses_a_bad_keys_file(tmp_path: Path, text: str) -> None:
    """A keys file that cannot be used is named, without any of its keys."""
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(BadKeys) as caught:
        load(file)
    assert str(file) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_counts_what_landed(service: LocalService) -> None:
    """`/_stats` counts events after collapse, copies, requests and rejections, by event and by day."""
    post(service, batch(event(), event(), event(event="Paid", timestamp="2023-01-03T23:59:59.999999Z")))
    post(service, b"?")
    assert httpx.get(service.url + "/_stats").json() == {
        "events": 2,
        "raw_events": 3,
        "requests": 2,
        "rejected": 1,
        "by_event": {"Paid": 1, "Signed up": 1},
        "by_day": {"2023-01-02": 1, "2023-01-03": 1},
    }


def test_takes_many_requests_at_once(service: LocalService) -> None:
    """Requests from several threads all land, once each."""
    bodies = [batch(*(event(uuid=str(uuids.uuid4())) for _ in range(50))) for _ in range(40)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: post(service, body).status_code, bodies))
    assert answers == [200] * 40
    assert (service.count(), service.store.raw_count()) == (2000, 2000)


def test_a_file_keeps_what_landed(tmp_path: Path) -> None:
    """A store in a file is there again for the next service, and goes on numbering."""
    file = tmp_path / "landed.duckdb"
    with make(store=file) as service:
        assert post(service, batch(event(properties={"distinct_id": "u1", "n": 1}))).status_code == 200
    with make(store=file) as service:
        assert service.count() == 1
        assert post(service, batch(event(properties={"distinct_id": "u1", "n": 2}))).status_code == 200
        assert [json.loads(one.properties)["n"] for one in service.events()] == [2]


def test_listens_on_this_machine_only(shared: LocalService) -> None:
    """The address is the loopback one, and a port that is taken is an error."""
    assert shared.url == f"http://127.0.0.1:{shared.port}"
    with pytest.raises(OSError, match="in use"):
        LocalService(port=shared.port)


def test_trusts_nothing_of_the_package() -> None:
    """No file of the service imports another room of the package."""
    import pipeline.service

    for file in Path(pipeline.service.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                assert node.level <= 1, file.name
            assert not any(name.split(".")[0] == "pipeline" for name in names), file.name


def test_is_cheap_to_import() -> None:
    """Importing the package loads neither the web server nor the database."""
    code = "import pipeline.service, sys; print([m for m in ('duckdb', 'uvicorn', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.lists(good_events, min_size=1, max_size=8, unique_by=lambda one: one["uuid"]))
def test_any_good_batch_reads_back_the_same(shared: LocalService, made: list[dict[str, Any]]) -> None:
    """Any batch of good events reads back as the same set of (uuid, event, distinct_id, timestamp)."""
    sent = [
        event(
            event=one["event"],
            properties=one["more"] | {"distinct_id": one["distinct_id"], "$cookieless_mode": False},
            timestamp=one["timestamp"].isoformat() + "Z",
            uuid=str(one["uuid"]),
        )
        for one in made
    ]
    first = shared.select("SELECT coalesce(max(receipt), 0) FROM raw_events")[0][0]
    assert post(shared, batch(*sent)).status_code == 200
    landed = shared.select(f"SELECT uuid, event, distinct_id, timestamp FROM raw_events WHERE receipt > {first}")
    assert set(landed) == {
        (str(one["uuid"]), one["event"], one["distinct_id"], micros(one["timestamp"].isoformat() + "+00:00"))
        for one in made
    }


NOTED: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "no timestamp": ({"timestamp": None}, "missing_timestamp", {"timestamp": None}),
    "a bad timestamp": ({"timestamp": "soon"}, "ignored_invalid_timestamp", {"timestamp": "soon"}),
    "a day ahead": (
        {"timestamp": "2023-11-16T00:00:00Z"},
        "future_timestamp",
        {"timestamp": "2023-11-16T00:00:00Z"},
    ),
    "before the calendar": (
        {"timestamp": "0000-01-01T00:00:00+14:00"},
        "timestamp_out_of_range",
        {"timestamp": "0000-01-01T00:00:00+14:00"},
    ),
    "a long id": (
        {"properties": {"distinct_id": "x" * 201}},
        "distinct_id_shortened",
        {"distinct_id": "x" * 201},
    ),
    "a long name": ({"event": "é" * 201}, "event_name_shortened", {"event": "é" * 201}),
    "a long name outside the plane": ({"event": "😀" * 101}, "event_name_shortened", {"event": "😀" * 101}),
}


@pytest.mark.parametrize(("changes", "kind", "details"), NOTED.values(), ids=NOTED.keys())
def test_notes_what_it_changes_in_silence(
    shared: LocalService, changes: dict[str, Any], kind: str, details: dict[str, Any]
) -> None:
    """An event that is kept otherwise than it came is answered 200, and leaves a warning that says so."""
    before = len(shared.warnings())
    assert post(shared, batch(event(**changes))).status_code == 200
    (warning,) = shared.warnings()[before:]
    assert (warning.type, warning.details, warning.dropped) == (kind, details, False)


@pytest.mark.parametrize(
    ("name", "kept"),
    [("n" * 200, "n" * 200), ("n" * 201, "n" * 200), ("😀" * 100, "😀" * 100), ("n" + "😀" * 100, "n" + "😀" * 99)],
)
def test_shortens_names_of_events(service: LocalService, name: str, kept: str) -> None:
    """A name is kept to 200 UTF-16 units."""
    assert post(service, batch(event(event=name))).status_code == 200
    assert service.select("select event from events") == [(kept,)]


def test_good_events_leave_no_warning(service: LocalService) -> None:
    """An event as the contract describes it is kept without a word."""
    assert post(service, batch(event())).status_code == 200
    assert service.warnings() == []


@pytest.mark.parametrize("given", ["text/plain", "application/json5", ""])
def test_expects_json(given: str) -> None:
    """A batch that is not said to be JSON is taken and noted, or refused by a switch; a form is neither."""
    form = b"data=" + base64.urlsafe_b64encode(batch()).replace(b"-", b"%2B").replace(b"_", b"/")
    with make() as lax, make(Settings(content_type="json")) as strict:
        assert post(lax, batch(), headers={"content-type": given}).status_code == 200
        assert [warning.type for warning in lax.warnings()] == ["unexpected_content_type"]
        refused = post(strict, batch(), headers={"content-type": given})
        assert (refused.status_code, refused.text) == (415, "expected Content-Type: application/json")
        for service in (lax, strict):
            assert (
                post(service, batch(), headers={"content-type": "application/json; charset=utf-8"}).status_code == 200
            )
            assert post(service, batch(), path="/e/", headers={"content-type": given}).status_code == 200
            form_type = {"content-type": "application/x-www-form-urlencoded"}
            assert post(service, form, headers=form_type).status_code == 200
        assert len(lax.warnings()) == 1


@pytest.mark.parametrize("path", ["/flags", "/flags/", "/flags/?v=2", "/decide/", "/decide/?v=3"])
def test_answers_sdks_that_ask_for_flags(shared: LocalService, path: str) -> None:
    """There are no feature flags, and whoever asks is told so in the shape of its route."""
    answer = httpx.post(shared.url + path, json={"token": KEY, "distinct_id": "u"}, headers={"origin": "http://x"})
    told = answer.json()
    assert (answer.status_code, told["errorsWhileComputingFlags"]) == (200, False)
    assert (told["flags"] if path.endswith("v=2") else told["featureFlags"]) == {}
    assert answer.headers["access-control-allow-origin"] == "http://x"
