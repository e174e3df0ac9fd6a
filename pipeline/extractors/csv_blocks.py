"""Blocks of a delimited part, cut at the ends of records; a newline inside quotes does not end one.

Whether a newline ends a record depends on every quote before it, so the part is read through once. If the quoting of a
piece is provably regular, counting quotes finds all record ends, in a few vector passes over its bytes. Anything else
(stray quotes, escapes, bare carriage returns, records near the limit of `csv_records`) is read row by row by the csv
reader itself. Both return the same ends; `tests/extractors/test_csv.py` compares them on random text.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.extractors import csv_records
from pipeline.extractors.csv_records import records
from pipeline.extractors.line_blocks import BOM
from pipeline.extractors.stream import MAX_RECORD_BYTES, is_plain, opened, too_long
from pipeline.models import Block, Dialect, Part
from pipeline.storage import is_remote

Ends = NDArray[np.int64]

_PIECE = 1024 * 1024
_NEWLINE, _RETURN = 10, 13


def blocks(part: Part, size: int, rows: int = 0) -> Iterator[Block]:
    """Block k has the records that start in the decompressed bytes [k * size, (k + 1) * size).

    A header and a byte order mark belong to no block. Blocks of a plain file have no content.
    Raises UnreadableExport for a truncated or damaged container, and for a line of more than 64 MiB.
    """
    plain = is_plain(part) and not is_remote(part.file)  # otherwise an object would be read twice
    pieces: list[bytes] = []
    index = start = at = 0
    header, above = not part.dialect.headless, part.dialect.header_row or 0
    for data, ends in _pieces(part, min(size, _PIECE)):
        cut = 0
        first = 0
        if at == 0 and not header:
            cut = start = len(BOM) if data.startswith(BOM) else 0
        if header:
            first, header, above = _after_header(data, ends, above)
            cut = int(ends[first - 1]) if first else 0
            start = at + cut
        while first < len(ends):
            target = start - start % size + size
            here = int(np.searchsorted(ends, target - at, "left"))
            if here >= len(ends):
                break
            end = int(ends[here])
            pieces.append(data[cut:end])
            yield Block(part.index, index, start, at + end - start, None if plain else b"".join(pieces))
            pieces.clear()
            index, start, cut, first = index + 1, at + end, end, here + 1
        if not plain and not header:
            pieces.append(data[cut:])
        at += len(data)
    if at > start and not header:
        yield Block(part.index, index, start, at - start, None if plain else b"".join(pieces))


def _after_header(data: bytes, ends: Ends, row: int) -> tuple[int, bool, int]:
    """(how many records to skip, whether the header is still to come, its row counted from there). The header is record
    `row`, counted from 1; for 0, the first record that is not blank."""
    before = 0
    for number, end in enumerate(ends.tolist(), 1):
        if number == row or (not row and data[before:end].removeprefix(BOM).strip(b' "\t\v\f\r\n')):
            return number, False, 0
        before = end
    return len(ends), True, max(row - len(ends), 0)


def _pieces(part: Part, size: int) -> Iterator[tuple[bytes, Ends]]:
    """The whole part, in runs of whole records, with the end of each record."""
    with opened(part) as stream:
        at = 0
        carried = b""
        mark = 0
        length = size
        while True:
            fresh = stream.read(length)
            data = carried + fresh if carried else fresh
            final = len(fresh) < length
            if at == 0:
                mark = len(BOM) if data.startswith(BOM) else 0
            ends = record_ends(data[mark:] if mark else data, part.dialect, final=final)
            if mark:
                ends = ends + mark
            if len(ends):
                last = int(ends[-1])
                yield data[:last], ends
                at += last
                carried = data[last:]
                length = size
                mark = 0
            else:
                carried = data
                length = max(size, len(carried))
                if len(carried) > MAX_RECORD_BYTES:
                    raise too_long(part, at)
            if final:
                return


def record_ends(data: bytes, dialect: Dialect, *, final: bool) -> Ends:
    """Where each record of `data` ends (after its newline); `data` starts with a record.

    A record that continues past `data` has no end, unless this is the `final` piece.
    """
    complete = data if final else data[: data.rfind(b"\n") + 1]
    if not complete:
        return np.empty(0, np.int64)
    ends = _regular_ends(complete, dialect, final=final)
    if ends is None:
        return np.asarray(_read_ends(complete, dialect, final=final), np.int64)
    if final and (not len(ends) or ends[-1] < len(complete)):
        ends = np.append(ends, len(complete))
    return ends


def _regular_ends(data: bytes, dialect: Dialect, *, final: bool) -> Ends | None:
    """The record ends found by counting quotes, or None if counting would not be reliable.

    It is reliable if each opening quote is at the start of a record or cell, or right after the previous quote
    (so `""` in a cell), and each closing quote is before a delimiter, a line end or the next quote.
    Then a newline ends a record exactly if the number of quotes before it is even, unless a record is longer than
    allowed or, in the `final` piece, its last quote is never closed.
    """
    array = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(array == _NEWLINE)
    if dialect.escape and dialect.escape.encode() in data:
        return None
    if not dialect.quote or dialect.quote.encode() not in data:
        return newlines + 1
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return None
    delimiter, quote = ord(dialect.delimiter), ord(dialect.quote)
    quotes = np.flatnonzero(array == quote)
    if final and len(quotes) % 2:
        return None
    opening, closing = quotes[0::2], quotes[1::2]
    before = array[np.maximum(opening - 1, 0)]
    opens = (opening == 0) | (before == delimiter) | (before == _NEWLINE)
    opens[1:] |= opening[1:] == closing[: len(opening) - 1] + 1
    if not opens.all():
        return None
    inner = closing[:-1] if len(closing) and closing[-1] == len(array) - 1 else closing
    after = array[inner + 1]
    closes = (after == delimiter) | (after == _NEWLINE) | (after == _RETURN) | (after == quote)
    if not closes.all():
        return None
    outside = np.flatnonzero(np.searchsorted(quotes, newlines) % 2 == 0)
    ends: Ends = newlines[outside] + 1
    if len(outside) < len(newlines):
        lines = np.diff(outside, prepend=-1, append=len(newlines))
        sizes = np.diff(ends, prepend=0, append=len(array))
        if lines.max() > csv_records.MAX_LINES or sizes.max() > csv_records.MAX_BYTES:
            return None
    return ends


def _read_ends(data: bytes, dialect: Dialect, *, final: bool) -> list[int]:
    """The record ends found by reading every record."""
    return [record.end for record in records(data, dialect, final=final)]
