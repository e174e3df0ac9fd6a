"""ORC parts: stripes as blocks of Arrow IPC bytes, whose rows are read like those of Parquet blocks.

`pipeline.extractors.parquet_values` has the table of values; ORC's times have nine digits of fraction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import orc

from pipeline.extractors.containers import Damaged, readable
from pipeline.extractors.parquet_reader import packed
from pipeline.extractors.stream import seekable
from pipeline.models import Block, Part


def blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    """Runs of `block_rows` rows within a stripe; `offset` and `length` count rows of the part.

    Raises UnreadableExport for a truncated or damaged file, also halfway.
    """
    index = start = 0
    with _opened(part) as file:
        for stripe in range(file.nstripes):
            rows = file.read_stripe(stripe)
            for first in range(0, rows.num_rows, block_rows):
                batch = rows.slice(first, block_rows)
                yield Block(part.index, index, start, batch.num_rows, packed(batch))
                index += 1
                start += batch.num_rows
        if start != file.nrows:
            raise Damaged(f"its stripes have {start:,} rows, but its footer states {file.nrows:,}")


def check(part: Part) -> tuple[str, ...]:
    """The column names as they are written. Raises UnreadableExport if it is not an ORC file."""
    with _opened(part) as file:
        return tuple(file.schema.names)


@contextmanager
def _opened(part: Part) -> Iterator[orc.ORCFile]:
    kinds = (pa.ArrowException, OSError, ValueError)
    with seekable(part) as stream, readable(part.path, "is not a whole ORC file", kinds):
        yield orc.ORCFile(pa.PythonFile(stream))
