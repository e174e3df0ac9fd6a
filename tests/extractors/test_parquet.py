"""Parquet and ORC: each type by the one table, row groups streamed, values beyond JSON rejected, damage named."""

from __future__ import annotations

import decimal
import gzip
import io
import json
import math
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import Raw
from pyarrow import orc

from pipeline import extractors
from pipeline.errors import UnreadableExport
from pipeline.extractors.parquet_values import ColumnReader
from pipeline.models import BrokenRow, Part
from pipeline.values import canonical
from tests.support import parts
from tests.support.containers import zipped
from tests.support.parts import all_rows, opened, values

D = decimal.Decimal


def part_of(path: Path, table: pa.Table, **options: Any) -> Part:
    pq.write_table(table, path, **options)
    return opened(path)


def nested_lists(levels: int) -> pa.Array:
    kind, value = pa.int64(), 1
    for _ in range(levels):
        kind, value = pa.list_(kind), [value]
    return pa.array([value], kind)


TABLE: dict[str, tuple[pa.Array, list[Any]]] = {
    "bool": (pa.array([True, None, False]), [True, None, False]),
    "int64": (pa.array([2**63 - 1, None, -(2**63)]), [2**63 - 1, None, -(2**63)]),
    "uint64": (pa.array([2**64 - 1, None], pa.uint64()), [2**64 - 1, None]),
    "int8": (pa.array([-128, None], pa.int8()), [-128, None]),
    "double": (pa.array([0.1, -0.0, 1e300, None]), [0.1, -0.0, 1e300, None]),
    "float": (pa.array([0.1, 3.14, -0.0, 1e20, None], pa.float32()), [0.1, 3.14, -0.0, 1e20, None]),
    "half float": (pa.array([0.5, 3.14, math.nan, None], pa.float16()), [0.5, 3.14, None, None]),
    "infinity": (pa.array([math.inf, 1.0, -math.inf]), [None, 1.0, None]),
    "string": (pa.array(["é\u2028", "", None]), ["é\u2028", "", None]),
    "string that is not UTF-8": (pa.array([b"a", b"\xff"]).view(pa.string()), ["a", "bad_utf8"]),
    "large string": (pa.array(["a", None], pa.large_string()), ["a", None]),
    "dictionary": (pa.array(["a", "b", None, "a"]).dictionary_encode(), ["a", "b", None, "a"]),
    "decimal": (
        pa.array([D("1.10"), D("-12345678901234567890.12"), None, D(0)], pa.decimal128(38, 2)),
        [("json", "1.10"), ("json", "-12345678901234567890.12"), None, ("json", "0.00")],
    ),
    "small decimal": (
        pa.array([D("0.0000000001"), D(0)], pa.decimal128(20, 10)),
        [("json", "0.0000000001"), ("json", "0.0000000000")],
    ),
    "large decimal": (pa.array([D(10) ** 60], pa.decimal256(76, 0)), [("json", "1" + "0" * 60)]),
    "timestamp ms": (
        pa.array([0, -1, None], pa.timestamp("ms")),
        ["1970-01-01T00:00:00.000", "1969-12-31T23:59:59.999", None],
    ),
    "timestamp us in a zone": (
        pa.array([1_710_055_800_123_456, None], pa.timestamp("us", "America/New_York")),
        ["2024-03-10T07:30:00.123456Z", None],
    ),
    "timestamp ns": (pa.array([1, None], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001", None]),
    "timestamp ns in UTC": (pa.array([1], pa.timestamp("ns", "UTC")), ["1970-01-01T00:00:00.000000001Z"]),
    "timestamps at the ends of years": (
        pa.array(
            [-62_135_596_800_000, 253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_001], pa.timestamp("ms")
        ),
        ["0001-01-01T00:00:00.000", "9999-12-31T23:59:59.999", "bad_value", "bad_value"],
    ),
    "date": (pa.array([0, 19_792, None], pa.date32()), ["1970-01-01", "2024-03-10", None]),
    "timestamps beyond year 9999 and none, in a zone": (
        pa.array([None, 2**62, 0, -(2**62), None], pa.timestamp("us", "UTC")),
        [None, "bad_value", "1970-01-01T00:00:00.000000Z", "bad_value", None],
    ),
    "years beyond 9999 alone": (pa.array([2**50, None], pa.timestamp("s")), ["bad_value", None]),
    "years beyond 9999 inside": (
        pa.array([[0], [2**50, None], None], pa.list_(pa.timestamp("s"))),
        [("json", '["1970-01-01T00:00:00.000"]'), "bad_value", None],
    ),
    "date beyond year 9999": (pa.array([2_932_897, 2_932_896], pa.date32()), ["bad_value", "9999-12-31"]),
    "time ms": (pa.array([1, None], pa.time32("ms")), ["00:00:00.001", None]),
    "time us": (pa.array([86_399_999_999], pa.time64("us")), ["23:59:59.999999"]),
    "time outside a day": (
        pa.array([-1, 86_399_999, None, 86_400_000], pa.time32("ms")),
        ["bad_value", "23:59:59.999", None, "bad_value"],
    ),
    "time ns outside a day": (pa.array([2**62, 1], pa.time64("ns")), ["bad_value", "00:00:00.000000001"]),
    "duration": (pa.array([5, None], pa.duration("us")), [5, None]),
    "binary": (pa.array(["é".encode(), b"", None, b"\xff"]), ["é", "", None, "bad_utf8"]),
    "binary view": (pa.array(["é".encode(), None, b"\xff"], pa.binary_view()), ["é", None, "bad_utf8"]),
    "string view": (pa.array(["é", None], pa.string_view()), ["é", None]),
    "uuid": (pa.array([bytes(range(16)), None], pa.binary(16)), ["00010203-0405-0607-0809-0a0b0c0d0e0f", None]),
    "fixed-size binary": (pa.array([b"\x00\xff", None], pa.binary(2)), ["00ff", None]),
    "null": (pa.array([None, None]), [None, None]),
    "list": (pa.array([[1, None], [], None]), [("json", "[1,null]"), ("json", "[]"), None]),
    "list view": (
        pa.ListViewArray.from_arrays(
            pa.array([2, 0, 0], pa.int32()), pa.array([1, 2, 0], pa.int32()), pa.array([1, 2, 3])
        ),
        [("json", "[3]"), ("json", "[1,2]"), ("json", "[]")],
    ),
    "large list view": (
        pa.array([["a"], None, ["b"]], pa.large_list_view(pa.string())),
        [("json", '["a"]'), None, ("json", '["b"]')],
    ),
    "struct": (
        pa.array([{"b": 1, "a": None}, None], pa.struct([("b", pa.int64()), ("a", pa.string())])),
        [("json", '{"b":1,"a":null}'), None],
    ),
    "map": (
        pa.array([[("k", 1), ("l", None)], [], None], pa.map_(pa.string(), pa.int64())),
        [("json", '{"k":1,"l":null}'), ("json", "{}"), None],
    ),
    "map with numbers as keys": (pa.array([[(5, True)]], pa.map_(pa.int32(), pa.bool_())), [("json", '{"5":true}')]),
    "list of structs of decimals and times": (
        pa.array(
            [[{"d": D("1.10"), "t": 0}], None, [{"d": None, "t": None}, None]],
            pa.list_(pa.struct([("d", pa.decimal128(5, 2)), ("t", pa.timestamp("us", "UTC"))])),
        ),
        [("json", '[{"d":1.10,"t":"1970-01-01T00:00:00.000000Z"}]'), None, ("json", '[{"d":null,"t":null},null]')],
    ),
    "map of lists": (
        pa.array([[("k", ["a", None])], [("k", None), ("l", [])]], pa.map_(pa.string(), pa.list_(pa.string()))),
        [("json", '{"k":["a",null]}'), ("json", '{"k":null,"l":[]}')],
    ),
    "twenty levels": (nested_lists(20), [("json", "[" * 20 + "1" + "]" * 20)]),
    "infinity inside": (pa.array([[1.0], [math.inf], [2.0]]), [("json", f"[{one}]") for one in ("1.0", "null", "2.0")]),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_type_becomes_its_value(tmp_path: Path, name: str) -> None:
    """Each type follows the table of `pipeline.extractors.parquet_values`, exactly."""
    column, expected = TABLE[name]
    found = values(part_of(tmp_path / "a", pa.table({"x": column})))
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


LEAVES_PANDAS_OUT = """
import sys
from pipeline import extractors
source = extractors.open_source(sys.argv[1:])
count = sum(1 for part in source.parts for block in extractors.blocks(part) for row in extractors.rows(part, block))
print(count, "pandas" in sys.modules)
"""


def test_reading_leaves_pandas_out(tmp_path: Path) -> None:
    """Arrow imports pandas to make numpy arrays, and for Python values: 25 MB and half a second per process."""
    for number, (column, _) in enumerate(TABLE.values()):
        pq.write_table(pa.table({"x": column}), tmp_path / str(number))
    count = sum(len(column) for column, _ in TABLE.values())
    command = [sys.executable, "-c", LEAVES_PANDAS_OUT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{count} False\n"


def test_values_beyond_json_are_warned_of(tmp_path: Path) -> None:
    """NaN is not a JSON number and is read as absent; an object has each key once, and the last value wins. The warning
    names row and column."""
    keys = pa.array([[("a", 1)], [("k", 1), ("k", 2)], []], pa.map_(pa.string(), pa.int64()))
    twice = pa.StructArray.from_arrays([[1, 2, 3], [4, 5, 6]], names=["k", "k"], mask=pa.array([True, False, True]))
    table = pa.table({"x": [1.0, math.nan, None], "y": [[1.0], [2.0, 3.0], [math.nan, 4.0]], "z": keys, "w": twice})
    (rows,) = all_rows(part_of(tmp_path / "a", table))
    records = [row for row in rows if not isinstance(row, BrokenRow)]
    assert [row["x"] for row in records] == [1.0, None, None]
    assert (records[2]["y"], records[1]["z"]) == (Raw(b"[null,4.0]"), Raw(b'{"k":2}'))
    told = [(row, code, detail[0]) for row, code, detail in rows.warnings]
    assert told == [(1, "duplicate_key", "w"), (1, "duplicate_key", "z"), (1, "nan_value", "x"), (2, "nan_value", "y")]


def test_blocks_are_rows_of_one_row_group(tmp_path: Path) -> None:
    """A block has at most this many rows of one row group; offsets count rows of the part."""
    part = part_of(tmp_path / "a", pa.table({"x": list(range(25))}), row_group_size=10)
    blocks = list(extractors.blocks(part, block_rows=4))
    assert [block.index for block in blocks] == list(range(8))
    places = [(block.offset, block.length) for block in blocks]
    assert places == [(0, 4), (4, 4), (8, 2), (10, 4), (14, 4), (18, 2), (20, 4), (24, 1)]
    found = [row["x"] for block in blocks for row in extractors.rows(part, block) if not isinstance(row, BrokenRow)]
    assert found == list(range(25))
    assert extractors.rows(part, blocks[3]).offset(2) == 12


def test_a_damaged_page_is_reported(tmp_path: Path) -> None:
    """Damage in the middle of a file is an unreadable export, also halfway."""
    table = pa.table({"x": [str(n) * 50 for n in range(2000)]})
    part = part_of(tmp_path / "a", table, compression="gzip", use_dictionary=False)
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(whole[:200] + bytes(byte ^ 0xFF for byte in whole[200:260]) + whole[260:])
    with pytest.raises(UnreadableExport, match="not a whole Parquet file"):
        list(extractors.blocks(part))


def test_columns_of_one_name_are_renamed(tmp_path: Path) -> None:
    """A second column with the same name is read under another one, with a notice."""
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    pq.write_table(table, tmp_path / "a")
    source = extractors.open_source([str(tmp_path / "a")])
    assert [note.code for note in source.notes] == ["duplicate_column"]
    assert [row for rows in all_rows(source.parts[0]) for row in rows] == [{"x": 1, "x__2": 2}]


def test_the_names_of_columns_need_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting names does not convert the columns, even if rows are Members."""
    (rows,) = all_rows(part_of(tmp_path / "a", pa.table({"b": ["1"], "a": [2]})))
    monkeypatch.setattr(ColumnReader, "values", lambda *given: 1 / 0)
    assert rows.columns == ("b", "a")


def test_a_row_as_json_and_as_content(tmp_path: Path) -> None:
    """A reject shows the row as JSON; its content does not change when the record is changed."""
    table = pa.table({"b": pa.array([D("1.10"), None], pa.decimal128(5, 2)), "a": ["x", "y"]})
    (rows,) = all_rows(part_of(tmp_path / "a", table))
    for row in rows:
        assert not isinstance(row, BrokenRow)
        row.clear()
    assert rows.text(0) == '{"b":1.10,"a":"x"}'
    assert json.loads(rows.text(1)) == {"b": None, "a": "y"}
    assert rows.canonical(0) == canonical({"a": "x", "b": Raw(b"1.10")})


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[9.0], [1.0, math.nan], None, [2.0]]),
        pa.array([{"a": 9.0}, {"a": math.nan}, None, {"a": 2.0}]),
        pa.array([[("k", 9.0)], [("k", math.nan)], None, []], pa.map_(pa.string(), pa.float64())),
        pa.array([[9.0], [math.nan], None, [2.0]], pa.list_(pa.float64(), 1)),
        pa.array([9.0, math.nan, None, 2.0]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_slice_of_a_column_is_its_rows(column: pa.Array) -> None:
    """A column that does not begin at the start of its buffers gives its own rows, warnings included."""
    whole, part = ColumnReader(), ColumnReader()
    assert part.values("x", column.slice(1, 3)) == whole.values("x", column)[1:]
    assert [(row + 1, code, said) for row, code, said in part.warnings] == whole.warnings != []


OF_ORC = pa.table(
    {
        "id": list(range(100)),
        "s": [f"é{number % 7}" if number % 3 else None for number in range(100)],
        "t": pa.array(range(100), pa.timestamp("ns")),
        "d": pa.array([D("1.10")] * 100, pa.decimal128(10, 2)),
        "l": [[number] * (number % 3) for number in range(100)],
        "st": pa.array([{"a": at, "b": None} for at in range(100)], pa.struct([("a", pa.int64()), ("b", pa.string())])),
    }
)


FORMATS = {"Parquet": pq.write_table, "ORC": orc.write_table}


def texts(part: Part) -> list[str]:
    found: list[str] = []
    for rows in all_rows(part, block_rows=30):
        assert rows.offset(0) == len(found)
        found += [rows.text(number) for number, _ in enumerate(rows)]
    return found


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zipped])
@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_those_of_parquet(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    """Values, order and numbers; in a container too."""
    FORMATS[name](OF_ORC, tmp_path / "a", compression="zstd")
    expected = texts(part_of(tmp_path / "b", OF_ORC))
    assert len(expected) == 100
    part = parts.part_of(tmp_path / "c", pack((tmp_path / "a").read_bytes()))
    assert (part.format, part.codecs) == (name.lower(), {gzip.compress: ("gzip",), zipped: ("zip",)}.get(pack, ()))
    assert texts(part) == expected


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_cut_is_named(tmp_path: Path, name: str) -> None:
    """Its footer is at its end."""
    FORMATS[name](OF_ORC, tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    for cut in [*range(4, len(whole), 37), len(whole) - 20]:
        (tmp_path / "b").write_bytes(whole[:cut])
        with pytest.raises(UnreadableExport, match=f"b is not a whole {name} file"):
            texts(opened(tmp_path / "b"))


COUNT = 40

PLAIN = pa.table({"id": list(range(COUNT)), "s": [f"s{number % 7}" for number in range(COUNT)]})
NESTED = pa.table(
    {
        "id": list(range(COUNT)),
        "t": pa.array(range(COUNT), pa.timestamp("us", "America/New_York")),
        "l": [[number] * (number % 3) for number in range(COUNT)],
        "m": pa.array([[("k", number)] for number in range(COUNT)], pa.map_(pa.string(), pa.int64())),
        "st": [{"a": number, "b": None} for number in range(COUNT)],
        "d": pa.array([decimal.Decimal("1.10")] * COUNT, pa.decimal128(10, 2)),
        "c": pa.array([f"s{number % 3}" for number in range(COUNT)]).dictionary_encode(),
        "u": pa.array([bytes(range(16))] * COUNT, pa.binary(16)),
    }
)
FILES: dict[str, tuple[pa.Table, dict[str, Any]]] = {
    "uncompressed": (PLAIN, {"compression": "none"}),
    "with indexes": (PLAIN, {"write_page_index": True}),
    "second version": (PLAIN, {"compression": "gzip", "data_page_version": "2.0", "store_schema": False}),
    "nested": (NESTED, {"compression": "zstd"}),
    "nested, without its Arrow schema": (NESTED, {"store_schema": False}),
}


def written(name: str) -> bytes:
    table, options = FILES[name]
    return parquet(table, row_group_size=12, **options)


def footer_of(whole: bytes) -> int:
    """The offset of the footer."""
    return len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")


def ids(path: Path) -> list[str]:
    blocks = all_rows(opened(path), block_rows=5)
    return [rows.text(number).split(",")[0] for rows in blocks for number, _ in enumerate(rows)]


RIGHT = [f'{{"id":{number}' for number in range(COUNT)]


def check(name: str, path: Path, seed: int, count: int) -> None:
    whole = written(name)
    chance = random.Random(seed)
    for _ in range(count):
        at, flip = chance.randrange(footer_of(whole), len(whole)), chance.randrange(1, 256)
        path.write_bytes(bytes([*whole[:at], whole[at] ^ flip, *whole[at + 1 :]]))
        try:
            found = ids(path)
        except UnreadableExport as error:
            found = RIGHT if error.path == path.name and error.hint else []
        assert found == RIGHT, f"{name}, byte {at} ^ {flip}"


@pytest.mark.parametrize("name", FILES)
def test_one_damaged_byte_of_a_footer_loses_no_row(tmp_path: Path, name: str) -> None:
    """Every row is read, or the file is named as damaged; nothing else is raised. `make soak` tries it more often. A
    whole file has no contradiction: page indexes are between the columns and the footer; an empty table has no page."""
    check(name, tmp_path / "a.parquet", 2, 70)
    (tmp_path / "a.parquet").write_bytes(written(name))
    assert ids(tmp_path / "a.parquet") == RIGHT
    pq.write_table(FILES[name][0].slice(0, 0), tmp_path / "b.parquet", **FILES[name][1])
    assert ids(tmp_path / "b.parquet") == []


def parquet(table: pa.Table, **options: Any) -> bytes:
    target = io.BytesIO()
    pq.write_table(table, target, **options)
    return target.getvalue()


def damages() -> dict[str, tuple[bytes, str]]:
    """Damaged files, and the message for each."""
    whole = written("uncompressed")
    checked = parquet(PLAIN, compression="none", use_dictionary=False, write_page_checksum=True)
    footer, at = footer_of(whole), checked.index(b"s5")
    name, length = whole.index(b"id", footer), len(whole) - 8 - footer
    first, second = (parquet(PLAIN.slice(0, rows), row_group_size=12) for rows in (24, 36))
    end = footer_of(first)
    assert second.startswith(first[:end])
    return {
        "a name that is not UTF-8": (whole[:name] + b"\xff\xff" + whole[name + 2 :], "can't decode"),
        # Every event would lack that property.
        "two names of a column": (whole[:name] + b"ie" + whole[name + 2 :], "column 'ie', row group 1 'id'"),
        # The footer agrees with itself, but lacks a row group that is in the file.
        "a lost row group": (
            second[: footer_of(second)] + first[end:], f"no column for the page at byte {end:,}",
        ),
        "a footer that is too long": (
            whole[:-8] + b"more" + (length + 4).to_bytes(4, "little") + b"PAR1",
            f"its footer has {length + 4:,} bytes but ends after {length:,}",
        ),
        "a page with a checksum": (checked[:at] + b"t" + checked[at + 1 :], ""),
    }  # fmt: skip


def test_damage_is_named(tmp_path: Path) -> None:
    """The message names what contradicts it: a writer's checksums, the names, the length of the footer, the pages of
    the file."""
    for what, (content, cause) in damages().items():
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(UnreadableExport, match=f"a.parquet is not a whole Parquet file: .*{cause}") as raised:
            ids(tmp_path / "a.parquet")
        assert raised.value.path == "a.parquet", what


def test_row_groups_that_a_footer_lost_are_missed(tmp_path: Path) -> None:
    """The message has the rows of the file and those of its row groups separately."""
    whole = written("uncompressed")
    found = set()
    for at in range(footer_of(whole), footer_of(whole) + 60):  # the schema, then the number of rows
        (tmp_path / "a.parquet").write_bytes(bytes([*whole[:at], whole[at] ^ 32, *whole[at + 1 :]]))
        try:
            assert ids(tmp_path / "a.parquet") == RIGHT
        except UnreadableExport as error:
            found.add(error.message.rpartition(": ")[2])
    assert "its footer states 56 rows, but 40 in its row groups" in found
