"""ORC parts: stripes as blocks of Arrow IPC bytes, whose rows are those of Parquet blocks.

`pipeline.extractors.parquet_values` has the table of values; ORC's times have nine digits of fraction.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import orc

from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import FETCH_AGAIN, Damaged
from pipeline.extractors.parquet_reader import packed
from pipeline.extractors.stream import opened, stored
from pipeline.models import Block, Part

_READ_AHEAD = 1024 * 1024


def blocks(part: Part, size: int) -> Iterator[Block]:
    """Runs of `size` rows within a stripe; `offset` and `length` count rows of the part.

    A part in a container is spooled to a temporary file, because an ORC file is read from its end.
    Raises UnreadableExport for a truncated or damaged file, also halfway.
    """
    index = start = 0
    with _opened(part) as file:
        for stripe in range(file.nstripes):
            rows = file.read_stripe(stripe)
            for first in range(0, rows.num_rows, size):
                batch = rows.slice(first, size)
                yield Block(part.index, index, start, batch.num_rows, packed(batch))
                index += 1
                start += batch.num_rows
        if start != file.nrows:
            raise Damaged(f"its stripes have {start:,} rows, and its footer states {file.nrows:,}")


def check(part: Part) -> tuple[str, ...]:
    """The column names as they are written. Raises UnreadableExport when the file cannot be one."""
    with _opened(part) as file:
        return tuple(file.schema.names)


@contextmanager
def _opened(part: Part) -> Iterator[orc.ORCFile]:
    with ExitStack() as stack:
        if part.codecs:
            stream = stack.enter_context(opened(part))
            spool = stack.enter_context(tempfile.TemporaryFile(prefix="backcast-"))
            shutil.copyfileobj(stream, spool, _READ_AHEAD)
            spool.seek(0)
            file: Any = pa.PythonFile(spool)
        else:
            file = pa.PythonFile(stack.enter_context(stored(part, in_places=True)))
        try:
            yield orc.ORCFile(file)
        except (pa.ArrowException, OSError, ValueError) as error:
            cause = str(error).split("\n")[0]
            raise UnreadableExport(
                f"{part.path} is not a whole ORC file: {cause}", path=part.path, hint=FETCH_AGAIN
            ) from error
