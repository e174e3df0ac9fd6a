"""Rows of a block of delimited text: every cell is text, and a blank cell is missing.

A reader that infers types would read the zip code `00001` as `1`, and fail if a later value is not an integer. Special
rows, and what becomes of them:

=============================================  ==============================================================
more or fewer cells than the header            reject `bad_csv_row`
a quote that is never closed, text after one   reject `bad_csv_row`; reading continues on the next line
a bare carriage return outside quotes          reject `bad_csv_row`
invalid UTF-8                                  reject `bad_utf8`, only that row
NUL, U+2028, newlines in quotes, cells of 1 MB   read unchanged
blank line                                     not a row
blank cell, in quotes or not                   missing: the record has no such member
=============================================  ==============================================================

A blank cell has no characters. Databases that distinguish null from an empty string quote the latter, but writers that
quote every cell quote nulls too, so quotes do not matter. If a blank is an empty string to a mapping, it says
`blanks: {csv: value}`. Words such as `NULL` are strings like any other: they can be real values. In text with escapes
(`pipeline.extractors.escaped_text`) a cell `\\N` is null.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import compress
from typing import Any

from pipeline.extractors import csv_records
from pipeline.extractors.csv_records import is_blank, parser, records
from pipeline.extractors.rows import RowOptions
from pipeline.extractors.stream import WIDE
from pipeline.models import BrokenRow, Dialect
from pipeline.native import AVAILABLE, native
from pipeline.text import pluralize
from pipeline.values import Record, canonical_texts

_AS_THEY_ARE = RowOptions()


class DelimitedRows:
    """The rows of one block. `dialect` names the columns; a block never includes the header.

    With `blanks`, a blank cell is an empty string. The canonical content of a row has its blank cells either way, so
    its uuid does not depend on that setting. With `members`, rows are `pipeline.native` Members in that layout, if the
    C part is available.
    """

    def __init__(
        self,
        data: bytes,
        offset: int,
        dialect: Dialect,
        options: RowOptions = _AS_THEY_ARE,
    ) -> None:
        blanks, layout = options.blanks, options.layout
        self._data = data
        self._offset = offset
        self._dialect = dialect
        self._unread = options.unread
        self._encoding = "utf-8" if dialect.encoding in WIDE else dialect.encoding
        is_ascii = dialect.delimiter.isascii() and dialect.quote.isascii()
        ordinary = self._encoding == "utf-8" and is_ascii and not dialect.escape
        self._is_native = AVAILABLE and ordinary
        self._make: Callable[[list[str]], Any] = self._dicts(blanks)
        self._canonical: Callable[[list[str]], bytes] = self._canonical_texts
        self._members = options.members and AVAILABLE
        if self._members:
            header = dialect.header
            places = layout.places or tuple((number, -1, name) for number, name in enumerate(header))
            ordered = tuple((number, 0, name) for name, number in self._sorted_names)
            self._make = native.Cells(len(header), places, layout.objects, blanks, layout.always)
            self._canonical = native.Cells(len(header), ordered, blanks=True)
        if dialect.escape:  # its cells may be null, which the C part does not support
            make, canonical, plain = self._make, self._canonical, self._dicts(blanks)
            self._make = lambda cells: plain(cells) if None in cells else make(cells)
            self._canonical = lambda cells: self._canonical_texts(cells) if None in cells else canonical(cells)
        self._spans: list[tuple[int, int]] | None = None
        self._last: tuple[int, list[str]] = (-1, [])
        self._native: Any = None
        self._others = 0
        self.warnings: list[tuple[int, str, str]] = []

    def _dicts(self, blanks: bool) -> Callable[[list[str]], Record]:
        """A function that makes a record of a row's cells."""
        header = self._dialect.header
        every = (True,) * len(header) if blanks else None
        return lambda cells: dict(compress(zip(header, cells, strict=False), every or cells))

    @property
    def columns(self) -> Sequence[str]:
        return self._dialect.header

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        if self._members and self._is_native:
            return self._natively()
        return self._rows()

    def _natively(self) -> Iterator[Any]:
        """Ordinary rows as Members, whose cells stay in the block; all others as `_rows` reads them."""
        self._native = reader = self._delimited(self._make)
        self._others = 0
        while True:
            yield from reader
            if reader.at >= len(self._data):
                return
            odd = self._odd(reader, self._others + reader.rows)
            if odd is not None:
                self._others += 1
                yield odd

    def _rows(self) -> Iterator[Record | BrokenRow]:
        columns, make, size = len(self._dialect.header), self._make, len(self._data)
        reader = self._delimited() if self._is_native else OrdinaryRecords(self._data, self._dialect, self._encoding)
        number = -1
        while True:
            for cells in reader:
                if len(cells) == columns:
                    number += 1
                    self._last = number, cells
                    yield make(cells)
                elif (row := self._row(number + 1, cells, reader.lines)) is not None:
                    number += 1
                    yield row
            if reader.at >= size:
                return
            odd = self._odd(reader, number + 1)
            if odd is not None:
                number += 1
                yield odd

    def _odd(self, reader: Any, number: int) -> Record | BrokenRow | None:
        """The row of the record at which a reader stopped; the reader continues after it. None for a blank line.
        `records` decides where a record ends that is broken, or may be because of its length or bytes."""
        record = next(records(self._data, self._dialect, final=True, start=reader.at))
        reader.at = record.end
        if record.cells is None:
            return BrokenRow("bad_csv_row", record.problem)
        cells = [
            cell if cell is None else cell.encode("latin-1").decode(self._encoding, "surrogateescape")
            for cell in record.cells
        ]
        return self._row(number, cells, record.lines)

    def _delimited(self, *cells: Any) -> Any:
        dialect = self._dialect
        quote = ord(dialect.quote) if dialect.quote else -1
        return native.Delimited(self._data, ord(dialect.delimiter), quote, *cells)

    def _row(self, number: int, cells: list[str], lines: int) -> Record | BrokenRow | None:
        """The row with one record's cells; None for a blank line."""
        header = self._dialect.header
        if len(cells) != len(header):
            if is_blank(cells):
                return None
            over = f" over {lines:,} lines" if lines > 1 else ""
            broken = BrokenRow("bad_csv_row", f"{pluralize(len(cells), 'cell')}{over}; the header has {len(header)}")
            return _undecodable(cells) or broken
        if (problem := _undecodable(cells)) is not None:
            cells = [_escaped(cell) if name in self._unread else cell for name, cell in zip(header, cells, strict=True)]
            if _undecodable(cells) is not None:
                return problem
        self._last = number, cells
        row: Record = self._make(cells)
        return row

    def offset(self, row: int) -> int:
        return self._offset + self._bounds()[row][0]

    def text(self, row: int) -> str:
        start, end = self._bounds()[row]
        return self._data[start:end].rstrip(b"\r\n").decode(self._encoding, "backslashreplace")

    def canonical(self, row: int) -> bytes:
        number, cells = self._last
        if self._native is not None and row == self._others + self._native.rows - 1 and (last := self._native.last()):
            cells = last
        elif number != row:
            start, end = self._bounds()[row]
            text = self._data[start:end].decode(self._encoding, "surrogateescape")
            cells = [*map(_escaped, next(parser(io.StringIO(text, newline="\n"), self._dialect)))]
        return self._canonical(cells)

    def is_header(self, row: int) -> bool:
        """Whether a row repeats the header, as in files that were concatenated."""
        return self.canonical(row) == self._canonical([*self._dialect.header])

    @cached_property
    def _sorted_names(self) -> list[tuple[str, int]]:
        """The column names in the order of a canonical record, with the position of each column."""
        return sorted({name: index for index, name in enumerate(self._dialect.header)}.items())

    def _canonical_texts(self, cells: list[str]) -> bytes:
        return canonical_texts({name: cells[index] for name, index in self._sorted_names})

    def _bounds(self) -> list[tuple[int, int]]:
        """The start and end of each row in the block, computed on first use."""
        if self._spans is None:
            columns = len(self._dialect.header)
            self._spans = [
                (record.start, record.end)
                for record in records(self._data, self._dialect, final=True)
                if record.cells is None or len(record.cells) == columns or not is_blank(record.cells)
            ]
        return self._spans


