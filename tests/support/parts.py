"""The part of a file, and the rows read from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Raw

from pipeline import extractors
from pipeline.extractors.rows import Rows
from pipeline.models import BrokenRow, Part
from pipeline.values import raw


def opened(path: Path) -> Part:
    """The one part of a file."""
    (part,) = extractors.open_source([str(path)]).parts
    return part


def part_of(path: Path, content: bytes) -> Part:
    """The one part of a file with this content."""
    path.write_bytes(content)
    return opened(path)


def all_rows(part: Part, *, blanks: bool = False, **sizes: int) -> list[Rows]:
    """The rows of each block."""
    return [extractors.rows(part, block, blanks=blanks) for block in extractors.blocks(part, **sizes)]


def content_of(part: Part, **sizes: int) -> bytes:
    """The content of a part in a container."""
    return b"".join(block.content or b"" for block in extractors.blocks(part, **sizes))


def located(part: Part, **sizes: int) -> list[tuple[int, Any]]:
    """The offset of each row, with its members as JSON, or with its code if it is broken."""
    found: list[tuple[int, Any]] = []
    for rows in all_rows(part, **sizes):
        for number, row in enumerate(rows):
            texts = row.code if isinstance(row, BrokenRow) else {one: bytes(raw(row[one])).decode() for one in row}
            found.append((rows.offset(number), texts))
    return found


def values(part: Part, column: str = "x") -> list[Any]:
    """The values of a column: JSON as ("json", text), a broken row as its code."""
    read = [row if isinstance(row, BrokenRow) else row[column] for rows in all_rows(part) for row in rows]
    return [
        one.code if isinstance(one, BrokenRow) else ("json", bytes(one).decode()) if isinstance(one, Raw) else one
        for one in read
    ]
