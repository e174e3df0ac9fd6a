"""Whether the first row of a delimited text names its columns, or is a row like any other.

A row mistaken for a header is lost, and every column is named after one person's values. A row is not a header if a
cell is something that no column is named: a time, a UUID, an e-mail address, a number with five digits or a fraction.
Without such a cell, most cells have to be suspect: numbers, blanks, repetitions, or values that the same column has
later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pipeline.errors import UnreadableExport

NO_HEADER = "no_header"
"""The code of the notice that the first row is read as a row."""
UNSURE_ESCAPES = "unsure_escapes"
"""The code of the notice that backslashes may be escapes (`pipeline.extractors.escaped_text`)."""
_VALUES = (
    ("a time", re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}(?: .*)?", re.ASCII)),
    ("a UUID", re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)),
    ("an e-mail address", re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")),
    (
        "a line of a web server's log, whose values are not columns: convert the log to JSON lines",
        re.compile(r"\S+ \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\].*", re.ASCII | re.DOTALL),
    ),
    ("a number", re.compile(r"[+-]?(?:\d{5,}|\d+\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)),
)
is_time = _VALUES[0][1].fullmatch
"""Whether a cell is a date or a time."""
_SHORT_NUMBER = re.compile(r"[+-]?\d{1,4}", re.ASCII)
_SHOWN_CHARACTERS = 40
_MOST_TITLES = 20
_LIKE_A_NAME = re.compile(r"[\w$@#][\w $.:/()\[\]#@-]{0,98}[\w)\]]|[\w$@#]")
_BELOW_TITLES = re.compile(r'[^"{}<>|]{1,100}')
"""A cell of a header under titles, where people write symbols, commas and line breaks."""


def column_names(count: int) -> tuple[str, ...]:
    """The names of the columns of a text without a header: `column_1`, `column_2` …"""
    return tuple(f"column_{position}" for position in range(1, count + 1))


def no_header_row(path: str, row: str) -> UnreadableExport:
    """The error for a table without the row that should be its header."""
    hint = "give the number of the row with the column names, counted from 1: --set header=ROW"
    return UnreadableExport(f"{path} has no row {row} with column names", path=path, hint=hint)


def is_like_names(cells: Sequence[str]) -> bool:
    """Whether all cells look like the names of columns."""
    return all(map(_LIKE_A_NAME.fullmatch, cells))


def titles_above(rows: Sequence[Sequence[str]]) -> int:
    """How many of the first rows are titles above the header: 0 unless one row is clearly the header.

    Titles fill less than half of the columns, or a single cell. The header fills all of them with different names, and
    rows of such a table follow it.
    """
    widths = Counter(len(row) for row in rows if len(row) > 1)
    width = max(widths, key=lambda one: (widths[one], one), default=0)
    filled = (len(row) > 1 and 2 * sum(map(bool, map(str.strip, row))) >= width for row in rows[:_MOST_TITLES])
    above = next((number for number, full in enumerate(filled) if full), 0)
    header, below = rows[above] if rows else (), rows[above + 1 :]
    # A sheet's rows end with their last value, so the header may be longer than most of them.
    if sum(1 < len(row) <= len(header) for row in below) <= 0.9 * len(below) or len(set(header)) < width:
        return 0
    named = all(_BELOW_TITLES.fullmatch(cell.strip()) for cell in header)
    return above if named and not values_in(header, below) else 0


def values_in(first: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Why the first row has values, as part of a sentence; "" if it may have names.

    `rows` are some of the rows after it.
    """
    values = [(at, what, cell) for at, cell in enumerate(first, 1) if (what := _value(cell.strip()))]
    if values:
        at, what, cell = values[0]
        return f"column {at} of its first row, {cell.strip()[:_SHOWN_CHARACTERS]!r}, is {what}"
    numbers = [at for at, cell in enumerate(first) if _SHORT_NUMBER.fullmatch(cell.strip())]
    # A repeated header does not count.
    others = [row for row in rows if len(row) == len(first) and list(row) != list(first)]
    recurring = [at for at, cell in enumerate(first) if cell.strip() and any(row[at] == cell for row in others)]
    places = {cell: at for at, cell in reversed(list(enumerate(first)))}
    suspect = {at for at, cell in enumerate(first) if not cell.strip() or places[cell] < at}.union(numbers, recurring)
    if (numbers or recurring) and 2 * len(suspect) > len(first):
        return f"{len(suspect)} of the {len(first)} cells of its first row are numbers, blanks or values of later rows"
    return ""


def _value(cell: str) -> str:
    return next((what for what, form in _VALUES if form.fullmatch(cell)), "")
