"""Avro object container files."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.extractors.format import Format, Recognized, RowOptions
from pipeline.extractors.rows import Rows
from pipeline.models import Block, Part


def _blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    from pipeline.extractors import avro_reader

    return avro_reader.blocks(part, block_bytes, block_rows)


def _rows(part: Part, block: Block, content: bytes, options: RowOptions) -> Rows:
    from pipeline.extractors.avro_reader import AvroRows

    return AvroRows(content, block.offset, part, options)


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    """None; but a header that cannot be read stops discovery, before other files are read."""
    if not part.codecs:
        from pipeline.extractors.avro_reader import check

        check(part)
    return iter(())


FORMAT = Format("avro", "Avro", _blocks, _rows, magic=b"Obj\x01", notices=_notices, fixed_columns=True)
