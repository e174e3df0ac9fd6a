"""CSV for people, who may open it in a spreadsheet: no text in it runs as a formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import TextIO

FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""First characters of a formula in a spreadsheet, full-width forms included (OWASP: CSV injection)."""
GUARD = "'"
"""Prefix of such a string, and of one that starts with this prefix, so that removing it once restores every string."""


def write_csv(file: TextIO, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows under their names, each text guarded and every cell quoted."""
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    writer.writerows([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def guarded(text: str) -> str:
    """A string as a cell that no spreadsheet runs as a formula."""
    return GUARD + text if text[:1] in FORMULA or text.startswith(GUARD) else text


def unguarded(cell: str) -> str:
    """The string of a cell that `guarded` wrote."""
    return cell[1:] if cell[:1] == GUARD and (cell[1:2] in FORMULA or cell[1:2] == GUARD) else cell
