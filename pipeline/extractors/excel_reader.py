"""Excel parts: one sheet, read row by row; blocks are runs of rows as JSON lists of the row's number in the sheet and
its cells.

`pipeline.extractors.excel_rows` has the table of values. Only the strings that a workbook's cells share are in memory
as a whole, so their size has a limit.
"""

from __future__ import annotations

import difflib
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from itertools import chain, dropwhile, islice
from typing import Any

import msgspec
import openpyxl
from msgspec import UNSET
from openpyxl.styles.numbers import is_datetime
from openpyxl.utils.escape import unescape

from pipeline import storage
from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import readable
from pipeline.extractors.dialect import unique
from pipeline.extractors.format import Recognized
from pipeline.extractors.header import is_time, no_header_row, titles_above
from pipeline.models import Block, Dialect, Part
from pipeline.text import pluralize, quoted

OTHER_SHEETS, MERGED_CELLS, ROW_NUMBERS = "other_sheets", "merged_cells", "row_numbers"
"""The codes of notices about a workbook."""
_DAMAGED = "is not a whole workbook"
MAX_TEXT_BYTES = 512 * 1024 * 1024
_AT_ONCE = 1000
_LOOKED_AT = 60
_ENOUGH_COLUMNS = 3  # a name, a person and a time
_WINDOW = 1024 * 1024
_OVERLAP = 64 * 1024
_WITHOUT_VALUE = re.compile(
    rb'<(?:\w+:)?c\s(?![^>]*\bt="str")[^>]*>\s*(?:<(?:\w+:)?f(?:\s[^>]*)?/>|<(?:\w+:)?f(?:\s[^>]*)?>[^<]*</(?:\w+:)?f>)'
    rb"\s*(?:</(?:\w+:)?c>|<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</)"
)
"""A cell with a formula and no value. The value of one of type `str` may be an empty string."""
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*ref="([^"]*)"')
_encode = msgspec.json.Encoder().encode


def recognize(file: str, path: str, wanted: str, asked: str = "") -> Recognized:
    """The sheet `wanted` of a workbook, otherwise the first that is most like a table of events; and its columns.

    Its header is row `asked` of the sheet, otherwise the first row with a value that is not a title.
    """
    with readable(path, _DAMAGED), _book(file, path) as book:
        names = [sheet.title for sheet in book.worksheets]
        if not names or (wanted and wanted not in names):
            near = [*difflib.get_close_matches(wanted, names, 1), *names, "NAME"]
            raise UnreadableExport(
                f"{path} has no sheet {wanted!r}; it has {', '.join(map(repr, names)) or 'none'}",
                path=path,
                hint=f"name one of its sheets: --set {quoted(f'sheet={near[0]}')}",
            )
        tables = {name: _header(book[name], asked) for name in ([wanted] if wanted else names)}
        name = max(tables, key=lambda name: tables[name][2])
        row, raw, _ = tables[name]
        if asked.isdecimal() and not raw:
            raise no_header_row(path, asked)
    return Recognized(Dialect(header=unique(list(raw)), header_row=row, sheet=name), raw)


def _header(sheet: Any, asked: str) -> tuple[int | msgspec.UnsetType, tuple[str, ...], tuple[bool, int]]:
    """The row of a sheet's header, UNSET for the first with a value; its cells; whether times are below it; and its
    number of columns, at most `_ENOUGH_COLUMNS`, or 0 if no row is below it."""
    first = int(asked) if asked.isdecimal() else 1
    some = list(islice(dropwhile(lambda row: row[0] < first, _rows(sheet)), _LOOKED_AT))
    texts = [[_text(cell) for cell in cells] for _, cells in some]
    above = titles_above(texts) if not asked else 0
    row = some[above][0] if some and (above or asked.isdecimal()) else UNSET
    raw, below = tuple(texts[above]) if texts else (), texts[above + 1 :]
    timed = any(map(is_time, chain.from_iterable(below)))
    return row, raw, (timed, min(len(raw), _ENOUGH_COLUMNS) if below else 0)


def _text(cell: Any) -> str:
    return "" if cell is None else cell if isinstance(cell, str) else _encode(cell).decode()


def blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    """Runs of `block_rows` rows; `offset` and `length` count rows below the sheet's header that are not blank.

    Raises UnreadableExport for a truncated or damaged file, also halfway.
    """
    index = start = 0
    with readable(part.path, _DAMAGED), _book(part.file, part.path) as book:
        rows = _below_header(book[part.dialect.sheet], part.dialect)
        while some := list(islice(rows, block_rows)):
            yield Block(part.index, index, start, len(some), _encode(some))
            index += 1
            start += len(some)


