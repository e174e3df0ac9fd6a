"""Rows of Avro blocks: those that the library decodes, or none where a value of the block is not ordinary."""

from __future__ import annotations

import io
import json
import random
import struct
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline.extractors.avro_values import Unreadable, described, row_schema
from pipeline.native import AVAILABLE, native

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")

encode = msgspec.json.Encoder().encode


def table_is_full() -> bool:
    """Whether other tests have left no room for new names."""
    return not isinstance(native.Header(blanks=True)({f"new {random.random()}": 1}), native.Members)


class Plain(int):
    """Written as the integer that it is, whatever the logical type."""


def logical(kind: Any, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def whole(low: int, high: int) -> st.SearchStrategy[Any]:
    return st.integers(low, high).map(Plain)


INTS, LONGS = whole(-(2**31), 2**31 - 1), whole(-(2**63), 2**63 - 1)
TIMES = LONGS | whole(-62_135_596_800_001, 253_402_300_800_000) | whole(-(10**6), 10**6)
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", INTS),
    ("long", LONGS),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    ("bytes", st.binary(max_size=3) | st.just(b"text")),
    (logical("int", "date"), INTS | whole(-719_164, -719_160) | whole(2_932_894, 2_932_898) | whole(0, 30_000)),
    (logical("int", "time-millis"), INTS | whole(0, 86_400_000)),
    (logical("long", "time-micros"), LONGS | whole(0, 86_400_000_000)),
    *((logical("long", f"{local}timestamp-millis"), TIMES) for local in ("", "local-")),
    *((logical("long", f"{local}timestamp-micros"), TIMES) for local in ("", "local-")),
    (logical("long", "timestamp-nanos"), TIMES),
    (logical("bytes", "decimal", precision=9, scale=2), st.binary(max_size=4)),
    (logical("string", "uuid"), st.just("a")),
]
NAMED = (
    (lambda name: {"type": "enum", "name": name, "symbols": ["web", "ios"]}, st.sampled_from(["web", "ios"])),
    (lambda name: {"type": "fixed", "name": name, "size": 16}, st.binary(min_size=16, max_size=16)),
    (lambda name: {"type": "fixed", "name": name, "size": 2}, st.binary(min_size=2, max_size=2)),
)


