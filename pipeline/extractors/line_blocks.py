"""Blocks of a part whose records are lines, cut at newlines; a plain file is cut by seeking."""

from __future__ import annotations

import io
from collections.abc import Iterator

from pipeline import storage
from pipeline.extractors.stream import MAX_RECORD_BYTES, is_plain, opened, too_long
from pipeline.models import Block, Part

BOM = b"\xef\xbb\xbf"


def row_starts(data: bytes) -> list[int]:
    """Where each line that is not blank begins."""
    starts, at = [], 0
    for line in io.BytesIO(data):
        if not line.isspace():
            starts.append(at)
        at += len(line)
    return starts


def blocks(part: Part, size: int, rows: int = 0) -> Iterator[Block]:
    """Block k holds the records that start in the decompressed bytes [k * size, (k + 1) * size).

    So boundaries depend on the part alone, not on its container, the machine or how it was read. A range in which no
    record starts gives no block; block numbers have no gaps. Only a newline ends a line (U+2028 does not); the last
    line may lack it. A UTF-8 byte order mark belongs to no record. A plain file is not read through: its blocks have no
    content, and only the line at each boundary is looked at. (For small objects, blocks do have content.)

    Raises UnreadableExport for a truncated or damaged container, and for a line of more than 64 MiB.
    """
    plain = is_plain(part) and not storage.is_small_object(part.file, part.bytes)
    with opened(part) if not plain else _file(part, size) as stream:
        start = len(BOM) if stream.peek(len(BOM))[: len(BOM)] == BOM else 0
        stream.read(start)
        index = 0
        while True:
            head, length = _ahead(stream, start, size - 1 - start % size, plain)
            tail = stream.readline(MAX_RECORD_BYTES + 1)
            if len(tail) > MAX_RECORD_BYTES:
                raise too_long(part, start + length)
            length += len(tail)
            if not length:
                return
            yield Block(part.index, index, start, length, None if plain else head + tail)
            start += length
            index += 1


def _file(part: Part, size: int) -> io.BufferedReader:
    from pipeline.extractors.containers import broken

    try:
        return storage.opened_at_strides(part.file, part.bytes, size)
    except OSError as error:
        raise broken(error, part.path) from error


def _ahead(stream: io.BufferedReader, start: int, count: int, plain: bool) -> tuple[bytes, int]:
    """Advance `count` bytes, by seeking (as far as the file reaches) or by reading."""
    if not plain:
        head = stream.read(count)
        return head, len(head)
    here = stream.seek(start + count)
    length = min(here, stream.seek(0, io.SEEK_END)) - start
    stream.seek(start + length)
    return b"", length
