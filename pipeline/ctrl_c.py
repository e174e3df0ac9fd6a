"""Ctrl-C while DuckDB works in the main thread.

DuckDB looks for signals while a query runs there, and tells of one with a RuntimeError of its own instead of the
KeyboardInterrupt that Python's handler raised (duckdb 1.x, `Query interrupted`; a result read through Arrow's reader
may raise either). What catches KeyboardInterrupt must hear of it as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_DUCKDB_SAYS = "Query interrupted"


@contextmanager
def heard() -> Iterator[None]:
    """Around queries, as a block or a decorator. Raises KeyboardInterrupt where one of them was interrupted."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != _DUCKDB_SAYS:
            raise
        raise KeyboardInterrupt from None
