"""Opening a ledger: one writer at a time, for the right plan, target and project."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from pipeline.config import Secret
from pipeline.errors import BrokenLedger, Busy, Unfinished, UnsafePlan, UsageError
from pipeline.files import sync_folder
from pipeline.ledger.marker import Marker
from pipeline.ledger.schema import SCHEMA, VERSION, has_table, read_meta
from pipeline.timestamps import utc_now

BUSY_SECONDS = 10.0
"""Seconds that a write waits for another program that is reading the file."""


def connect(path: Path | None) -> sqlite3.Connection:
    """Open the file for writing, and check all of it if it exists. Raises the errors of `error_from_sqlite`."""
    try:
        # Only `Ledger.transaction` begins transactions: those of the module could leave a half-written schema after a
        # crash.
        # Without a name it is a temporary file of SQLite, which is removed when it is closed.
        database = sqlite3.connect(path or "", timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            database.execute("pragma journal_mode = wal")
            database.execute("pragma synchronous = full")
            fault = database.execute("pragma quick_check(1)").fetchone()[0]
            if fault != "ok":
                raise sqlite3.DatabaseError(fault)
        except BaseException:
            database.close()
            raise
    except sqlite3.Error as error:
        raise error_from_sqlite(path, error, opening=True) from None
    return database


def prepare(database: sqlite3.Connection, path: Path | None, plan_digest: str, target: str) -> Marker:
    """Create the tables, or compare them with the plan and the target. Raises BrokenLedger.

    Returns the marker of the run that begins. Another target is accepted if the first one cannot have accepted
    anything: then it was mistyped.
    """
    if not has_table(database, "meta"):
        for statement in SCHEMA:
            database.execute(statement)
        database.executemany(
            "insert into meta values (?, ?)",
            [("version", str(VERSION)), ("plan", plan_digest), ("target", target), ("created", utc_now())],
        )
    _check_meta(database, path, plan_digest, target)
    return _count_opening(database)


def _count_opening(database: sqlite3.Connection) -> Marker:
    """Count this opening in the ledger, which gets its id at the first one. Returns the marker for it."""
    database.execute("insert or ignore into meta values ('id', ?)", (os.urandom(16).hex(),))
    database.execute(
        "insert into meta values ('opened', '1') on conflict do update set value = cast(value as integer) + 1"
    )
    meta = read_meta(database)
    return Marker(plan=meta["plan"], target=meta["target"], ledger=meta["id"], runs=int(meta["opened"]), at=utc_now())


def _check_meta(database: sqlite3.Connection, path: Path | None, plan_digest: str, target: str) -> None:
    meta = read_meta(database)
    if meta.get("version") != str(VERSION):
        raise BrokenLedger(
            f"{path} has schema {meta.get('version')}; this version writes {VERSION}",
            hint="finish the run with the version of backcast that began it",
        )
    if meta.get("plan") != plan_digest:
        raise BrokenLedger(
            f"the ledger {path} belongs to the plan {meta.get('plan')}, not to {plan_digest}",
            hint="restore the plan that was applied from this directory, or plan into a new one with -o DIR",
        )
    if meta.get("target") != target:
        if not nothing_taken(database):
            hint = "apply each plan to one target only; for another target, plan again into a new directory"
            raise other_target(database, path, target, hint)
        for table in ("tries", "batches", "runs"):
            database.execute(f"delete from {table}")
        database.execute("delete from meta where key in ('transport', 'project')")
        database.execute("update meta set value = ? where key = 'target'", (target,))


def other_target(database: sqlite3.Connection, path: Path | None, target: str, hint: str) -> BrokenLedger:
    """The error for a ledger that belongs to another target than the one named."""
    return BrokenLedger(
        f"the ledger {path} belongs to the target {read_meta(database).get('target')} ({describe_sent(database)}),"
        f" not to {target}",
        hint=hint,
    )


def nothing_taken(database: sqlite3.Connection) -> bool:
    """Whether nothing can have been accepted: no request got a response, and none is in doubt."""
    requested = "select 1 from batches where state != 'waiting' or status is not null limit 1"
    answered = "select 1 from tries where status > 0 limit 1"
    return not (database.execute(requested).fetchone() or database.execute(answered).fetchone())


def describe_sent(database: sqlite3.Connection) -> str:
    """What was sent to the ledger's target, in words."""
    states = dict(database.execute("select state, sum(last - first + 1) from batches group by state"))
    begun = [f"{states[state]:,} {word}" for state, word in _TAKEN if states.get(state)]
    if begun:
        return f"events there: {', '.join(begun)}"
    (status,) = database.execute("select max(status) from tries").fetchone()
    return f"it answered {status}"


_TAKEN = (("settled", "settled"), ("refused", "refused"), ("begun", "in doubt"))


