"""Ctrl-C while DuckDB works in the main thread.

DuckDB handles signals itself while a query runs, and raises a RuntimeError (`Query interrupted`, duckdb 1.x; a result
read through Arrow may raise either) when Python's handler would raise KeyboardInterrupt. The code around a query
expects the latter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_DUCKDB_MESSAGE = "Query interrupted"


@contextmanager
def as_keyboard_interrupt() -> Iterator[None]:
    """For use around queries, as a block or a decorator. Raises KeyboardInterrupt if a query was interrupted."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != _DUCKDB_MESSAGE:
            raise
        raise KeyboardInterrupt from None
