"""Errors of SQLite as those of `pipeline.errors`, which say what to do."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import BrokenLedger, Unfinished, UsageError

_PASSING = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_LOCKED")
_FORBIDDEN = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")


@contextlib.contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Raise Unfinished, UsageError or BrokenLedger for an error of SQLite.

    An error without a SQLite code is our bug and stays as it is.
    """
    try:
        yield
    except sqlite3.Error as error:
        name: str = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(_PASSING):
            hint = "make room, or close the other program, and run the same command again; nothing is lost"
            raise Unfinished(f"the state {path} cannot be written: {error}", hint=hint) from None
        if name.startswith(_FORBIDDEN):
            raise UsageError(f"the state {path} cannot be used: {error}", hint="make its folder writable") from None
        if not name:
            raise  # our bug
        raise BrokenLedger(
            f"the state {path} cannot be used: {error}",
            hint="move it away: it is made again from the plans and ledgers beside it",
        ) from None
