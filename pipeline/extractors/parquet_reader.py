"""Parquet parts: row groups streamed in batches, each a block of Arrow IPC bytes; its rows as records.

`pipeline.extractors.parquet_values` has the table of values. The offset of a row is its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.extractors.containers import Damaged, readable
from pipeline.extractors.dialect import unique
from pipeline.extractors.parquet_footer import Footer
from pipeline.extractors.parquet_values import ColumnReader
from pipeline.extractors.rows import NumberedRows
from pipeline.extractors.stream import seekable
from pipeline.models import Block, BrokenRow, Part
from pipeline.native import AVAILABLE, native
from pipeline.values import Record

_READ_AHEAD = 1024 * 1024
_DAMAGED = "is not a whole Parquet file"


def blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    """Runs of `block_rows` rows within a row group; `offset` and `length` count rows of the part.

    Raises UnreadableExport for a truncated, damaged or encrypted file, also halfway.
    """
    index = start = 0
    with _opened(part) as (file, footer), readable(part.path, _DAMAGED):
        for group in range(file.metadata.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            for batch in file.iter_batches(block_rows, row_groups=[group], use_threads=False):
                if not batch.num_rows:
                    continue
                yield Block(part.index, index, start, batch.num_rows, packed(batch))
                index += 1
                start += batch.num_rows
            if start != end:
                raise Damaged(f"row group {group + 1:,} ends with row {start:,}, but with {end:,} by its footer")
            footer.compare(group)
        footer.finish()


def check(part: Part) -> tuple[str, ...]:
    """The column names as they are written. Raises UnreadableExport if it is not a Parquet file."""
    with _opened(part) as (file, _):
        names: list[str] = file.schema_arrow.names
        return tuple(names)


@contextmanager
def _opened(part: Part) -> Iterator[tuple[pq.ParquetFile, Footer]]:
    with seekable(part) as stream:
        with readable(part.path, _DAMAGED):
            file = pq.ParquetFile(stream, buffer_size=_READ_AHEAD, pre_buffer=False, page_checksum_verification=True)
            footer = Footer(file, stream)
            file.schema_arrow.to_string(show_field_metadata=False, show_schema_metadata=False)  # decodes every name
        with file:
            yield file, footer


def packed(batch: pa.RecordBatch) -> bytes:
    """The rows of a batch as the content of a block."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


class ParquetRows(NumberedRows):
    """The rows of one block. A second column of the same name is `name__2`, as in delimited text. With
    `members`, rows are `pipeline.native` Members if the C part is available."""

    @property
    def columns(self) -> Sequence[str]:
        with self._batch as batch:  # names do not require converting the values
            return unique(batch.schema.names)

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        names, columns, reader = self._columns
        if self._options.observe:
            self.warnings.extend(sorted(reader.warnings))
        broken = reader.broken
        make: Any = lambda values: dict(zip(names, values, strict=False))  # noqa: E731 - one of two functions
        if self._options.members and AVAILABLE:
            make = native.Header(names)
        if not broken:
            yield from map(make, zip(*columns, strict=True))
            return
        for row, values in enumerate(zip(*columns, strict=True)):
            yield broken[row] if row in broken else make(values)

    def _record(self, row: int) -> Record:
        names, columns, _ = self._columns
        return {name: values[row] for name, values in zip(names, columns, strict=True)}

    @cached_property
    def _columns(self) -> tuple[tuple[str, ...], list[list[Any]], ColumnReader]:
        reader = ColumnReader(self._options.unread, self._part.dialect.nan == "reject")
        with self._batch as batch:
            names = unique(batch.schema.names)
            columns = [reader.values(name, column) for name, column in zip(names, batch.columns, strict=True)]
        return names, columns, reader

    @property
    @contextmanager
    def _batch(self) -> Iterator[pa.RecordBatch]:
        with readable(self._part.path, _DAMAGED, (pa.ArrowException, UnicodeError)):
            with pa.ipc.open_stream(self._content) as stream:
                batch = stream.read_next_batch()
            yield batch
