"""The records of delimited text. Cutting blocks and reading rows use the same rule.

A quoted cell may contain newlines, so a quote that is never closed would turn the rest of a file into one cell. A
record may therefore have at most `MAX_LINES` lines and `MAX_BYTES` bytes. If its last quote is not closed within these
limits, before the end of the file, or by a quote that a delimiter or a line end follows, the record ends with the line
on which that quote opens. It is a broken row, and reading continues on the next line, so no row is lost inside another.

Whether a record is broken depends only on the bytes from its start to its limit. A reader of a single block finds the
same ends, because a quote that is open at the end of the block was open when the block was cut.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pipeline.extractors.escaped_text import masked_lines, unmasked
from pipeline.models import Dialect

if TYPE_CHECKING:
    from _csv import Reader

MAX_LINES = 10_000
MAX_BYTES = 4 * 1024 * 1024
"""A record of several lines has at most this many lines, and this many bytes before its last line. Stack traces and
pages of HTML fit, and an event may not be a quarter as long. One line may have `stream.MAX_RECORD_BYTES`."""

UNCLOSED = (
    f"a quote is opened but not closed within {MAX_LINES:,} lines and {MAX_BYTES >> 20} MiB; the row ends with the line"
    " of that quote, and the next line is read as a new row"
)

csv.field_size_limit(2**31 - 1)  # a cell may be as long as a record; the library's own limit is 128 KiB


class CsvRecord(NamedTuple):
    """One record: where it begins and ends (after its newline), its lines, and its cells, one character per byte.

    A broken record has no cells; `problem` says what is wrong. A cell of text with escapes may be None.
    """

    start: int
    end: int
    lines: int
    cells: list[str] | None
    problem: str = ""


def parser(lines: Iterable[str], dialect: Dialect, *, strict: bool = True) -> Reader | _Escaped:
    """A csv reader: strict, so that a misplaced quote is an error and not a guess."""
    if dialect.escape:
        return _Escaped(lines, dialect, strict=strict)
    return _reader(lines, dialect, strict)


def _reader(lines: Iterable[str], dialect: Dialect, strict: bool) -> Reader:
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        strict=strict,
    )


class _Escaped:
    """A csv reader of text with escapes (`pipeline.extractors.escaped_text`); a cell that is null is None."""

    def __init__(self, lines: Iterable[str], dialect: Dialect, *, strict: bool) -> None:
        self.line_num = 0
        whole = masked_lines(lines, dialect.escape, dialect.quote, cut=not strict)
        self._cells = _reader(self._counted(whole), dialect, strict)

    def _counted(self, lines: Iterable[tuple[str, int]]) -> Iterator[str]:
        for line, count in lines:
            self.line_num += count
            yield line

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        return list(map(unmasked, next(self._cells)))  # type: ignore[arg-type]


def is_blank(row: list[str]) -> bool:
    """Whether a row is only a line end and white space, and so not a row at all."""
    return not row or (len(row) == 1 and row[0] is not None and not row[0].strip(" \t\v\f"))


def records(data: bytes, dialect: Dialect, *, final: bool, start: int = 0) -> Iterator[CsvRecord]:
    """The records of `data` from `start`, where one begins; blank lines are included.

    Unless `final`, more bytes follow, and a record that may continue in them is left out.
    """
    at, size = start, len(data)
    ends: list[int] = []

    def lines() -> Iterator[str]:
        """The lines of one record after another, as long as the record may continue."""
        nonlocal at
        while at < size and not (ends and (len(ends) >= MAX_LINES or at - start > MAX_BYTES)):
            line_start = at
            at = data.find(b"\n", line_start) + 1 or size
            ends.append(at)
            yield data[line_start:at].decode("latin-1")

    rows = parser(lines(), dialect)
    while start < size:
        try:
            cells = next(rows)
        except (csv.Error, StopIteration) as error:
            stopped = "end of data" in str(error) or isinstance(error, StopIteration)
            if stopped and at >= size and not final:
                return
            record = _broken(data, start, ends, dialect, error, stopped=stopped)
            at = record.end
            rows = parser(lines(), dialect)
        else:
            record = CsvRecord(start, at, len(ends), cells)
        yield record
        start = at
        ends.clear()


def _broken(
    data: bytes, start: int, ends: list[int], dialect: Dialect, error: Exception, *, stopped: bool
) -> CsvRecord:
    """A record that is broken: its lines up to the one whose quote stays open, otherwise all lines read for it.

    `ends` are the ends of these lines; `stopped`: the reader was refused another line.
    """
    open_lines = len(ends) if stopped else len(ends) - 1
    if open_lines and (stopped or not _closes(data[ends[-2] : ends[-1]], dialect)):
        # A lenient reader returns the open cell, whose newlines count back to its first line. A newline at its
        # end belongs to the last line: an escaped newline can also be followed by text that ends the cell.
        text = data[start : ends[open_lines - 1]].decode("latin-1")
        whole = io.StringIO(text if text.endswith("\n") else text + "\n", newline="\n")
        with suppress(csv.Error):  # a line whose end is escaped, and that is broken in another way
            cells = next(parser(whole, dialect, strict=False))
            first = open_lines - 1 - (cells[-1] or "").removesuffix("\n").count("\n")
            return CsvRecord(start, ends[first], first + 1, None, UNCLOSED)
    return CsvRecord(start, ends[-1], len(ends), None, _wording(error))


def _closes(line: bytes, dialect: Dialect) -> bool:
    """Whether a line that starts inside a quoted cell closes it before a delimiter or a line end. Then the cell is
    sound, and the fault comes after it. If there are no quotes, no cell is open."""
    if not dialect.quote:
        return True
    characters = (dialect.delimiter.encode(), dialect.quote.encode(), dialect.escape.encode())
    return _closing(*characters).match(line) is not None


@cache
def _closing(delimiter: bytes, quote: bytes, escape: bytes) -> re.Pattern[bytes]:
    delimiter, quote, escape = re.escape(delimiter), re.escape(quote), re.escape(escape)
    inside = rb"[^%s%s]++|%s%s" % (quote, escape, quote, quote) + (rb"|%s." % escape if escape else b"")
    return re.compile(rb"(?:%s)*+%s(?:[\r\n]|%s|\Z)" % (inside, quote, delimiter), re.DOTALL)


def _wording(error: Exception) -> str:
    if "new-line character" in str(error):
        return "a carriage return is outside quotes"
    if "expected after" in str(error):
        return "text follows a closing quote"
    return str(error)
