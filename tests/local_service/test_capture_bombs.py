"""Small requests that unpack into very much: they are turned away before they are taken apart."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import msgspec
import pytest

from pipeline.local_service.capture.decoding import RequestRefused
from pipeline.local_service.capture.parsing import DEEPEST, depth, parse_body

NOTHING = b"{}," * 8_000_000 + b"{}"
BOMBS = {
    "a list of nothing": b"[" + NOTHING + b"]",
    "a batch of nothing": b'{"api_key": "k", "batch": [' + NOTHING + b"]}",
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS.keys())
def test_millions_of_nothings_take_no_memory(body: bytes) -> None:
    """No object is made of any of them."""
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
    """Size alone is no fault."""
    event = {"event": "e", "properties": {"distinct_id": "u", "text": "x" * 1_000_000}}
    parsed = parse_body(msgspec.json.encode({"api_key": "k", "batch": [event] * 18}))
    assert [parsed_event.event.event for parsed_event in parsed.events] == ["e"] * 18


def test_depth_is_that_of_the_deepest_place() -> None:
    """Whatever stands beside it, brackets inside texts too; above the limit it is not counted on."""
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
