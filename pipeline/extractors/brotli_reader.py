"""Brotli streams, decompressed by pyarrow, which also says when one has no end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa


def pieces(stored: IO[bytes], size: int) -> Iterator[bytes]:
    """The content in pieces of at most `size` bytes. Raises OSError for a truncated or damaged stream."""
    stream = pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), "brotli")
    while piece := stream.read(size):
        yield piece
