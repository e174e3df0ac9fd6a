"""The rows of a block, with values added from folder names, and with integers in place of a column's floats.

pandas and Spark write integers as floats if a column has a null: `42.0` is turned back into 42. As an id, `42.0` would
be another person than `42` (docs/know/exports.md#integers-as-floats).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Raw

from pipeline.extractors.csv_rows import DelimitedRows
from pipeline.extractors.folder_values import Values
from pipeline.extractors.rows import Rows
from pipeline.models import BrokenRow
from pipeline.values import BadValue, Record, Value, canonical, is_absent, opened, text

_encode = msgspec.json.Encoder().encode
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")
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


def integers_in(record: Record, columns: Sequence[str]) -> Record:
    """The new values of the columns, which may be paths (`user/id`), that have floats for integers."""
    found: Record = {}
    for name in columns:
        column, *members = name.strip("/").split("/")
        value = found.get(column, record.get(column))
        if is_absent(value):
            continue
        with suppress(BadValue):  # not an object or not text: it stays as it is
            found[column] = _within(value, members)
    return found


def _within(value: Value, members: Sequence[str]) -> Value:
    """The value, with an integer at the path `members`."""
    if not members:
        match = _WHOLE.fullmatch(text(value) or "")
        if match is None:
            return value
        if isinstance(value, str):
            return match[1]
        return Raw(f'"{match[1]}"'.encode() if _is_text(value) else match[1].encode())
    inner = value if isinstance(value, dict) else opened(value)
    if inner is None or is_absent(member := inner.get(members[0])):
        return value
    changed = _within(member, members[1:])
    if changed is member:
        return value
    inner[members[0]] = changed
    if isinstance(value, dict):
        return inner
    written = _encode(inner)
    if isinstance(value, str):
        return written.decode()
    return Raw(_encode(written.decode()) if _is_text(value) else written)


def _is_text(value: Value) -> bool:
    return isinstance(value, Raw) and bytes(value)[:1] == b'"'
