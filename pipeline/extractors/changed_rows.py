"""The rows of a block, with values added from folder names, and with integers in place of a column's floats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw

from pipeline.extractors.csv_rows import DelimitedRows
from pipeline.extractors.folder_values import Values
from pipeline.extractors.integer_columns import integers_in
from pipeline.extractors.rows import Rows
from pipeline.models import BrokenRow
from pipeline.values import BadValue, Record, Value, canonical, text

_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class ChangedRows:
    """The rows of another reader, changed. If both the file and a folder name have a column, the file's value counts,
    with a warning if the two differ."""

    def __init__(self, rows: Rows, folders: Values, integers: Sequence[str]) -> None:
        self._rows = rows
        self._folders = folders
        self._integers = integers
        self.warnings = rows.warnings

    @property
    def columns(self) -> Sequence[str] | None:
        of_file = self._rows.columns
        return None if of_file is None else (*of_file, *(name for name, _ in self._folders if name not in of_file))

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        for number, record in enumerate(self._rows):
            if not isinstance(record, BrokenRow):
                self._change(record, number)
            yield record

    def _change(self, record: Record, number: int) -> None:
        """Change a row. `number` is -1 if the row was read before, so that it is not warned about twice."""
        of_file = self._rows.columns or ()
        for name, value in self._folders:
            if name not in record and name not in of_file:
                if value is not None:
                    record[name] = value
            elif number >= 0 and (stated := _stated(record.get(name))) != value:
                detail = f"the folder says {name}={value or 'NULL'}, the row {stated or 'NULL'}; the row's value counts"
                self.warnings.append((number, "folder_value", detail))
        record |= integers_in(record, self._integers)

    def is_header(self, row: int) -> bool:
        """Whether a row repeats the header of delimited text."""
        return isinstance(self._rows, DelimitedRows) and self._rows.is_header(row)

    def offset(self, row: int) -> int:
        return self._rows.offset(row)

    def text(self, row: int) -> str:
        return self._rows.text(row)

    def canonical(self, row: int) -> bytes:
        record: Record = dict(_decode(self._rows.canonical(row)))
        self._change(record, -1)
        return canonical(record)


def _stated(value: Value) -> str | None:
    try:
        return text(value)
    except BadValue:
        return "an object or a list"
