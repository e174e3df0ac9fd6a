"""The formats a part can have, and who cuts and reads each: one row here and one file beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.extractors.rows import Rows
from pipeline.extractors.stream import is_plain, read_range
from pipeline.models import Block, Dialect, Format, Part
from pipeline.text import pluralize


def blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    """The blocks of a part, by its format. The libraries of a format are imported when its first part is."""
    match part.format:
        case Format.JSONL:
            from pipeline.extractors import lines

            return lines.blocks(part, block_bytes)
        case Format.CSV:
            from pipeline.extractors import csv_blocks

            return csv_blocks.blocks(part, block_bytes)
        case Format.PARQUET:
            from pipeline.extractors import parquet

            return parquet.blocks(part, block_rows)


def rows(
    part: Part, block: Block, *, observe: bool, opens: Sequence[str] = (), members: bool = False, blanks: bool = False
) -> Rows:
    """The rows of a block, by the part's format."""
    content = _content(part, block)
    match part.format:
        case Format.JSONL:
            from pipeline.extractors.jsonl import JsonlRows

            return JsonlRows(content, block.offset, observe=observe, opens=opens, members=members)
        case Format.CSV:
            from pipeline.extractors.delimited import DelimitedRows

            return DelimitedRows(content, block.offset, part.dialect, blanks=blanks)
        case Format.PARQUET:
            from pipeline.extractors.parquet import ParquetRows

            return ParquetRows(content, block.offset, part.path, observe=observe)


def _content(part: Part, block: Block) -> bytes:
    if block.content is not None:
        return block.content if isinstance(block.content, bytes) else bytes(block.content)
    assert is_plain(part)
    return read_range(part, block.offset, block.length)


_NAMES = {Format.JSONL: "JSON lines", Format.CSV: "CSV", Format.PARQUET: "Parquet"}
_DELIMITERS = {"\t": "tab"}


def describe(part: Part) -> str:
    """One line for a report: the format, what is unusual in its dialect, its containers from the inside out."""
    dialect = part.dialect
    words = [_NAMES[part.format]]
    if part.format is Format.CSV:
        words.append(pluralize(len(dialect.header), "column"))
        words.extend(unusual(dialect))
    elif dialect.encoding != "utf-8":
        words.append(dialect.encoding)
    inside = "".join(f" in {name}" for name in reversed(part.codecs))
    return ", ".join(words) + ("," + inside if inside else "")


def unusual(dialect: Dialect) -> list[str]:
    """What a person may not expect of a delimited part; nothing for comma, double quote and UTF-8."""
    words = []
    if dialect.delimiter != ",":
        words.append("delimiter " + _DELIMITERS.get(dialect.delimiter, f'"{dialect.delimiter}"'))
    if dialect.escape:
        words.append(f'escape "{dialect.escape}"')
    if dialect.encoding != "utf-8":
        words.append(dialect.encoding)
    if dialect.headless:
        words.append("no header")
    if dialect.bom:
        words.append("byte order mark")
    return words
