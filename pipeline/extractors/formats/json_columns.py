"""JSON by columns, as `DataFrame.to_json` of pandas writes it by default: an object of columns, each
an object of the index of a row → its value (pandas 2, `orient="columns"`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.extractors.format import Format, Recognized, RowOptions, Sample
from pipeline.extractors.rows import Rows
from pipeline.models import Block, Dialect, Part

_TEXT = rb'"(?:[^"\\]|\\.)*"'
_COLUMN = re.compile(rb'\{\s*%b\s*:\s*\{\s*"\d+"\s*:\s*[^{\[\s]' % _TEXT)
"""The beginning of a file whose first column has a value of a row."""


def _recognize(sample: Sample) -> Recognized | None:
    """Before other JSON. A row that has such an object may be one of JSON lines, so a whole sample is decoded."""
    start = sample.text.lstrip(b" \t\r\n")
    if _COLUMN.match(start) is None:
        return None
    from pipeline.extractors.json_columns import is_by_columns

    if is_by_columns(start) if sample.whole else b"\n{" not in start:
        return Recognized(Dialect(encoding=sample.encoding, bom=sample.bom))
    return None


def _blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    from pipeline.extractors import json_columns

    return json_columns.blocks(part, block_bytes)


def _rows(part: Part, block: Block, content: bytes, options: RowOptions) -> Rows:
    from pipeline.extractors.json_documents import DocumentRows

    return DocumentRows(
        content, observe=options.observe, opens=options.opens, members=options.members,
        nan_is_null=part.dialect.nan == "null", unread=options.unread,
    )  # fmt: skip


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    yield "columns", "read by columns, as pandas writes JSON: its rows are those of the index"


FORMAT = Format("json_columns", "JSON by columns", _blocks, _rows, recognize=_recognize, priority=-2, notices=_notices)
