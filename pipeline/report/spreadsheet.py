"""CSV that people open in a spreadsheet, which runs some cells as formulas (OWASP: CSV injection)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import TextIO

FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What may begin a formula, full-width forms included."""
GUARD = "'"
"""Stands before such a text, and before one that begins with it itself: who takes one away has the text as it was."""


def write_csv(file: TextIO, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows under their names, each text guarded and every cell quoted."""
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    writer.writerows([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def guarded(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula."""
    return GUARD + text if text[:1] in FORMULA or text.startswith(GUARD) else text
