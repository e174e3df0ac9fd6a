"""JSON by columns, as `DataFrame.to_json` of pandas writes it by default: an object of columns, each an object that
maps the index of a row to its value (pandas 2, `orient="columns"`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from pipeline.errors import UnreadableExport
from pipeline.extractors.format import Format, Recognized, Sample, when_called
from pipeline.extractors.json_texts import compact
from pipeline.extractors.line_blocks import BOM
from pipeline.extractors.stream import opened
from pipeline.models import Block, Dialect, Part

MOST_BYTES = 512 * 1024 * 1024
_LINES = "write it by rows from pandas: df.to_json(PATH, orient='records', lines=True)"
_decode = msgspec.json.Decoder(dict[str, dict[str, Raw]]).decode
_TEXT = rb'"(?:[^"\\]|\\.)*"'
_COLUMN = re.compile(rb'\{\s*%b\s*:\s*\{\s*"\d+"\s*:\s*[^{\[\s]' % _TEXT)
"""How a file begins if its first column maps the index of a row to a value."""


def _recognize(sample: Sample) -> Recognized | None:
    """Comes before other JSON. A row of JSON lines may have such an object, so a whole sample is decoded."""
    start = sample.text.lstrip(b" \t\r\n")
    if _COLUMN.match(start) is None:
        return None
    if _is_by_columns(start) if sample.whole else b"\n{" not in start:
        return Recognized(Dialect(encoding=sample.encoding, bom=sample.bom))
    return None


def _is_by_columns(text: bytes) -> bool:
    """Whether the content is one object of columns that all have the same rows."""
    try:
        columns = _decode(text)
    except msgspec.MsgspecError:
        return False
    return len({tuple(column) for column in columns.values()}) == 1


def _blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    """Blocks of rows, each row with the offset 0, since its values are all over the file, which is read as a whole.

    Raises UnreadableExport if the file is damaged, its columns differ in rows, or it is over MOST_BYTES.
    """
    from pipeline.extractors.json_documents import block_of

    with opened(part) as stream:
        text = stream.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise UnreadableExport(
            f"{part.path} is JSON by columns and larger than {MOST_BYTES >> 20} MB", path=part.path, hint=_LINES
        )
    try:
        columns = _decode(text.removeprefix(BOM))
    except msgspec.MsgspecError as error:
        raise UnreadableExport(f"{part.path} is not JSON by columns: {error}", path=part.path, hint=_LINES) from None
    first = next(iter(columns.values()), {})
    for name, column in columns.items():
        if column.keys() != first.keys():
            what = f"{part.path}: the column {name!r} has different rows than the first column"
            raise UnreadableExport(what, path=part.path, hint=_LINES)
    lines: list[bytes] = []
    index = length = 0
    for row in first:
        record = msgspec.json.encode({name: column[row] for name, column in columns.items()})
        lines.append(compact(record.decode("latin-1")))
        length += len(lines[-1])
        if length >= block_bytes:
            yield block_of(part, index, [0] * len(lines), lines, 0)
            index, length, lines = index + 1, 0, []
    if lines:
        yield block_of(part, index, [0] * len(lines), lines, len(text))


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    yield "columns", "read by columns, as pandas writes JSON: one row per index value"


FORMAT = Format(
    "json_columns", "JSON by columns", _blocks, when_called("json_documents:DocumentRows"),
    recognize=_recognize, priority=-2, notices=_notices,
)  # fmt: skip
