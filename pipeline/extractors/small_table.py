"""Reads a small table that a person edits, perhaps in a spreadsheet: CSV in any dialect, or a workbook."""

from __future__ import annotations

from os import PathLike, fspath

from msgspec import UNSET

from pipeline import values
from pipeline.errors import BackcastError, UsageError
from pipeline.extractors import blocks, open_source, rows
from pipeline.models import BrokenRow


def read_table(path: str | PathLike[str], hint: str) -> list[tuple[str, dict[str, str]]]:
    """Each row of a table, without blank cells, and its file and line for errors. A cell of several lines counts as
    one. Raises UsageError if there is no such file or a row cannot be read."""
    found: list[tuple[str, dict[str, str]]] = []
    try:
        (part,) = open_source([fspath(path)]).parts
        header = part.dialect.header_row
        number = (1 if header is UNSET else header) + 1
        for block in blocks(part):
            for number, row in enumerate(rows(part, block), number):  # noqa: B020  (goes on in the next block)
                if isinstance(row, BrokenRow):
                    raise UsageError(f"line {number} of {part.path}: {row.detail}", hint=hint)
                cells = {name.strip(): values.text(value) or "" for name, value in row.items()}
                filled = {name: cell for name, cell in cells.items() if cell.strip()}
                if filled:
                    found.append((f"line {number} of {part.path}", filled))
            number += 1
    except UsageError:
        raise
    except (BackcastError, ValueError) as error:
        raise UsageError(f"cannot read {fspath(path)} as a table: {error}", hint=hint) from None
    return found
