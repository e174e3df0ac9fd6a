"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import out_of_memory
from pipeline.extractors.dialect import name_notices
from pipeline.extractors.format import Format, Recognized, RowOptions
from pipeline.extractors.rows import Rows
from pipeline.models import Block, Part


def _blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    from pipeline.extractors import parquet_reader

    return parquet_reader.blocks(part, block_rows)


def _rows(part: Part, block: Block, content: bytes, options: RowOptions) -> Rows:
    from pipeline.extractors.parquet_reader import ParquetRows

    return ParquetRows(content, block.offset, part, options)


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    if part.codecs:
        return
    out_of_memory.require_for_arrow()
    from pipeline.extractors.parquet_reader import check

    yield from name_notices(check(part))


FORMAT = Format("parquet", "Parquet", _blocks, _rows, magic=b"PAR1", notices=_notices, fixed_columns=True)
