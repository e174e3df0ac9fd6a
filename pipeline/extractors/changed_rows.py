"""The rows of a block, each changed before it is used: the base of readers around readers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw

from pipeline.extractors.csv_rows import DelimitedRows
from pipeline.extractors.rows import Rows
from pipeline.models import BrokenRow
from pipeline.values import Record, canonical

_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class ChangedRows(ABC):
    """The rows of another reader, with what `change` does to each."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.warnings = rows.warnings

    @property
    def columns(self) -> Sequence[str] | None:
        return self.rows.columns

    @abstractmethod
    def change(self, record: Record, number: int) -> None:
        """Change a row. `number` is -1 if the row was read before, so that it gives no second warning."""

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        for number, record in enumerate(self.rows):
            if not isinstance(record, BrokenRow):
                self.change(record, number)
            yield record

    def is_header(self, row: int) -> bool:
        """Whether a row is the header of delimited text once more."""
        return isinstance(self.rows, DelimitedRows | ChangedRows) and self.rows.is_header(row)

    def offset(self, row: int) -> int:
        return self.rows.offset(row)

    def text(self, row: int) -> str:
        return self.rows.text(row)

    def canonical(self, row: int) -> bytes:
        record: Record = dict(_decode(self.rows.canonical(row)))
        self.change(record, -1)
        return canonical(record)
