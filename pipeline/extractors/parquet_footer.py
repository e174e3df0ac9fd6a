"""Compares the footer of a Parquet file with itself, with the file and with the rows that were read.

The footer has no checksum, and the library trusts it: with one damaged byte it leaves out row groups or rows. Facts
that are stored twice must agree: rows of the file and of its row groups, values and rows of a column, names and types
of columns in the schema and in each row group, the footer's length. The columns must also lie in the file without
overlap and without a page of data between them. (Layout: the Parquet format, parquet.thrift.)
"""

from __future__ import annotations

import io
import re
from typing import IO

import pyarrow.parquet as pq

from pipeline.extractors.containers import Damaged

_MAGIC = b"PAR1"
_TAIL = 8
"""The footer's length in 4 bytes, and the magic."""
_PAGE = re.compile(rb"\x15[\x00\x04\x06]\x15")
"""The header of a page of data or of a dictionary in Thrift's compact protocol: the first field is its type, the second
its size. Bloom filters and page indexes, which may lie between columns, start with other bytes; padding is zeros."""


class Footer:
    """One footer. Each method raises Damaged if the footer contradicts itself or the file."""

    def __init__(self, file: pq.ParquetFile, stream: IO[bytes]) -> None:
        self._stream = stream
        metadata = self._metadata = file.metadata
        self._columns = [file.schema.column(number) for number in range(metadata.num_columns)]
        self._ranges: list[tuple[int, int]] = []
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        rows = sum(group.num_rows for group in groups)
        if rows != metadata.num_rows or any(group.num_rows < 0 for group in groups):
            raise Damaged(f"its footer states {metadata.num_rows:,} rows, but {rows:,} in its row groups")
        for group in groups:
            if group.num_columns != len(self._columns):
                raise Damaged(
                    f"its footer states {len(self._columns):,} columns, but {group.num_columns:,} in a row group"
                )
        self._end = stream.seek(-_TAIL, io.SEEK_END)
        self._length = int.from_bytes(stream.read(4), "little")
        if self._length != metadata.serialized_size:
            raise Damaged(f"its footer has {self._length:,} bytes but ends after {metadata.serialized_size:,}")

    def compare(self, number: int) -> None:
        """Checks the columns of a row group after it was read.

        Not before: if the library cannot create column metadata, it raises an error while reading, but it ends the
        process if the metadata is requested (C++ throws, and pyarrow does not catch it there).
        """
        group = self._metadata.row_group(number)
        for at, column in enumerate(self._columns):
            chunk = group.column(at)
            if (chunk.path_in_schema, chunk.physical_type) != (column.path, column.physical_type):
                raise Damaged(
                    f"its schema calls a column {column.path!r}, row group {number + 1:,} {chunk.path_in_schema!r}"
                )
            if chunk.num_values < group.num_rows or (
                chunk.num_values > group.num_rows and not column.max_repetition_level
            ):
                raise Damaged(
                    f"its footer states {chunk.num_values:,} values of {column.path!r} in the {group.num_rows:,} rows "
                    f"of row group {number + 1:,}"
                )
            pages = [first for first in (chunk.dictionary_page_offset, chunk.data_page_offset) if first]
            if pages:  # a column without rows may have no page of data, at byte 0
                self._ranges.append((min(pages), min(pages) + chunk.total_compressed_size))

    def finish(self) -> None:
        """Checks the positions of all columns, after `compare` of every row group."""
        position = len(_MAGIC)
        for first, last in [*sorted(self._ranges), (self._end - self._length, self._end)]:
            if not position <= first <= last:
                raise Damaged(f"its footer states a column at bytes {first:,} to {last:,}, which overlaps another")
            self._stream.seek(position)
            if first - position >= 3 and _PAGE.match(self._stream.read(3)):
                raise Damaged(f"its footer names no column for the page at byte {position:,}")
            position = last