def check_key(database: sqlite3.Connection, path: Path | None, key: Secret, *, rotated: bool) -> None:
    """Store a hash of the capture key, or compare the key with it. Raises UnsafePlan.

    Another key most often means another project, to which half of a history must not go. If nothing was sent yet, the
    new key is stored: the first one was mistyped. `rotated` says that both keys belong to one project.
    """
    own = is_key(read_meta(database), key)
    if own:
        return
    sent = database.execute("select 1 from batches where state != 'waiting' limit 1").fetchone()
    if own is False and sent and not rotated:
        raise UnsafePlan(
            f"this plan was sent so far with another capture key ({path})",
            hint="use the first key again. If the key of the same project was rotated, add --rotated-key; for another"
            " project, plan again into a new directory",
        )
    fresh = os.urandom(16)
    database.executemany(
        "insert or replace into meta values (?, ?)",
        [("key_salt", fresh.hex()), ("key_check", key_fingerprint(key, fresh))],
    )


def is_key(meta: Mapping[str, str], key: Secret) -> bool | None:
    """Whether the key is the one that a ledger with this `meta` was last sent with; None if it has none."""
    if check := meta.get("key_check"):
        return hmac.compare_digest(key_fingerprint(key, bytes.fromhex(meta["key_salt"])), check)
    return None


def key_fingerprint(key: Secret, salt: bytes) -> str:
    """A salted hash of a key, which does not reveal it."""
    return hashlib.scrypt(key.reveal().encode(), salt=salt, n=4096, r=8, p=1, dklen=16).hex()


def sync_directory(path: Path) -> None:
    """Write the names of new files in a directory to disk, so that they survive a power loss."""
    with contextlib.suppress(OSError):
        sync_folder(path.parent)


# -- one writer ----------------------------------------------------------------------------------------


def lock_file(path: Path, name: str | Callable[[str], Busy], note: str = "") -> IO[bytes]:
    """Lock a file by means of another file next to it, until `unlock` or the end of the process. Raises Busy,
    UsageError.

    `name` is what people call the file, or a function that makes the error from the process that holds the lock. `note`
    is added to this process for the error of another one.
    """
    try:
        lock = path.with_name(path.name + ".lock").open("a+b")
    except OSError as error:
        raise UsageError(
            f"cannot write in {path.parent}: {error.strerror}",
            hint="make the plan directory writable, or copy it to a place where you may write",
        ) from None
    for last in (False, False, True):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if not last:
                time.sleep(0.05)  # `is_locked` holds the lock for a moment
                continue
            lock.seek(0)
            holder = lock.read().decode(errors="replace").strip() or "unknown process"
            lock.close()
            if not isinstance(name, str):
                raise name(holder) from None
            raise Busy(
                f"{name} is in use by another run: {holder}",
                hint="wait for it, or stop it; a stopped run resumes",
            ) from None
        except OSError as error:
            lock.close()
            raise UsageError(
                f"cannot lock {lock.name}: {error.strerror}", hint="move the plan to a disk that supports file locks"
            ) from None
    try:
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()} since {utc_now()}{note}".encode())
        lock.flush()
    except OSError:
        # The file is locked all the same: on a full disk, only the name of the process is missing.
        with contextlib.suppress(OSError):
            lock.truncate(0)
    return lock


def unlock(lock: IO[bytes]) -> None:
    """Release a lock."""
    with contextlib.suppress(OSError):
        lock.truncate(0)
    with contextlib.suppress(OSError):
        lock.close()


def is_locked(path: Path) -> bool:
    """Whether some process currently holds the lock next to a file."""
    try:
        with path.with_name(path.name + ".lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
            return False
    except OSError:
        return False


# -- errors -----------------------------------------------------------------------------------

_PASSING = {
    "SQLITE_FULL": ("the disk is full", "free some space and run the same command again; nothing is lost"),
    "SQLITE_IOERR": (
        "the disk failed",
        "free some space or repair the disk, and run the same command again; nothing is lost",
    ),
    "SQLITE_BUSY": ("another program uses it", "close that program and run the same command again"),
    "SQLITE_LOCKED": ("another program uses it", "close that program and run the same command again"),
}


def error_from_sqlite(path: Path | str | None, error: sqlite3.Error, *, opening: bool = False) -> Exception:
    """The error to raise for one from SQLite; the error itself if it comes from a bug of ours instead of SQLite.

    `opening`: an error without SQLite's code is also an error of the file.
    """
    name: str = getattr(error, "sqlite_errorname", "") or ""
    if not name and not opening:
        return error
    for code, (failure, hint) in _PASSING.items():
        if name.startswith(code):
            return Unfinished(f"cannot write the ledger {path}: {failure} ({error})", hint=hint)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return UsageError(
            f"cannot use the ledger {path}: {error}",
            hint="make the plan directory and its ledger writable, or copy the directory to a place where you may"
            " write",
        )
    return BrokenLedger(
        f"the ledger {path} is damaged: {error}",
        hint="restore the plan directory from a copy; without its ledger there is no record of what was sent",
    )
