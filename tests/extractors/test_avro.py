"""Avro: the values of the Parquet reader, blocks of the file's own, and damage that loses no row."""

from __future__ import annotations

import csv
import decimal
import io
import json
import math
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import extractors
from pipeline.errors import UnreadableExport
from pipeline.models import BrokenRow
from tests.support.parts import all_rows, opened, part_of, values
from tests.support.planned_events import planned_events

D = decimal.Decimal
CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")
ID = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}]}


SYNC = b"s" * 16


def written(schema: Any, records: Sequence[Any], codec: str = "null", **options: Any) -> bytes:
    target = io.BytesIO()
    if codec == "zstandard":  # the library writes it with another package than the one that is installed
        return zstandard_file(schema, records)
    fastavro.writer(target, schema, records, codec=codec, **options)
    return target.getvalue()


def zstandard_file(schema: Any, records: Sequence[Any]) -> bytes:
    """The file that the library would write without a codec, with its blocks compressed."""
    import zstandard

    content = written(schema, [], sync_marker=SYNC).replace(b"\x08null", b"\x12zstandard")
    for block in fastavro.block_reader(io.BytesIO(written(schema, records, sync_marker=SYNC))):
        data = zstandard.compress(block.bytes_.getvalue())
        content += long(block.num_records) + long(len(data)) + data + SYNC
    return content


def long(number: int) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, "long", number)
    return target.getvalue()


def of(kind: Any) -> dict[str, Any]:
    """The schema of rows with a column of this type."""
    return {"type": "record", "name": "row", "fields": [{"name": "x", "type": kind}]}


