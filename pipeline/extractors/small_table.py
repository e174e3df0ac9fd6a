"""Reads a small table that a person edits, perhaps in a spreadsheet: CSV in any dialect, or a workbook."""

from __future__ import annotations

from os import PathLike, fspath

from msgspec import UNSET

from pipeline import values
from pipeline.errors import BackcastError, UsageError
from pipeline.extractors import blocks, open_source, rows
from pipeline.models import BrokenRow
from pipeline.spreadsheets import unguarded
from pipeline.text import pluralize


def read_table(path: str | PathLike[str], hint: str) -> list[tuple[str, dict[str, str]]]:
    """Each row of a table, without blank cells and spreadsheet guards, and its file and its number for errors: the
    header is row 1, and blank rows do not count. Raises UsageError if there is no such file or a row cannot be read."""
    found: list[tuple[str, dict[str, str]]] = []
    try:
        parts = open_source([fspath(path)]).parts
        if len(parts) != 1:
            raise UsageError(f"{fspath(path)} has {pluralize(len(parts), 'table')}; one is needed", hint=hint)
        part = parts[0]
        header = part.dialect.header_row
        every = (row for block in blocks(part) for row in rows(part, block))
        for number, row in enumerate(every, 2 if header is UNSET else header + 1):
            if isinstance(row, BrokenRow):
                raise UsageError(f"row {number} of {part.path}: {row.detail}", hint=hint)
            cells = {name.strip(): unguarded(values.text(value) or "") for name, value in row.items()}
            if filled := {name: cell for name, cell in cells.items() if cell.strip()}:
                found.append((f"row {number} of {part.path}", filled))
    except UsageError:
        raise
    except (BackcastError, ValueError) as error:
        raise UsageError(f"cannot read {fspath(path)} as a table: {error}", hint=hint) from None
    return found