class OrdinaryRecords:
    """`pipeline.native.Delimited` in Python, for any encoding and with an escape character."""

    def __init__(self, data: bytes, dialect: Dialect, encoding: str) -> None:
        self._data = data
        self._dialect = dialect
        self._encoding = encoding
        self.at = 0
        self.lines = 0

    def __iter__(self) -> Iterator[list[str]]:
        data, encoding, size = self._data, self._encoding, len(self._data)
        end = self.at

        def lines() -> Iterator[str]:
            nonlocal end
            while end < size:
                start, end = end, data.find(b"\n", end) + 1 or size
                yield data[start:end].decode(encoding)

        rows = parser(lines(), self._dialect)
        before = 0
        with contextlib.suppress(csv.Error, UnicodeDecodeError):
            for cells in rows:
                self.lines = rows.line_num - before
                if self.lines > 1 and _may_be_too_long(self.lines, cells):
                    return
                before, self.at = rows.line_num, end
                yield cells


def _may_be_too_long(lines: int, cells: list[str]) -> bool:
    """Whether a record may be beyond the limits: a character has up to 4 bytes, and so has what surrounds a cell."""
    length = sum(len(cell or "") + 1 for cell in cells)
    return lines > csv_records.MAX_LINES or 4 * length > csv_records.MAX_BYTES


def _escaped(cell: str) -> str:
    """The cell, with backslash escapes for bytes that cannot be decoded."""
    return cell and cell.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _undecodable(cells: list[str]) -> BrokenRow | None:
    for position, cell in enumerate(cells, 1):
        try:
            (cell or "").encode()
        except UnicodeEncodeError as error:
            byte = ord(cell[error.start]) & 0xFF
            return BrokenRow("bad_utf8", f"byte {byte:#04x} in cell {position} cannot be decoded")
    return None
