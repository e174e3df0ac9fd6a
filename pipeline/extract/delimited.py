"""Rows of a block of delimited text: every cell is text, and the empty cell is the empty text.

Why never anything but text: a reader that infers types makes `1` of the zip code `00001`, and dies when a
later value is no integer. What a row can suffer:

=============================================  ==============================================================
more or fewer cells than the header            reject `bad_csv_row`
a quote that is never closed, text after one   reject `bad_csv_row`; reading goes on with the next line
a bare carriage return outside quotes          reject `bad_csv_row`
invalid UTF-8                                  reject `bad_utf8`, of that row alone
NUL, U+2028, newlines in quotes, 1 MB a cell   kept as they are
blank line                                     not a row
=============================================  ==============================================================
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from pipeline.counted import counted
from pipeline.extract.csv_blocks import Lines
from pipeline.extract.dialect import is_blank, parser
from pipeline.extract.stream import WIDE
from pipeline.schema import BrokenRow, Dialect
from pipeline.values import Record, canonical


class DelimitedRows:
    """The rows of one block. `dialect` names the columns; a block never holds the header."""

    def __init__(self, data: bytes, offset: int, dialect: Dialect) -> None:
        self._data = data
        self._offset = offset
        self._dialect = dialect
        self._encoding = "utf-8" if dialect.encoding in WIDE else dialect.encoding
        self._spans: list[tuple[int, int]] | None = None
        self._last: tuple[int, list[str]] = (-1, [])
        self.warnings: list[tuple[int, str, str]] = []

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        header = self._dialect.header
        columns = len(header)
        try:
            text = self._data.decode(self._encoding)
            suspect = False
        except UnicodeDecodeError:
            text = self._data.decode(self._encoding, "surrogateescape")
            suspect = True
        rows = parser(io.StringIO(text, newline="\n"), self._dialect)
        number = -1
        while True:
            try:
                for cells in rows:
                    if len(cells) != columns and is_blank(cells):
                        continue
                    number += 1
                    if suspect and (problem := _undecodable(cells)):
                        yield problem
                    elif len(cells) == columns:
                        self._last = number, cells
                        yield dict(zip(header, cells, strict=False))
                    else:
                        yield BrokenRow("bad_csv_row", f"{counted(len(cells), 'cell')}; the header has {columns}")
                return
            except csv.Error as error:
                number += 1
                yield BrokenRow("bad_csv_row", _said(error))

    def offset(self, row: int) -> int:
        return self._offset + self._places()[row][0]

    def text(self, row: int) -> str:
        start, end = self._places()[row]
        return self._data[start:end].rstrip(b"\r\n").decode(self._encoding, "backslashreplace")

    def canonical(self, row: int) -> bytes:
        number, cells = self._last
        if number != row:
            start, end = self._places()[row]
            text = self._data[start:end].decode(self._encoding)
            cells = next(parser(io.StringIO(text, newline="\n"), self._dialect))
        return canonical(dict(zip(self._dialect.header, cells, strict=True)))

    def _places(self) -> list[tuple[int, int]]:
        """Where each row begins and ends in the block. Worked out once, when the first row is asked about."""
        if self._spans is None:
            self._spans = []
            lines = Lines(self._data)
            rows = parser(iter(lines), self._dialect)
            columns = len(self._dialect.header)
            end = 0
            while end < len(self._data):
                start = end
                try:
                    cells = next(rows)
                except StopIteration:
                    break
                except csv.Error:
                    cells = ["?", "?"]
                end = lines.at
                if len(cells) == columns or not is_blank(cells):
                    self._spans.append((start, end))
        return self._spans


def _undecodable(cells: list[str]) -> BrokenRow | None:
    for position, cell in enumerate(cells, 1):
        try:
            cell.encode()
        except UnicodeEncodeError as error:
            byte = ord(cell[error.start]) & 0xFF
            return BrokenRow("bad_utf8", f"byte {byte:#04x} in cell {position} cannot be decoded")
    return None


def _said(error: csv.Error) -> str:
    if "end of data" in str(error):
        return "a quote is opened and never closed"
    if "new-line character" in str(error):
        return "a carriage return stands outside quotes"
    if "expected after" in str(error):
        return "text follows a closing quote"
    return str(error)
