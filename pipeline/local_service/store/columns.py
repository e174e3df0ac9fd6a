"""Columns for the database from Python values, as Arrow arrays.

`pa.array` of a list would import pandas, and is slower.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

import pyarrow as pa


def texts(values: Iterable[str]) -> pa.Array:
    return encoded([text.encode() for text in values])


def encoded(values: Sequence[bytes]) -> pa.Array:
    """UTF-8 strings as a column."""
    offsets = array("i", accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(
        pa.string(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def numbers(values: Iterable[int], kind: pa.DataType | None = None) -> pa.Array:
    """64-bit integers as a column of type `kind`; booleans become 0 and 1."""
    packed = array("q", values)
    return pa.Array.from_buffers(kind or pa.int64(), len(packed), [None, pa.py_buffer(packed)])


def instants(values: Iterable[int]) -> pa.Array:
    """Microseconds since 1970 as a column of naive timestamps."""
    return numbers(values, pa.timestamp("us"))


def table(**columns: pa.Array) -> pa.Table:
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))
