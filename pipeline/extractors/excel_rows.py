"""Rows of a block of an Excel sheet, by one table.

=================================  =========================================================================
cell                               value
=================================  =========================================================================
blank                              missing: the record has no such member
text                               unchanged
number                             the stored number. Excel stores 15 digits: an integer of 16 or more has the warning
                                   `rounded_integer`
logical value                      bool
date and time                      `2024-03-10T02:30:00`, with a fraction if it has one, without a zone: Excel has
                                   none. A midnight that is shown as a date is `2024-03-10`
time of day, duration              `02:30:00`, `30:00:00`
formula                            the value that Excel stored with it
error (`#N/A`, `#DIV/0!` …)        missing, with the warning `cell_error`
in a merged range                  only the first cell has the value, the others are missing
=================================  =========================================================================

A row without any value is not a row; one with a value beyond the columns of the header is rejected (`bad_csv_row`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from pipeline.extractors.rows import NumberedRows
from pipeline.models import BrokenRow
from pipeline.text import pluralize
from pipeline.values import Record

_DIGITS = 10**15


class ExcelRows(NumberedRows):
    """The rows of one block."""

    @property
    def columns(self) -> Sequence[str]:
        return self._part.dialect.header

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        for row, (_, cells) in enumerate(self._numbered):
            if len(cells) > len(self.columns):
                yield BrokenRow("bad_csv_row", f"{pluralize(len(cells), 'cell')}; the header has {len(self.columns)}")
                continue
            if self._options.observe:
                self._warn(row, cells)
            yield self._record(row)

    def _warn(self, row: int, cells: list[Any]) -> None:
        for name, cell in zip(self.columns, cells, strict=False):
            if isinstance(cell, dict):
                self.warnings.append((row, "cell_error", f"{name}: {cell['error']}"))
            elif isinstance(cell, (int, float)) and abs(cell) >= _DIGITS and cell == int(cell):
                self.warnings.append((row, "rounded_integer", f"{name}: {int(cell)}"))

    def offset(self, row: int) -> int:
        """The row's number in the sheet, from 1."""
        return self._numbered[row][0]

    def text(self, row: int) -> str:
        """The cells of the row as a JSON list."""
        return msgspec.json.encode(self._numbered[row][1]).decode()

    def _record(self, row: int) -> Record:
        return {
            name: cell
            for name, cell in zip(self.columns, self._numbered[row][1], strict=False)
            if cell is not None and not isinstance(cell, dict)
        }

    @cached_property
    def _numbered(self) -> list[tuple[int, list[Any]]]:
        return msgspec.json.decode(self._content, type=list[tuple[int, list[Any]]])
