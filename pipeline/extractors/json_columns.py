"""The rows of JSON by columns (`pipeline.extractors.formats.json_columns`), as blocks of JSON lines.

Such a file has the first value of its last row behind the last value of its first, so it is read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from pipeline.errors import UnreadableExport
from pipeline.extractors.json_documents import block_of
from pipeline.extractors.line_blocks import BOM
from pipeline.extractors.stream import opened
from pipeline.models import Block, Part

MOST_BYTES = 512 * 1024 * 1024
_LINES = "write it with to_json(PATH, orient='records', lines=True)"
_decode = msgspec.json.Decoder(dict[str, dict[str, Raw]]).decode


def is_by_columns(text: bytes) -> bool:
    """Whether a text is one object of columns that all have the same rows."""
    try:
        columns = _decode(text)
    except msgspec.MsgspecError:
        return False
    return len({tuple(column) for column in columns.values()}) == 1


def blocks(part: Part, size: int) -> Iterator[Block]:
    """Blocks of rows, each row with the offset 0, since its values lie all over the file.

    Raises UnreadableExport for a damaged file, one whose columns have different rows, and one over MOST_BYTES.
    """
    with opened(part) as stream:
        text = stream.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise UnreadableExport(
            f"{part.path} is JSON by columns of more than {MOST_BYTES >> 20} MB", path=part.path, hint=_LINES
        )
    try:
        columns = _decode(text.removeprefix(BOM))
    except msgspec.MsgspecError as error:
        raise UnreadableExport(f"{part.path} cannot be read by columns: {error}", path=part.path, hint=_LINES) from None
    first = next(iter(columns.values()), {})
    for name, column in columns.items():
        if column.keys() != first.keys():
            what = f"{part.path}: the column {name!r} has other rows than the first column"
            raise UnreadableExport(what, path=part.path, hint=_LINES)
    lines: list[bytes] = []
    index = length = 0
    for row in first:
        lines.append(msgspec.json.encode({name: column[row] for name, column in columns.items()}))
        length += len(lines[-1])
        if length >= size:
            yield block_of(part, index, [0] * len(lines), lines, 0)
            index, length, lines = index + 1, 0, []
    if lines:
        yield block_of(part, index, [0] * len(lines), lines, len(text))
