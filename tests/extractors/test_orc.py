"""ORC: the rows of the same table in Parquet, and damage that is named."""

from __future__ import annotations

import decimal
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from pipeline import extractors
from pipeline.errors import UnreadableExport

TABLE = pa.table(
    {
        "id": pa.array(range(100), pa.int64()),
        "s": [f"é{number % 7}" if number % 3 else None for number in range(100)],
        "t": pa.array(range(100), pa.timestamp("ns")),
        "d": pa.array([decimal.Decimal("1.10")] * 100, pa.decimal128(10, 2)),
        "l": [[number] * (number % 3) for number in range(100)],
        "st": [{"a": number, "b": None} for number in range(100)],
    },
    schema=pa.schema(
        [
            ("id", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("ns")), ("d", pa.decimal128(10, 2)),
            ("l", pa.list_(pa.int64())), ("st", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ]
    ),
)  # fmt: skip


def texts(path: Path, size: int = 30) -> list[str]:
    (part,) = extractors.open_source([str(path)]).parts
    found = []
    for block in extractors.blocks(part, block_rows=size):
        rows = extractors.rows(part, block)
        found += [rows.text(number) for number, _ in enumerate(rows)]
        assert rows.offset(0) == block.offset
    return found


def test_rows_are_those_of_parquet(tmp_path: Path) -> None:
    """Values, order and numbers; in a container too."""
    orc.write_table(TABLE, tmp_path / "a.orc", compression="zstd")
    pq.write_table(TABLE, tmp_path / "a.parquet")
    (tmp_path / "b.orc.gz").write_bytes(gzip.compress((tmp_path / "a.orc").read_bytes()))
    expected = texts(tmp_path / "a.parquet")
    assert len(expected) == 100
    assert texts(tmp_path / "a.orc") == texts(tmp_path / "b.orc.gz") == expected


def test_a_file_that_is_cut_is_named(tmp_path: Path) -> None:
    """Its footer is at its end."""
    orc.write_table(TABLE, tmp_path / "a.orc")
    whole = (tmp_path / "a.orc").read_bytes()
    for cut in range(4, len(whole), 37):
        (tmp_path / "b.orc").write_bytes(whole[:cut])
        with pytest.raises(UnreadableExport, match=r"b\.orc is not a whole ORC file"):
            texts(tmp_path / "b.orc")