def logical(kind: Any, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def nullable(kind: Any) -> list[Any]:
    return ["null", kind]


class Integer(int):
    """Written as this integer, whatever the logical type."""


INNER = {"type": "record", "name": "inner", "fields": [{"name": "b", "type": "long"}, {"name": "a", "type": "float"}]}
TWINS: dict[str, tuple[Any, pa.DataType, list[Any]]] = {
    "boolean": (nullable("boolean"), pa.bool_(), [True, None, False]),
    "int": (nullable("int"), pa.int32(), [2**31 - 1, None, -(2**31)]),
    "long": (nullable("long"), pa.int64(), [2**63 - 1, None, -(2**63)]),
    "double": (nullable("double"), pa.float64(), [0.1, -0.0, 1e300, None, math.nan, math.inf]),
    "float": (
        nullable("float"),
        pa.float32(),
        [0.5, -2.0, None, math.nan, -math.inf, 3.14, -0.0, math.pi, 2.0**24, 2.0**-88, 3.4028234663852886e38, 1e-45],
    ),
    "string": (nullable("string"), pa.string(), ["é\u2028", "", None]),
    "decimal": (
        nullable(logical("bytes", "decimal", precision=30, scale=2)),
        pa.decimal128(30, 2),
        [D("1.10"), D("-1234567890123456789012.12"), None, D(0)],
    ),
    "fixed decimal": (
        {"type": "fixed", "name": "f", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 10},
        pa.decimal128(18, 10),
        [D("0.0000000001"), D("-0.5000000000")],
    ),
    "whole decimal": (logical("bytes", "decimal", precision=20), pa.decimal128(20, 0), [D(10) ** 19, D(-3)]),
    "timestamp ms": (nullable(logical("long", "timestamp-millis")), pa.timestamp("ms", "UTC"), [0, -1, None, 2**50]),
    "timestamp us": (logical("long", "timestamp-micros"), pa.timestamp("us", "UTC"), [1_710_055_800_123_456, -1]),
    "timestamp ns": (logical("long", "timestamp-nanos"), pa.timestamp("ns", "UTC"), [1, -1, 2**62]),
    "local timestamp": (logical("long", "local-timestamp-micros"), pa.timestamp("us"), [1_710_055_800_123_456, 0]),
    "timestamp beyond the year 9999": (
        logical("long", "timestamp-millis"),
        pa.timestamp("ms", "UTC"),
        [253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_000, -62_135_596_800_001, 2**63 - 1],
    ),
    "date": (nullable(logical("int", "date")), pa.date32(), [0, 19_792, None, -719_162, -719_163, 2_932_897]),
    "time ms": (logical("int", "time-millis"), pa.time32("ms"), [1, 86_399_999, 86_400_000, -1]),
    "time us": (logical("long", "time-micros"), pa.time64("us"), [0, 86_399_999_999]),
    "bytes": (nullable("bytes"), pa.binary(), ["é".encode(), b"", None, b"\xff"]),
    "uuid": ({"type": "fixed", "name": "u", "size": 16}, pa.binary(16), [bytes(range(16))]),
    "fixed": ({"type": "fixed", "name": "g", "size": 2}, pa.binary(2), [b"\x00\xff"]),
    "array": (nullable({"type": "array", "items": nullable("long")}), pa.list_(pa.int64()), [[1, None], [], None]),
    "record": (
        nullable(INNER),
        pa.struct([("b", pa.int64()), ("a", pa.float32())]),
        [{"b": 1, "a": 3.14}, None, {"b": 2, "a": math.nan}, {"b": 3, "a": math.inf}],
    ),
    "map": (
        {"type": "map", "values": nullable("bytes")},
        pa.map_(pa.string(), pa.binary()),
        [{"k": b"1", "l": None}, {}, {"k": b"\xff"}],
    ),
    "array of times": (
        {"type": "array", "items": logical("long", "timestamp-micros")},
        pa.list_(pa.timestamp("us", "UTC")),
        [[0, 1], [2**62]],
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_value_is_that_of_its_parquet_twin(tmp_path: Path, name: str) -> None:
    """Value, reject and warning are those of a Parquet column of the same meaning."""
    kind, column, data = TWINS[name]
    integers = [Integer(value) if type(value) is int else value for value in data]
    if name == "array of times":
        integers = [[Integer(value) for value in items] for items in data]
    pairs = [list(value.items()) if isinstance(value, dict) and pa.types.is_map(column) else value for value in data]
    pq.write_table(pa.table({"x": pa.array(pairs, column)}), tmp_path / "a.parquet")
    content, found = written(of(kind), [{"x": value} for value in integers]), []
    for part in (part_of(tmp_path / "a.avro", content), opened(tmp_path / "a.parquet")):
        (rows,) = all_rows(part)
        found.append((values(part), [row for row in rows if isinstance(row, BrokenRow)], rows.warnings))
    assert found[0] == found[1]


def nested(levels: int) -> dict[str, Any]:
    return {"next": nested(levels - 1) if levels else None}


SOME = uuid.UUID(int=7)
FLOATS = [math.pi, 3.14, 0.1, 16777216.0, 3.4028234663852886e38, 1.1754943508222875e-38]
MIXED = ["null", "long", "string", "float", {"type": "map", "values": "bytes"}]
NODE = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("float", FLOATS, [3.1415927, 3.14, 0.1, 16777216.0, 3.4028235e38, 1.1754944e-38]),
        ({"type": "array", "items": "float"}, [[3.14]], [("json", "[3.14]")]),
        (logical("string", "uuid"), [SOME], [str(SOME)]),
        ({"type": "enum", "name": "e", "symbols": ["web", "ios"]}, ["ios"], ["ios"]),
        (MIXED, [None, 7, "é", 0.1, {"k": b"v"}], [None, 7, "é", 0.1, ("json", '{"k":"v"}')]),
        (logical("long", "date"), [5], [5]),
        (logical("string", "timestamp-millis"), ["a"], ["a"]),
        (logical("long", "moons"), [5], [5]),
        (NODE, [nested(2), nested(70)], [("json", '{"next":{"next":{"next":null}}}'), "too_deep"]),
    ],
)
def test_a_type_becomes_its_value(tmp_path: Path, kind: Any, data: list[Any], expected: list[Any]) -> None:
    """A price of 3.14 in 32 bits is 3.14, also inside a record; a union has the value of its branch; a logical type
    that the specification does not allow is ignored; a record that is nested more deeply than an event may be is
    rejected."""
    assert values(part_of(tmp_path / "a.avro", written(of(kind), [{"x": value} for value in data]))) == expected


def test_a_string_that_is_not_utf8_rejects_its_row(tmp_path: Path) -> None:
    """Only its row is rejected, and the position is named; in a list too."""
    content = written(ID, [{"id": 1, "s": "good"}, {"id": 2, "s": "b@d"}, {"id": 3, "s": "é"}])
    (rows,) = all_rows(part_of(tmp_path / "a.avro", content.replace(b"b@d", b"b\xffd")))
    first, second, third = rows
    assert second == BrokenRow("bad_utf8", "s: byte 1 is not UTF-8")
    assert (first, third) == ({"id": 1, "s": "good"}, {"id": 3, "s": "é"})
    assert json.loads(rows.text(1)) == {"id": 2, "s": "b\\xffd"}
    listed = written(of({"type": "array", "items": "string"}), [{"x": ["b@d"]}, {"x": []}])
    assert values(part_of(tmp_path / "b.avro", listed.replace(b"b@d", b"b\xffd"))) == ["bad_utf8", ("json", "[]")]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_gives_the_same_rows(tmp_path: Path, codec: str) -> None:
    """Blocks of the file are collected until they have the rows of a block; offsets are row numbers."""
    records = [{"id": number, "s": f"s{number % 7}"} for number in range(100)]
    part = part_of(tmp_path / "a.avro", written(ID, records, codec, sync_interval=40))
    assert (part.format, extractors.describe(part)) == ("avro", "Avro")
    blocks = list(extractors.blocks(part, block_rows=30))
    assert [row for block in blocks for row in extractors.rows(part, block)] == records
    if codec != "zstandard":
        assert len(blocks) > 2
    assert [block.offset for block in blocks] == [sum(b.length for b in blocks[:at]) for at in range(len(blocks))]
    rows = extractors.rows(part, blocks[-1])
    assert rows.columns == ("id", "s")
    assert rows.text(0) == json.dumps(records[blocks[-1].offset], separators=(",", ":"))
    assert rows.canonical(0) == rows.text(0).encode()
    assert rows.offset(0) == blocks[-1].offset


def test_a_file_without_rows_has_no_block(tmp_path: Path) -> None:
    """A header alone is a whole file, and blocks of no rows are allowed."""
    content = written(ID, [], sync_marker=SYNC)
    assert all_rows(part_of(tmp_path / "a.avro", content)) == []
    assert all_rows(part_of(tmp_path / "b.avro", content + b"\x00\x00" + SYNC)) == []


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_cut_at_any_byte_is_named(tmp_path: Path, codec: str) -> None:
    """Except between two blocks, where nothing shows that more should follow."""
    content = written(ID, [{"id": number, "s": "x" * 9} for number in range(9)], codec, sync_interval=30)
    blocks = fastavro.block_reader(io.BytesIO(content)) if codec != "zstandard" else ()
    ends = [0, _header_length(content), *(block.offset + block.size for block in blocks)]
    named = set()
    for cut in range(5, len(content)):
        path = tmp_path / "a.avro"
        path.write_bytes(content[:cut])
        try:
            parts = extractors.open_source([str(path)]).parts
            found = [row for part in parts for rows in all_rows(part) for row in rows]
        except UnreadableExport as error:
            named.add((error.path, bool(error.hint)))
        else:
            assert cut in ends, cut
            assert all(not isinstance(row, BrokenRow) for row in found)
    assert named == {("a.avro", True)}


def _header_length(content: bytes) -> int:
    return content.index(content[-16:]) + 16


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_byte_of_a_block_loses_no_row(tmp_path: Path, codec: str) -> None:
    """With a checksum it is found, no other row is read from its block, and the error has the byte at which the block
    begins; without one a value may change, but each row is read, or the file is named as damaged."""
    records = [{"id": number, "s": f"{number}"} for number in range(40)]
    content = written(ID, records, codec)
    start = _header_length(content)
    checked, messages = codec not in ("null", "deflate", "zstandard"), set()  # a writer of Zstandard may add one
    for at in range(start + 3, len(content) - 16):
        damaged = bytes([*content[:at], content[at] ^ 4, *content[at + 1 :]])
        try:
            found = [row for rows in all_rows(part_of(tmp_path / "a.avro", damaged)) for row in rows]
        except UnreadableExport as error:
            messages.add(f"its block at byte {start:,} cannot be read" in str(error))
        else:
            assert found == records if checked else len(found) == 40
    assert messages <= {True}
    assert not checked or messages


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ((b"", b""), r"a\.avro is not a whole Avro file: .* byte"),  # two files that were joined
        ((b"\x08null", b"\x08rull"), "its codec 'rull' is unknown"),
        ((b'"record"', b'"recorb"'), "its rows are not records"),
        ((b'"long"', b'"bong"'), "bong"),
        ((b"avro.schema", b"avro.skhema"), "its header has no schema"),
    ],
)
def test_a_header_that_cannot_be_read_is_named(tmp_path: Path, change: tuple[bytes, bytes], cause: str) -> None:
    """Before any row is read, or with the first block."""
    content = written(ID, [{"id": 1, "s": "a"}])
    content = content.replace(*change) if change[0] else content * 2
    with pytest.raises(UnreadableExport, match=cause):
        [list(rows) for rows in all_rows(part_of(tmp_path / "a.avro", content))]


