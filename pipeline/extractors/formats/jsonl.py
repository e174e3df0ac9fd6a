"""JSON lines: one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.extractors.format import Format, Recognized, RowOptions, Sample
from pipeline.extractors.formats.json import is_table, mostly_objects
from pipeline.extractors.rows import Rows
from pipeline.models import Block, Dialect, Part


def _recognize(sample: Sample) -> Recognized | None:
    """Documents over several lines have been recognised before (`pipeline.extractors.formats.json`)."""
    start = sample.text.lstrip(b" \t\r\n")
    if is_table(start):
        return None
    if start[:1] == b"{" or mostly_objects(start, sample.whole):
        return Recognized(Dialect(encoding=sample.encoding, bom=sample.bom))
    return None


def _blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    from pipeline.extractors import line_blocks

    return line_blocks.blocks(part, block_bytes)


def _rows(part: Part, block: Block, content: bytes, options: RowOptions) -> Rows:
    from pipeline.extractors.jsonl_rows import JsonlRows

    return JsonlRows(
        content, block.offset, observe=options.observe, opens=options.opens, members=options.members,
        nan_is_null=part.dialect.nan == "null", unread=options.unread,
    )  # fmt: skip


def _traits(dialect: Dialect) -> list[str]:
    return [dialect.encoding] if dialect.encoding != "utf-8" else []


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    if part.dialect.encoding != "utf-8":
        yield "encoding", f"read as {part.dialect.encoding}"


FORMAT = Format("jsonl", "JSON lines", _blocks, _rows, recognize=_recognize, traits=_traits, notices=_notices)
