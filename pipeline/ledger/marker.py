"""The marker: a small file next to the ledger that reveals a lost ledger.

Without its ledger a plan looks as if nothing was ever sent, and all of it would be sent again. So `sent-to.json` has
the id of the ledger with which the plan is sent, the target, and the number of runs. Each run writes it durably, after
its own row is committed to the ledger and before a byte leaves: a crash between the two leaves a ledger without a
marker, which does no harm, and never a marker without a ledger. `rm ledger.sqlite*` does not remove it.

A ledger is refused if it is missing, if it is another one, or if it has fewer runs (an older copy that was put back). A
copy from before the last few steps of the same run cannot be distinguished from the ledger itself.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import msgspec

from pipeline.errors import BrokenLedger, Unfinished
from pipeline.files import write_json
from pipeline.ledger.schema import has_table, read_meta

FORMAT = "backcast.sent/1"
NAME = "sent-to.json"


class Marker(msgspec.Struct, frozen=True):
    """Says that the `plan` (its digest) was applied to `target`, with the ledger of this `id`, in `runs` runs, last
    `at`.

    All fields are empty if the file exists but cannot be read. If another working copy sends a plan in a bucket, the
    file names that machine and folder (`elsewhere`), and the object in the bucket that records it (`claim`).
    """

    format: str = FORMAT
    plan: str = ""
    target: str = ""
    ledger: str = ""
    runs: int = 0
    at: str = ""
    elsewhere: str | msgspec.UnsetType = msgspec.UNSET
    claim: str | msgspec.UnsetType = msgspec.UNSET


def marker_of(path: Path) -> Path:
    """The file next to the ledger at `path`."""
    return path.with_name(NAME)


def read_marker(path: Path) -> Marker | None:
    """The marker of the ledger at `path`; None if no run ever began."""
    try:
        return msgspec.json.decode(marker_of(path).read_bytes(), type=Marker)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError):
        return Marker()


def write_marker(path: Path, marker: Marker) -> None:
    """Write the marker durably. Raises Unfinished if that is impossible: then nothing may be sent."""
    try:
        write_json(marker_of(path), marker)
    except OSError as error:
        raise Unfinished(
            f"cannot write {marker_of(path)}: {error.strerror}; this run sent nothing",
            hint="free some disk space, or make the plan directory writable, and run the same command again",
        ) from None


def was_ever_applied(path: Path) -> bool:
    """Whether the plan with the ledger at `path` was ever applied, whatever became of the ledger."""
    return path.exists() or os.path.lexists(marker_of(path))


def check_marker(database: sqlite3.Connection, path: Path, marker: Marker, schema: str = "main") -> None:
    """Raise BrokenLedger unless the open ledger is the marker's own, and not older than the marker."""
    if not has_table(database, "runs", schema):
        raise lost(path, marker)
    meta = read_meta(database, schema)
    opened = int(meta.get("opened", 0))
    if marker.ledger and meta.get("id") != marker.ledger:
        raise _refused(path, "is not the ledger that this plan was sent with", marker)
    if opened < marker.runs:
        raise _refused(path, f"is an older copy, with {opened} of the {marker.runs} runs", marker)


def lost(path: Path, marker: Marker) -> BrokenLedger:
    """The error for a ledger that is gone or empty."""
    return _refused(path, "is missing or empty", marker)


def _refused(path: Path, fault: str, marker: Marker) -> BrokenLedger:
    if marker.elsewhere:
        return BrokenLedger(
            f"this plan was applied to {marker.target}, begun at {marker.at}, and its ledger is not here but on"
            f" {marker.elsewhere}",
            hint=f"run the command there, or copy the contents of that folder to {path.parent} on this machine. Without"
            " that ledger everything is sent again; if you want that, remove the object"
            f" {marker.claim}",
        )
    target = f", and this plan was applied to {marker.target}, last at {marker.at}" if marker.target else ""
    return BrokenLedger(
        f"the ledger {path} {fault}{target} ({NAME})",
        hint=f"restore the newest {path.name} from a copy of the directory. Without it everything that it settled is"
        f" sent again; if you want that, remove {NAME} and {path.name}",
    )
