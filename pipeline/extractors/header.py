"""Whether the first row of a delimited text names its columns, or is a row like the others.

Taken for a header, a row is lost and every column is called after one person's values. What no one calls a column
tells it: a time, a UUID, an e-mail address, a number of five digits or with a fraction. Where there is none of these,
most of the names have to be odd: numbers, blanks, names that occur twice, or texts that stand in their own column too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipeline.errors import UsageError

NO_HEADER = "no_header"
"""The notice that a first row was taken for a row."""
SETTING = "header"
"""The setting by which people say it: no or yes."""
_VALUES = (
    ("a time", re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}(?: .*)?", re.ASCII)),
    ("a UUID", re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)),
    ("an e-mail address", re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")),
    ("a number", re.compile(r"[+-]?(?:\d{5,}|\d+\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)),
)
_SHORT_NUMBER = re.compile(r"[+-]?\d{1,4}", re.ASCII)
_SHOWN_CHARACTERS = 40


def asked(settings: Mapping[str, str]) -> str:
    """What settings say of headers: yes, no, or "" for nothing. Raises UsageError for another word."""
    word = settings.get(SETTING, "")
    if word not in ("", "yes", "no"):
        raise UsageError(f"--set {SETTING}={word} is unknown", hint=f"use --set {SETTING}=no or --set {SETTING}=yes")
    return word


def column_names(count: int) -> tuple[str, ...]:
    """What the columns of a text without a header are called: `column_1`, `column_2` …"""
    return tuple(f"column_{position}" for position in range(1, count + 1))


def values_in(first: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """What shows that the first row holds values, as part of a sentence; "" where it may well hold names.

    `rows` are some of those after it.
    """
    found = [(at, what, cell) for at, cell in enumerate(first, 1) if (what := _value(cell.strip()))]
    if found:
        at, what, cell = found[0]
        return f"column {at} of its first row, {cell.strip()[:_SHOWN_CHARACTERS]!r}, is {what}"
    numbers = [at for at, cell in enumerate(first) if _SHORT_NUMBER.fullmatch(cell.strip())]
    recurring = [at for at, cell in enumerate(first) if cell.strip() and any(_recurs(first, row, at) for row in rows)]
    odd = {at for at, cell in enumerate(first) if not cell.strip() or cell in first[:at]}.union(numbers, recurring)
    if (numbers or recurring) and 2 * len(odd) > len(first):
        return f"{len(odd)} of the {len(first)} cells of its first row are numbers, blank or values of later rows"
    return ""


def _value(cell: str) -> str:
    return next((what for what, form in _VALUES if form.fullmatch(cell)), "")


def _recurs(first: Sequence[str], row: Sequence[str], at: int) -> bool:
    """Whether a later row has the same cell in this column; a row that is a header again does not count."""
    return len(row) == len(first) and row[at] == first[at] and list(row) != list(first)
