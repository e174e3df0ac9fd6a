"""May a plan be planned over? Where its ledger proves that nobody took anything of it; then the ledger goes, too."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from pipeline.errors import BrokenLedger, Busy
from pipeline.ledger.marker import marker_of, read_marker, was_ever_applied
from pipeline.ledger.opening import describe_sent, is_locked, lock_file, nothing_taken, unlock
from pipeline.ledger.queries import reading


def check_nothing_sent(path: Path) -> None:
    """Raise Busy where somebody may have taken something of the plan with the ledger at `path`, or a run goes on."""
    if not was_ever_applied(path):
        return
    told = _what_was_sent(path)
    _refuse(path, ", and a run goes on" if told is None and is_locked(path) else told)


def _refuse(path: Path, told: str | None) -> None:
    if told is not None:
        raise Busy(
            f"{path.parent} holds the ledger of a plan that was applied{told}; it is never planned over",
            hint="choose another directory with -o, or remove this one if what it sent does not matter",
        )


def discard(path: Path) -> None:
    """Remove the ledger at `path`, if there is one. Raises Busy as `check_nothing_sent` does."""
    check_nothing_sent(path)
    if not was_ever_applied(path):
        return
    lock = lock_file(path, "this plan")
    try:
        _refuse(path, _what_was_sent(path))
        # The marker first: without its ledger it would say for ever that something was sent.
        for file in (marker_of(path), *(path.with_name(path.name + ending) for ending in ("", "-wal", "-shm"))):
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
    finally:
        unlock(lock)


def _what_was_sent(path: Path) -> str | None:
    """What was sent to where, in words; None where nobody can have taken anything."""
    try:
        with reading(path) as database:
            if database is None or nothing_taken(database):
                return None
            (target,) = database.execute("select value from meta where key = 'target'").fetchone()
            return f" to {target} ({describe_sent(database)})"
    except (BrokenLedger, sqlite3.Error):
        marker = read_marker(path)
        target = f" to {marker.target}" if marker is not None and marker.target else ""
        return f"{target}, and it is lost or cannot be read"