@st.composite
def kinds(draw: st.DrawFn, place: str) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema, and its values. `place` makes the names of types unique."""
    choice = draw(st.integers(0, 6 if place.count("_") < 4 else 1))
    if choice == 0:
        make, values = draw(st.sampled_from(NAMED))
        return make(place), values
    if choice <= 3:
        return draw(st.sampled_from(SCALARS))
    if choice == 4:
        inner = [draw(kinds(f"{place}_{at}")) for at in range(draw(st.integers(1, 3)))]
        fields = [{"name": f"f{at}", "type": ["null", kind] if at else kind}
                  for at, (kind, _) in enumerate(inner)]  # fmt: skip
        members = {f"f{at}": st.none() | values if at else values for at, (_, values) in enumerate(inner)}
        return {"type": "record", "name": place, "fields": fields}, st.fixed_dictionaries(members)
    kind, values = draw(kinds(f"{place}_0"))
    if choice == 5:
        return {"type": "array", "items": kind}, st.lists(values, max_size=3)
    return {"type": "map", "values": kind}, st.dictionaries(st.text("abé", max_size=3), values, max_size=3)


def decoder_of(schema: Any) -> tuple[Any, Any]:
    """The decoder of rows, and what the library reads a list of them with."""
    parsed = fastavro.parse_schema(row_schema(schema).schema)
    return (
        native.AvroDecoder(described(parsed) or (), Unreadable),
        fastavro.parse_schema({"type": "array", "items": parsed}),
    )


def by_library(items: Any, content: bytes, count: int) -> list[dict[str, Any]] | None:
    """The rows that the library reads, objects and lists as JSON; None where it cannot, or one is not ordinary."""
    start = io.BytesIO()
    fastavro.schemaless_writer(start, "long", count)
    stream = io.BytesIO(start.getvalue() + content + b"\0" * bool(count))
    try:
        rows: Any = fastavro.schemaless_reader(stream, items, None)
        ended = stream.tell() == len(stream.getvalue())
        for row in rows:
            encode(row)
            for name, value in row.items():
                row[name] = Raw(encode(value)) if type(value) in (dict, list) else value
    except Exception:
        return None
    return rows if ended and len(rows) == count else None


def shown(rows: Any) -> list[Any]:
    """Rows with the types of their values."""
    return [{name: (type(value), bytes(value) if type(value) is Raw else repr(value)) for name, value in row.items()}
            for row in rows]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_block_is_read_as_the_library_reads_it(data: st.DataObject) -> None:
    """Random rows of random schemas, and then with bytes that are damaged: the same rows, or no answer."""
    columns = [data.draw(kinds(f"r_{at}")) for at in range(data.draw(st.integers(1, 4)))]
    fields = [{"name": f"c{at}", "type": kind} for at, (kind, _) in enumerate(columns)]
    schema = {"type": "record", "name": "row", "fields": fields}
    row = st.fixed_dictionaries({f"c{at}": values for at, (_, values) in enumerate(columns)})
    records = data.draw(st.lists(row, max_size=4))
    decode, items = decoder_of(schema)
    target = io.BytesIO()
    plain = fastavro.parse_schema(json.loads(json.dumps(schema)))
    for record in records:
        fastavro.schemaless_writer(target, plain, record)
    content = target.getvalue()
    expected = by_library(items, content, len(records))
    found = decode(content, len(records), False)
    if expected is None:
        assert found is None
    else:
        assert shown(found) == shown(expected)
        members = decode(content, len(records), True)
        assert members is None or shown(one.as_dict() for one in members) == shown(
            {name: value for name, value in one.items() if value is not None} for one in expected
        )
        assert members is not None or table_is_full()
    for _ in range(8):
        damaged = bytearray(content)
        for _ in range(data.draw(st.integers(1, 2)) if content else 0):
            damaged[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        some = bytes(damaged[: data.draw(st.integers(0, len(damaged)))] if data.draw(st.booleans()) else damaged)
        found = decode(some, len(records), False)
        assert found is None or shown(found) == shown(by_library(items, some, len(records)) or ())


ROW = {"type": "record", "name": "row", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}


@example(b"\x80\x00\x02x")  # a number in more bytes than it needs
@example(b"\xff" * 9 + b"\x01\x02x")
@example(b"\xff" * 9 + b"\x02\x02x")  # 65 bits
@example(b"\xff" * 10 + b"\x00\x02x")
@given(st.binary(max_size=14))
def test_a_number_and_a_text_of_any_bytes(content: bytes) -> None:
    decode, items = decoder_of(ROW)
    found = decode(content, 1, False)
    assert found is None or shown(found) == shown(by_library(items, content, 1) or ())


def test_an_ordinary_block_is_not_left_to_the_library() -> None:
    """Values that columns repeat, with others between, are those of their rows; no other block is read."""
    decode, _ = decoder_of(ROW)
    texts = ["web", "web", "", "ios", "é", "web", "wet", "we"]
    rows = [{"a": at - 2**62, "b": text} for at, text in enumerate(texts)]
    target = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(target, fastavro.parse_schema(ROW), row)
    assert decode(target.getvalue(), len(rows), False) == rows
    assert table_is_full() or [row.as_dict() for row in decode(target.getvalue(), len(rows), True)] == rows
    assert decode(b"", 0, False) == []
    for wrong in ((bytearray(b"\0\0"), 1, True), (b"", "1", True), (b"", 1, 1), (b"",), (b"", 2**70, False)):
        with pytest.raises((TypeError, OverflowError)):
            decode(*wrong)
    listed = {"type": "record", "name": "row", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}
    decode, _ = decoder_of(listed)
    for count in (-1, 2**40, 2**62):  # more rows or items than bytes
        number = io.BytesIO()
        fastavro.schemaless_writer(number, "long", count)
        assert decode(b"\0" * 9, count, False) is None
        assert decode(number.getvalue() + b"\0", 1, False) is None


def test_a_schema_with_too_many_types_is_left_to_the_library() -> None:
    """Types that are named and used again and again, and such as are nested too deeply."""
    fields: list[Any] = [{"name": "a", "type": {"type": "record", "name": "t0", "fields": [
        {"name": "x", "type": "long"}]}}]  # fmt: skip
    for at in range(1, 20):
        twice = [{"name": name, "type": f"t{at - 1}"} for name in "xy"]
        fields.append({"name": f"b{at}", "type": {"type": "record", "name": f"t{at}", "fields": twice}})
    assert described(fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})) is None
    kind: Any = "long"
    for _ in range(70):
        kind = {"type": "array", "items": kind}
    deep = {"type": "record", "name": "row", "fields": [{"name": "a", "type": kind}]}
    assert described(fastavro.parse_schema(deep)) is None


DEEP: Any = ("long",)
for _ in range(70):
    DEEP = ("array", DEEP)


@pytest.mark.parametrize(
    "schema",
    [
        (), ("long",), ("moon",), (1,), ("record",), ("record", ["a"]), ("record", ("a",)), ("record", (1,), ("long",)),
        ("record", ("a", "a"), ("long",), ("long",)), ("record", ("a",), "long"), ("record", ("a",), ("array",)),
        ("record", ("a",), ("enum", "web")), ("record", ("a",), ("timestamp", 7, True)),
        ("record", ("a",), ("timestamp", 2**70, True)), ("record", ("a",), ("call", repr, 1)),
        ("record", ("a",), ("call", repr, 1, -2)), ("record", ("a",), ("call", repr, 1, 2**70)),
        ("record", ("a",), ("long", 1)), ("record", ("a",), DEEP), ("record", ("a",) * 5000, *[("long",)] * 5000),
        ("record", tuple(f"a{at}" for at in range(5000)), *[("long",)] * 5000),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_an_error(schema: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        native.AvroDecoder(schema, Unreadable)


def test_a_function_of_the_schema_may_raise_or_call_again() -> None:
    """Its error is the caller's, and what it decodes meanwhile changes nothing."""
    seen: list[Any] = []

    def again(value: float, known: Any) -> Any:
        if value < 0:
            raise LookupError("negative")
        if len(seen) < 3:
            seen.append(known)
            assert decode(b"\x02z" + struct.pack("<f", 1.0), 1, False) == [{"a": "z", "b": Raw(b"1")}]
        return Raw(b"1")

    decode = native.AvroDecoder(("record", ("a", "b"), ("text",), ("call", again, "known", ("float",))), Unreadable)
    content = b"\x02x" + struct.pack("<f", 0.5) + b"\x02x" + struct.pack("<f", 2.5)
    assert decode(content, 2, False) == [{"a": "x", "b": Raw(b"1")}] * 2
    assert seen == ["known"] * 3
    with pytest.raises(LookupError, match="negative"):
        decode(b"\x02x" + struct.pack("<f", -0.5), 1, False)


def test_any_bytes_of_any_schema_are_read_within_their_bounds() -> None:
    """For `make sanitize`, which sees a byte too many."""
    chance = random.Random(5)
    inner: Any = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "double", "string"]}]}
    kinds = [kind for kind, _ in SCALARS] + [make(f"n{at}") for at, (make, _) in enumerate(NAMED)] + [inner]
    for kind in kinds:
        named = kind["name"] if "name" in kind and isinstance(kind, dict) else kind
        listed = [{"type": "array", "items": named}, {"type": "map", "values": ["null", "long"]}]
        types = [kind, *listed, ["int", "string"]]
        fields = [{"name": f"c{at}", "type": one} for at, one in enumerate(types)]
        decode, _ = decoder_of({"type": "record", "name": "row", "fields": fields})
        for _ in range(300):
            content = chance.randbytes(chance.randrange(40)) if chance.random() < 0.3 else bytes(
                chance.choice((0, 0, 1, 2, 2, 3, 4, 8, 65, 255)) for _ in range(chance.randrange(40))
            )  # fmt: skip
            decode(content, chance.randrange(4), chance.random() < 0.5)
