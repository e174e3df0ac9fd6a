"""Parquet parts: row groups streamed in batches, each a block of Arrow IPC bytes; its rows as records.

`pipeline.extractors.parquet_values` has the table of values. The offset of a row is its number.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import FETCH_AGAIN, Damaged
from pipeline.extractors.dialect import unique
from pipeline.extractors.format import RowOptions
from pipeline.extractors.parquet_footer import Footer
from pipeline.extractors.parquet_values import ColumnReader
from pipeline.extractors.stream import opened, stored
from pipeline.models import Block, BrokenRow, Part
from pipeline.native import AVAILABLE, native
from pipeline.values import Record, canonical

_encode = msgspec.json.Encoder().encode
_READ_AHEAD = 1024 * 1024


def blocks(part: Part, size: int) -> Iterator[Block]:
    """Runs of `size` rows within a row group; `offset` and `length` count rows of the part.

    A part in a container is spooled to a temporary file, because a Parquet file is read from its end.
    Raises UnreadableExport for a truncated, damaged or encrypted file, also halfway.
    """
    index = start = 0
    with _opened(part) as (file, footer), _readable(part.path):
        for group in range(file.metadata.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            for batch in file.iter_batches(size, row_groups=[group], use_threads=False):
                if not batch.num_rows:
                    continue
                yield Block(part.index, index, start, batch.num_rows, packed(batch))
                index += 1
                start += batch.num_rows
            if start != end:
                raise Damaged(f"row group {group + 1:,} ends with row {start:,}, and with {end:,} by its footer")
            footer.compare(group)
        footer.finish()


def check(part: Part) -> tuple[str, ...]:
    """The column names as they are written. Raises UnreadableExport when the file cannot be one."""
    with _opened(part) as (file, _):
        names: list[str] = file.schema_arrow.names
        return tuple(names)


@contextmanager
def _opened(part: Part) -> Iterator[tuple[pq.ParquetFile, Footer]]:
    if part.codecs:
        with tempfile.TemporaryFile(prefix="backcast-") as spool, opened(part) as stream:
            shutil.copyfileobj(stream, spool, _READ_AHEAD)
            spool.seek(0)
            with _directory(part, spool) as opened_file:
                yield opened_file
    else:
        with stored(part, in_places=True) as plain, _directory(part, plain) as opened_file:
            yield opened_file


@contextmanager
def _directory(part: Part, stream: IO[bytes]) -> Iterator[tuple[pq.ParquetFile, Footer]]:
    with _readable(part.path):
        file = pq.ParquetFile(stream, buffer_size=_READ_AHEAD, pre_buffer=False, page_checksum_verification=True)
        footer = Footer(file, stream)
        file.schema_arrow.to_string(show_field_metadata=False, show_schema_metadata=False)  # decodes every name
    with file:
        yield file, footer


@contextmanager
def _readable(path: str, kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """UnreadableExport for what pyarrow raises for a damaged file.

    Around calls of pyarrow alone that is any exception: besides its own errors Python's for names that are not UTF-8,
    for sizes that are too large, and for whatever else its C++ threw.
    """
    try:
        yield
    except kinds as error:
        cause = (str(error) or type(error).__name__).split("\n")[0]
        raise UnreadableExport(f"{path} is not a whole Parquet file: {cause}", path=path, hint=FETCH_AGAIN) from error


def packed(batch: pa.RecordBatch) -> bytes:
    """The content of a block with the rows of a batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


class ParquetRows:
    """The rows of one block. A second column of the same name is `name__2`, as in delimited text. With
    `members`, rows are `pipeline.native` Members where the C part is available."""

    def __init__(self, data: bytes, offset: int, part: Part, options: RowOptions) -> None:
        self._data = data
        self._path = part.path
        self._offset = offset
        self._observe = options.observe
        self._members = options.members and AVAILABLE
        self._reader = partial(ColumnReader, options.unread, part.dialect.nan == "reject")
        self.warnings: list[tuple[int, str, str]] = []

    @property
    def columns(self) -> Sequence[str]:
        with self._batch as batch:  # whose values are not converted for their names
            return unique(batch.schema.names)

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        return self._natively() if self._members else self._rows()

    def _natively(self) -> Iterator[Any]:
        """The rows as Members; of a block with a broken row by `_rows`."""
        reader = self._reader()
        with self._batch as batch:
            names = unique(batch.schema.names)
            columns = map(reader.texts_or_values, names, batch.columns)
            table = native.Table(names, tuple(columns), batch.num_rows)
        if reader.broken:
            yield from self._rows()
            return
        if self._observe:
            self.warnings.extend(sorted(reader.warnings))
        yield from table

    def _rows(self) -> Iterator[Record | BrokenRow]:
        names, columns, reader = self._columns
        if self._observe:
            self.warnings.extend(sorted(reader.warnings))
        broken = reader.broken
        make: Any = lambda values: dict(zip(names, values, strict=False))  # noqa: E731 - one of two functions
        if self._members:
            make = native.Header(names, True)
        if not broken:
            yield from map(make, zip(*columns, strict=True))
            return
        for row, values in enumerate(zip(*columns, strict=True)):
            yield broken[row] if row in broken else make(values)

    def offset(self, row: int) -> int:
        return self._offset + row

    def text(self, row: int) -> str:
        """The row as a JSON text. What broke it appears as null, or with backslash escapes."""
        record = self._record(row)
        return _encode(record).decode()

    def canonical(self, row: int) -> bytes:
        return canonical(self._record(row))

    def _record(self, row: int) -> Record:
        names, columns, _ = self._columns
        return {name: values[row] for name, values in zip(names, columns, strict=True)}

    @cached_property
    def _columns(self) -> tuple[tuple[str, ...], list[list[Any]], ColumnReader]:
        reader = self._reader()
        with self._batch as batch:
            names = unique(batch.schema.names)
            columns = [reader.values(name, column) for name, column in zip(names, batch.columns, strict=True)]
        return names, columns, reader

    @property
    @contextmanager
    def _batch(self) -> Iterator[pa.RecordBatch]:
        with _readable(self._path, (pa.ArrowException, UnicodeError)):
            with pa.ipc.open_stream(self._data) as stream:
                batch = stream.read_next_batch()
            yield batch