@pytest.mark.parametrize("flat", [True, False])
def test_the_same_rows_in_any_format_are_the_same_events(tmp_path: Path, flat: bool) -> None:
    """Avro, Parquet, ORC, a JSON document, JSON lines, and CSV if all values are strings, have one digest of events,
    including the uuids of keyless rows."""
    from pyarrow import orc

    from pipeline import plan_export
    from pipeline.options import PlanOptions

    names = ("name", "user", "at", "p")
    of_row = (lambda at: f'é, "{at}"\n') if flat else (lambda at: {"k": at, "v": [at, None]})
    rows = [(f"e{at % 3}", f"u{at % 5}", f"2023-01-02T03:04:{at:02}Z", of_row(at)) for at in range(50)]
    fields = [{"name": "k", "type": "long"}, {"name": "v", "type": {"type": "array", "items": nullable("long")}}]
    kinds_of = (*("string",) * 3, "string" if flat else {"type": "record", "name": "inner", "fields": fields})
    described = [{"name": name, "type": kind} for name, kind in zip(names, kinds_of, strict=True)]
    schema = {"type": "record", "name": "row", "fields": described}
    records = [dict(zip(names, row, strict=True)) for row in rows]
    table = pa.Table.from_pylist(records)
    folders = ("avro", "parquet", "orc", "json", "jsonl", *(["csv"] if flat else []))
    for folder in folders:
        (tmp_path / folder).mkdir()
    (tmp_path / "avro" / "x").write_bytes(written(schema, records, "snappy", sync_interval=100))
    pq.write_table(table, tmp_path / "parquet" / "x")
    orc.write_table(table, tmp_path / "orc" / "x")
    (tmp_path / "json" / "x").write_text(json.dumps({"total": 50, "events": records}, indent=2, ensure_ascii=False))
    (tmp_path / "jsonl" / "x").write_text(
        "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in records)
    )
    if flat:
        with (tmp_path / "csv" / "x").open("w", newline="") as file:
            csv.writer(file).writerows([names, *rows])
    found = []
    for folder in folders:
        columns = {"event": "name", "distinct_id": "user", "timestamp": "at"}
        options = PlanOptions(mapping="generic", settings=columns, workers=0, as_of=1_767_225_600_000_000)
        plan_export(str(tmp_path / folder), tmp_path / f"plan-{folder}", options)
        found.append(planned_events(tmp_path / f"plan-{folder}"))
    assert len(found[0]) == 50
    assert all(events == found[0] for events in found)