def row_of_sheet(part: Part, row: int) -> int:
    """The number in its sheet of a row, which counts from 1 below the header; 0 if the sheet has fewer rows."""
    with readable(part.path, _DAMAGED), _book(part.file, part.path) as book:
        numbers = (number for number, _ in _below_header(book[part.dialect.sheet], part.dialect))
        return next(islice(numbers, row - 1, None), 0)


def _below_header(sheet: Any, dialect: Dialect) -> Iterator[tuple[int, list[Any]]]:
    """The rows below the header, each with its number in the sheet."""
    numbered = _rows(sheet)
    header = dialect.header_row or next(numbered, (0, []))[0]
    return ((number, cells) for number, cells in numbered if number > header)


def notices(part: Part) -> Iterator[tuple[str, str]]:
    """What a person has to know about a workbook. Raises UnreadableExport for formulas that were never computed."""
    with readable(part.path, _DAMAGED), _book(part.file, part.path) as book:
        others = [sheet.title for sheet in book.worksheets if sheet.title != part.dialect.sheet]
        sheet = book[part.dialect.sheet]
        inside = sheet._worksheet_path
        first = next((number for number, _ in _below_header(sheet, part.dialect)), 0)
    if first:
        detail = f"row 1 in messages is row {first} of the sheet {part.dialect.sheet!r}"
        yield ROW_NUMBERS, f"{detail}; blank rows are not counted"
    if others:
        named = ", ".join(map(repr, others))
        yield OTHER_SHEETS, f"read only the sheet {part.dialect.sheet!r}, not {named} (--set sheet=NAME)"
    merged, example = 0, ""
    with (
        readable(part.path, _DAMAGED),
        storage.opened(part.file) as book_file,
        zipfile.ZipFile(book_file) as archive,
        archive.open(inside.lstrip("/")) as stream,
    ):
        seen = b""
        while piece := stream.read(_WINDOW):
            window = seen + piece
            if _WITHOUT_VALUE.search(window):
                raise UnreadableExport(
                    f"{part.path} has formulas without computed values in the sheet {part.dialect.sheet!r}",
                    path=part.path,
                    hint="open it in Excel and save it",
                )
            for found in _MERGED.finditer(window):
                if found.end() > len(seen):
                    merged += 1
                    example = example or found[1].decode("ascii", "replace")
            seen = window[-_OVERLAP:]
    if merged:
        yield (
            MERGED_CELLS,
            (
                f"{pluralize(merged, 'range')} of merged cells, the first {example}: only the first cell has the value,"
                " the others are missing"
            ),
        )


@contextmanager
def _book(file: str, path: str) -> Iterator[Any]:
    with storage.opened(file) as stream, zipfile.ZipFile(stream) as archive:
        texts = sum(one.file_size for one in archive.infolist() if one.filename.lower().endswith("sharedstrings.xml"))
    if texts > MAX_TEXT_BYTES:
        raise UnreadableExport(
            f"{path} has {texts:,} bytes of shared strings; the limit is {MAX_TEXT_BYTES >> 20} MiB",
            path=path,
            hint="save the sheet as CSV",
        )
    with storage.opened(file) as stream:  # by its content: openpyxl refuses names that do not end in .xlsx
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and controls, which do not affect rows
            book = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        try:
            yield book
        finally:
            book.close()


def _rows(sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    """The rows that have a value, each with its number, cut after its last value. The size that a sheet states can be
    wrong."""
    sheet.reset_dimensions()
    rows = enumerate(sheet.iter_rows(), 1)
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            some = list(islice(rows, _AT_ONCE))
        if not some:
            return
        for number, row in some:
            cells = [_value(cell) for cell in row]
            while cells and cells[-1] is None:
                cells.pop()
            if cells:
                yield number, cells


def _value(cell: Any) -> Any:
    value = cell.value
    if value is None or value == "":
        return None
    if cell.data_type == "e":
        return {"error": str(value)}
    if isinstance(value, str):
        return unescape(value) if "_x" in value else value
    if isinstance(value, datetime):
        if value.time() == time() and is_datetime(cell.number_format) == "date":
            return value.date().isoformat()
        return value.isoformat()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration(value)
    return value


def _duration(value: timedelta) -> str:
    """Hours, minutes and seconds, as Excel shows it: `30:00:00`."""
    micros = value // timedelta(microseconds=1)
    seconds, fraction = divmod(abs(micros), 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return ("-" if micros < 0 else "") + text + (f".{fraction:06d}" if fraction else "")
