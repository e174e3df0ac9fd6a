"""Damaged Parquet files: what the footer states agrees with what is read, or the export cannot be read."""

from __future__ import annotations

import decimal
import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import UnreadableExport
from tests.support.parts import all_rows, opened

ROWS = 40

PLAIN = pa.table({"id": list(range(ROWS)), "s": [f"s{number % 7}" for number in range(ROWS)]})
NESTED = pa.table(
    {
        "id": list(range(ROWS)),
        "t": pa.array(range(ROWS), pa.timestamp("us", "America/New_York")),
        "l": [[number] * (number % 3) for number in range(ROWS)],
        "m": pa.array([[("k", number)] for number in range(ROWS)], pa.map_(pa.string(), pa.int64())),
        "st": [{"a": number, "b": None} for number in range(ROWS)],
        "d": pa.array([decimal.Decimal("1.10")] * ROWS, pa.decimal128(10, 2)),
        "c": pa.array([f"s{number % 3}" for number in range(ROWS)]).dictionary_encode(),
        "u": pa.array([bytes(range(16))] * ROWS, pa.binary(16)),
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
    """Where the footer begins."""
    return len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")


def ids(path: Path) -> list[str]:
    blocks = all_rows(opened(path), block_rows=5)
    return [rows.text(number).split(",")[0] for rows in blocks for number, _ in enumerate(rows)]


RIGHT = [f'{{"id":{number}' for number in range(ROWS)]


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
    whole file contradicts nothing: page indexes lie between the columns and the footer; an empty table has no page."""
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
    """Damaged files, and what is said of each."""
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
        # The footer agrees with itself, but leaves out a row group that lies in the file.
        "a lost row group": (
            second[: footer_of(second)] + first[end:], f"no column that has the page at byte {end:,}",
        ),
        "a footer that is too long": (
            whole[:-8] + b"more" + (length + 4).to_bytes(4, "little") + b"PAR1",
            f"its footer has {length + 4:,} bytes and ends after {length:,}",
        ),
        "a page with a checksum": (checked[:at] + b"t" + checked[at + 1 :], ""),
    }  # fmt: skip


def test_damage_is_named(tmp_path: Path) -> None:
    """With what contradicts it: a writer's checksums, the names, the length of the footer, the pages of the file."""
    for what, (content, cause) in damages().items():
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(UnreadableExport, match=f"a.parquet is not a whole Parquet file: .*{cause}") as raised:
            ids(tmp_path / "a.parquet")
        assert raised.value.path == "a.parquet", what


def test_row_groups_that_a_footer_lost_are_missed(tmp_path: Path) -> None:
    """The rows of the file and those of its row groups are stated apart."""
    whole = written("uncompressed")
    found = set()
    for at in range(footer_of(whole), footer_of(whole) + 60):  # the schema, then the number of rows
        (tmp_path / "a.parquet").write_bytes(bytes([*whole[:at], whole[at] ^ 32, *whole[at + 1 :]]))
        try:
            assert ids(tmp_path / "a.parquet") == RIGHT
        except UnreadableExport as error:
            found.add(error.message.rpartition(": ")[2])
    assert "its footer states 56 rows, and 40 in its row groups" in found
