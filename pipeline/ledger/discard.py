"""Whether a new plan may replace the one in a directory: only if its ledger proves that nothing was sent."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from pipeline.errors import BrokenLedger, Busy
from pipeline.ledger.marker import marker_of, read_marker, was_ever_applied
from pipeline.ledger.opening import describe_sent, is_locked, lock_file, nothing_taken, unlock
from pipeline.ledger.queries import reading
from pipeline.ledger.schema import read_meta


def check_nothing_sent(path: Path) -> None:
    """Raise Busy if something of the plan with the ledger at `path` may have been sent, or a run is going on."""
    if not was_ever_applied(path):
        return
    sent = _what_was_sent(path)
    _refuse(path, ", and a run is going on" if sent is None and is_locked(path) else sent)


def _refuse(path: Path, sent: str | None) -> None:
    if sent is not None:
        raise Busy(
            f"{path.parent} contains the ledger of a plan that was applied{sent}; backcast does not replace it",
            hint="choose another directory with -o, or remove this one if what was sent does not matter",
        )


def discard(path: Path) -> None:
    """Remove the ledger at `path`, if there is one. Raises Busy as `check_nothing_sent` does."""
    check_nothing_sent(path)
    if not was_ever_applied(path):
        return
    lock = lock_file(path, "this plan")
    try:
        _remove(path)
    finally:
        unlock(lock)


def _remove(path: Path) -> None:
    _refuse(path, _what_was_sent(path))
    # Remove the marker first: without its ledger it would indicate a lost ledger.
    for file in (marker_of(path), *(path.with_name(path.name + ending) for ending in ("", "-wal", "-shm"))):
        with contextlib.suppress(FileNotFoundError):
            file.unlink()


def _what_was_sent(path: Path) -> str | None:
    """What was sent and where, in words; None if nothing can have been accepted."""
    try:
        with reading(path) as database:
            if database is None or nothing_taken(database):
                return None
            return f" to {read_meta(database)['target']} ({describe_sent(database)})"
    except (BrokenLedger, sqlite3.Error):
        marker = read_marker(path)
        target = f" to {marker.target}" if marker is not None and marker.target else ""
        return f"{target}, but the ledger is lost or cannot be read"
