"""The local service has the limits of the real one: for a body as sent, as decoded, and for one event as queued."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import uuid as uuids
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from pipeline.local_service import LocalService, Settings
from pipeline.local_service.capture.decoding import RequestRefused
from pipeline.local_service.capture.parsing import DEEPEST, depth, parse_body
from tests.support.capture_service import UUID, batch, event, make, post
from tests.support.management_service import ALL, LIST, Asking
from tests.support.plain_http import PLAIN

MIB = 1024 * 1024


def test_default_limits_are_the_services() -> None:
    """Those of docs/know/service.md#encodings-and-sizes."""
    limits = Settings()
    assert (limits.event_wire_limit, limits.batch_wire_limit, limits.decoded_limit) == (2 * MIB, 20 * MIB, 100 * MIB)
    assert limits.stored_event_limit == 1_000_000


def test_refuses_bodies_over_the_limits() -> None:
    """A body too large as sent, or once decoded, is 413; at the limit it is taken. The event routes have their own
    limits."""
    body = batch()
    with make(batch_wire_limit=len(body), decoded_limit=len(body), event_wire_limit=len(body) - 1) as service:
        assert post(service, body, "/batch").status_code == 200
        wire = post(service, body + b" ")
        assert (wire.status_code, wire.text.partition(": ")[0]) == (413, "maximum event size exceeded")
        packed = post(service, gzip.compress(body + b" "))
        said = f"Decompressed payload would exceed {len(body)} bytes (got {len(body) + 1} bytes)"
        assert (packed.status_code, packed.text) == (413, f"maximum event size exceeded: {said}")
        assert post(service, body, "/e").status_code == 413


def large(text: str) -> dict[str, Any]:
    return event(properties={"distinct_id": "u1", "text": text})


def test_an_event_is_measured_as_it_is_queued(service: LocalService) -> None:
    """Quotes count twice and more: an event well under 1,000,000 bytes as sent can exceed that once queued."""
    assert post(service, batch(large("x" * 990_000))).status_code == 200
    for text in ("x" * 1_000_000, '"' * 300_000):
        answer = post(service, batch(event(uuid=str(uuids.uuid4())), large(text)))
        assert answer.status_code == 413
        assert answer.text == "maximum event size exceeded: Event rejected by kafka during send"
    assert service.store.raw_count() == 1


def test_earlier_events_of_an_oversize_batch_may_be_kept() -> None:
    """With `oversize_event` set to this, events before the large one are stored although the answer is 413."""
    with make(oversize_event="keep_earlier") as service:
        body = batch(event(), large("x" * 1_000_000), event(uuid=str(uuids.uuid4())))
        assert post(service, body).status_code == 413
        assert [one.uuid for one in service.events()] == [UUID]


NOTHING = b"{}," * 8_000_000 + b"{}"


@pytest.mark.parametrize(
    "body", [b"[" + NOTHING + b"]", b'{"api_key": "k", "batch": [' + NOTHING + b"]}"], ids=["list", "batch"]
)
def test_millions_of_nothings_take_no_memory(body: bytes) -> None:
    """No object is made for any of them."""
    tracemalloc.start()
    try:
        with pytest.raises(RequestRefused) as refused:
            parse_body(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.status == 400
    assert peak < 4 * len(body)


def test_a_large_batch_of_real_events_is_taken() -> None:
    """A body is not refused for its size alone."""
    event = {"event": "e", "properties": {"distinct_id": "u", "text": "x" * 1_000_000}}
    parsed = parse_body(msgspec.json.encode({"api_key": "k", "batch": [event] * 18}))
    assert [parsed_event.event.event for parsed_event in parsed.events] == ["e"] * 18


def test_depth_is_that_of_the_deepest_place() -> None:
    """Whatever is next to it, and brackets inside strings too; above the limit counting stops."""
    chance = random.Random(7)

    def value(levels: int) -> tuple[Any, int]:
        if not levels:
            return chance.choice([0, "]}{[", '"\\', None]), 0
        inner = [value(chance.randrange(levels)) for _ in range(chance.randrange(3))] + [value(levels - 1)]
        chance.shuffle(inner)
        deep = 1 + max(found for _, found in inner)
        values = [one for one, _ in inner]
        return ({f"{{{at}": one for at, one in enumerate(values)} if chance.random() < 0.5 else values), deep

    for levels in range(9):
        for _ in range(50):
            made, deep = value(levels)
            assert depth(msgspec.json.encode(made)) == deep == levels
    for levels, found in ((DEEPEST, DEEPEST), (DEEPEST + 1, DEEPEST + 1), (DEEPEST + 400, DEEPEST + 1)):
        assert depth(b"[" * levels + b"]" * levels) == found


def posted(url: str, content: bytes | Iterator[bytes]) -> tuple[httpx.Response, int]:
    """The answer to a body, and the peak memory that it took."""
    headers = {"authorization": f"Bearer {ALL}", "content-type": "application/json"}
    tracemalloc.start()
    try:
        answer = httpx.post(url, content=content, headers=headers, timeout=60, **PLAIN)
        return answer, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", ["/flags/", "/batch/", "/e/", LIST, "/api/projects/1/query/", "/api/nowhere/"])
def test_a_body_over_its_limit_takes_no_memory(ask: Asking, path: str) -> None:
    """It is read to its end and discarded meanwhile."""
    answer, peak = posted(ask.service.url + path, (b"0" * MIB for _ in range(48)))
    assert answer.status_code in (200, 404, 413)
    assert peak < 30 * MIB


def test_checking_a_large_body_takes_little_memory(ask: Asking) -> None:
    """A list of half a million numbers is walked through, not copied."""
    body = b'{"name": [' + b"0," * 500_000 + b"0]}"
    answer, peak = posted(ask.service.url + LIST, body)
    assert (answer.status_code, answer.json()["attr"]) == (400, "name")
    assert peak < 16 * len(body)
