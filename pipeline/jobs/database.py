"""Connections to the SQLite file of a job; SQLite's errors become those of `pipeline.errors`."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import BrokenLedger, Unfinished, UsageError

BUSY_SECONDS = 10.0
CACHE_KIB = 64 * 1024
REBUILD = "move the file away and run the job again: it is rebuilt from the plans and ledgers next to it"

_TEMPORARY = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_LOCKED")
_FORBIDDEN = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")


def connect(path: Path, journal: str) -> sqlite3.Connection:
    """A connection for writing, without implicit transactions. `journal` is a journal mode of SQLite."""
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
    try:
        for pragma in (
            f"journal_mode = {journal}", "synchronous = full", "temp_store = memory", f"cache_size = -{CACHE_KIB}"
        ):  # fmt: skip
            database.execute(f"pragma {pragma}")
    except BaseException:
        database.close()
        raise
    return database


def read_only_uri(path: Path) -> str:
    """The URI that opens a database for reading.

    Without a write-ahead log there is no writer: the file is read as it is, and no shared index is created next to
    it.
    """
    immutable = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
    return f"{path.resolve().as_uri()}?mode=ro{immutable}"


@contextlib.contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Raise Unfinished, UsageError or BrokenLedger for an error of SQLite."""
    try:
        yield
    except sqlite3.Error as error:
        name: str = getattr(error, "sqlite_errorname", "") or ""
        if not name:
            raise  # not from SQLite itself, so a bug of backcast
        if name.startswith(_TEMPORARY):
            hint = "free some space, or close the other program, and run the same command again; nothing is lost"
            raise Unfinished(f"cannot write the state {path}: {error}", hint=hint) from None
        unusable = f"cannot use the state {path}: {error}"
        if name.startswith(_FORBIDDEN):
            raise UsageError(unusable, hint="make its folder writable") from None
        raise BrokenLedger(unusable, hint=REBUILD) from None
