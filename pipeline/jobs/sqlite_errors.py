"""SQLite's errors as what they ask of a person."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import BrokenLedger, Unfinished, UsageError

_PASSING = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_LOCKED")
_FORBIDDEN = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")


@contextlib.contextmanager
def troubles(path: Path) -> Iterator[None]:
    """Raise Unfinished, UsageError or BrokenLedger for an error of SQLite's; a defect of ours stays as it is."""
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
            raise  # a defect of ours
        raise BrokenLedger(
            f"the state {path} cannot be used: {error}",
            hint="move it away: it is made again from the plans and ledgers beside it",
        ) from None
