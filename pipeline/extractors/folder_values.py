"""Columns that the folders of a file name: `event_name=purchase/dt=2024-01-01/part-0.parquet`.

Hive, Spark, Athena, Glue and Delta write a table so, and leave these columns out of the files. A value is text, with
escapes as in URLs; NULL is a word of Hive's, or nothing (docs/know/exports.md#folders-with-values).
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence
from urllib.parse import unquote

from pipeline.extractors.changed_rows import ChangedRows
from pipeline.extractors.rows import Rows
from pipeline.models import Part
from pipeline.values import BadValue, Record, Value, text

_FOLDER = re.compile(r"([^=/]+)=([^/]*)")
_NULLS = ("", "__HIVE_DEFAULT_PARTITION__")

Values = tuple[tuple[str, str | None], ...]


def folder_values(part: Part) -> Values:
    """(column, value) of the folders right above a file or a member of an archive, outermost first; None is NULL."""
    path = f"{os.path.dirname(part.file)}/{part.member}" if part.member else part.file
    found: dict[str, str | None] = {}
    for folder in reversed(path.split("/")[:-1]):
        match = _FOLDER.fullmatch(folder)
        if match is None:
            break
        value = unquote(match[2])
        found.setdefault(unquote(match[1]), None if value in _NULLS else value)
    return tuple(reversed(found.items()))


class FolderRows(ChangedRows):
    """The rows of a block with the values of its folders. A column of the file wins, with a warning if it differs."""

    def __init__(self, rows: Rows, values: Values) -> None:
        super().__init__(rows)
        self._values = values

    @property
    def columns(self) -> Sequence[str] | None:
        of_file = self.rows.columns
        return None if of_file is None else (*of_file, *(name for name, _ in self._values if name not in of_file))

    def change(self, record: Record, number: int) -> None:
        of_file = self.rows.columns or ()
        for name, value in self._values:
            if name not in record and name not in of_file:
                if value is not None:
                    record[name] = value
            elif number >= 0 and (stated := _stated(record.get(name))) != value:
                detail = (
                    f"{name}={value or 'NULL'} is the folder, and {stated or 'NULL'} the row's own value, which counts"
                )
                self.warnings.append((number, "folder_value", detail))


def _stated(value: Value) -> str | None:
    try:
        return text(value)
    except BadValue:
        return "an object or a list"
