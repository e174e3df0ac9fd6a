"""What we remember of sending: SQLite, one file in the plan directory, written ahead of every request.

The protocol (law 4): `begin` is durable before a byte leaves; `settle` records the answer. A crash leaves at most the
batches in flight begun and not settled: they are *in doubt*, and are sent again with the same events and uuids.

A batch is a row of `batches`, keyed by (phase, block, first, last) with events counted from 0 in their block after
the plan's tables. Its states:

    begun      about to leave, or in doubt
    settled    taken
    refused    one event, refused for good
    split      refused as a whole; its halves are rows of their own
    waiting    to be sent as it stands: nothing of it was taken

Anybody may read the file with `sqlite3 ledger.sqlite 'select * from batches'`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

from pipeline.errors import BrokenLedger, Busy, Unfinished, UsageError

VERSION = 1
BUSY_SECONDS = 10.0
"""How long a write waits for somebody who reads the file with another program."""

_SCHEMA = (
    "create table meta (key text primary key, value text not null) without rowid",
    "create table runs ("
    " id integer primary key, started text not null, ended text, version text not null, outcome text,"
    " sent integer not null default 0, retried integer not null default 0, split integer not null default 0)",
    "create table batches ("
    " phase text not null, block integer not null, first integer not null, last integer not null,"
    " state text not null check (state in ('begun', 'settled', 'refused', 'split', 'waiting')),"
    " bytes integer not null, tries integer not null default 0, status integer, detail text not null default '',"
    " run integer not null references runs (id), begun text not null, ended text,"
    " primary key (phase, block, first, last)) without rowid",
    "create table refused_events ("
    " phase text not null, block integer not null, event integer not null,"
    " uuid text not null, status integer not null, detail text not null,"
    " primary key (phase, block, event)) without rowid",
)


class Place(NamedTuple):
    """What names a batch: the events `first` to `last` (inclusive) of one block of one phase."""

    phase: str
    block: int
    first: int
    last: int

    @property
    def events(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Totals:
    """Events by state over all runs, and what the runs took. `outcome` is the last run's."""

    settled: int = 0
    refused: int = 0
    in_doubt: int = 0
    batches_made: int = 0
    batches_sent: int = 0
    batches_retried: int = 0
    batches_split: int = 0
    outcome: str = ""


class Ledger:
    """One writer's view. `Ledger(None)` lives in memory, for a dry run."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.run = 0
        self._lock: IO[bytes] | None = None
        self._opened: sqlite3.Connection | None = None

    # -- opening -------------------------------------------------------------------------------------

    def open(self, plan_digest: str, version: str, target: str) -> Ledger:
        """Open for writing, alone. Raises Busy, BrokenLedger, UsageError; then nothing is left open."""
        try:
            if self.path is not None:
                self._lock = hold(self.path, "this plan")
            self._connect()
            with self.moment():
                self._prepare(plan_digest, target)
                self.run = self._insert_run(version)
        except BaseException:
            self.close()
            raise
        return self

    def _connect(self) -> None:
        try:
            # Transactions are begun by `moment` alone: the module's own would leave a schema half written by a crash.
            self._opened = sqlite3.connect(self.path or ":memory:", timeout=BUSY_SECONDS, isolation_level=None)
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
        except sqlite3.Error as error:
            raise _trouble(self.path, error) from None

    @property
    def _db(self) -> sqlite3.Connection:
        assert self._opened is not None, "the ledger is not open"
        return self._opened

    def _prepare(self, plan_digest: str, target: str) -> None:
        if not self._db.execute("select 1 from sqlite_master where name = 'meta'").fetchone():
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._db.executemany(
                "insert into meta values (?, ?)",
                [("version", str(VERSION)), ("plan", plan_digest), ("target", target), ("created", _now())],
            )
            return
        known = dict(self._db.execute("select key, value from meta"))
        if known.get("version") != str(VERSION):
            raise BrokenLedger(
                f"{self.path} has schema {known.get('version')}; this version writes {VERSION}",
                hint="finish the run with the version of backcast that began it",
            )
        for name, now in (("plan", plan_digest), ("target", target)):
            if known.get(name) != now:
                raise BrokenLedger(
                    f"{self.path} belongs to {name} {known.get(name)}, not to {now}",
                    hint="apply each plan directory to one target; make a new plan for another",
                )

    def _insert_run(self, version: str) -> int:
        cursor = self._db.execute("insert into runs (started, version) values (?, ?)", (_now(), version))
        return int(cursor.lastrowid or 0)

    # -- writing -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """One durable step: everything inside it is on disk when it ends, or none of it.

        Raises BrokenLedger, and Unfinished where the disk is full or somebody else holds the file.
        """
        try:
            self._db.execute("begin immediate")
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise
        except sqlite3.Error as error:
            raise _trouble(self.path, error) from None

    def begin(self, place: Place, size: int) -> None:
        """About to send. A batch that waits, or an earlier attempt that is in doubt, is begun again.

        Raises BrokenLedger where one of its events was settled or refused before: nothing is sent twice.
        """
        done = self._db.execute(
            "insert into batches (phase, block, first, last, state, bytes, run, begun)"
            " select :phase, :block, :first, :last, 'begun', :bytes, :run, :now where not exists (select 1 from batches"
            " where phase = :phase and block = :block and first <= :last and last >= :first"
            " and state in ('settled', 'refused'))"
            " on conflict do update set state = 'begun', bytes = excluded.bytes, run = excluded.run,"
            " begun = excluded.begun where state in ('begun', 'waiting')",
            {**place._asdict(), "bytes": size, "run": self.run, "now": _now()},
        )
        if done.rowcount != 1:
            raise BrokenLedger(
                f"{self.path} has an end already for events {place.first} to {place.last} of block {place.block}",
                hint="nothing was sent twice; report this, with the ledger",
            )

    def settle(self, place: Place, tries: int, status: int) -> None:
        """The batch was taken."""
        self._end(place, "settled", tries, status, "")

    def split(self, place: Place, halves: Sequence[tuple[Place, int]], tries: int, status: int, detail: str) -> None:
        """The batch was refused as a whole; its halves, each with its bytes, wait as rows of their own."""
        self._end(place, "split", tries, status, detail)
        self._db.executemany(
            "insert into batches (phase, block, first, last, state, bytes, run, begun)"
            " values (?,?,?,?,'waiting',?,?,?)",
            [(*half, size, self.run, _now()) for half, size in halves],
        )

    def refuse(self, place: Place, uuid: str, tries: int, status: int, detail: str) -> None:
        """One event was refused for good."""
        self._end(place, "refused", tries, status, detail)
        self._db.execute(
            "insert or replace into refused_events values (?,?,?,?,?,?)",
            (place.phase, place.block, place.first, uuid, status, detail),
        )

    def doubt(self, place: Place, tries: int, status: int | None, detail: str) -> None:
        """No answer that settles it: it stays begun, with what is known."""
        self._note(place, "begun", tries, status, detail)

    def withhold(self, place: Place, tries: int, status: int | None, detail: str) -> None:
        """It never left, or was turned away untouched: it waits to be sent as it stands."""
        self._note(place, "waiting", tries, status, detail)

    def _note(self, place: Place, state: str, tries: int, status: int | None, detail: str) -> None:
        self._db.execute(
            "update batches set state = ?, tries = tries + ?, status = coalesce(?, status), detail = ?"
            " where phase = ? and block = ? and first = ? and last = ?",
            (state, tries, status, detail, *place),
        )

    def _end(self, place: Place, state: str, tries: int, status: int, detail: str) -> None:
        self._db.execute(
            "update batches set state = ?, tries = tries + ?, status = ?, detail = ?, ended = ?"
            " where phase = ? and block = ? and first = ? and last = ?",
            (state, tries, status, detail, _now(), *place),
        )

    def finish(self, outcome: str, sent: int, retried: int, split: int) -> None:
        """Write down how this run ended."""
        with self.moment():
            self._db.execute(
                "update runs set ended = ?, outcome = ?, sent = ?, retried = ?, split = ? where id = ?",
                (_now(), outcome, sent, retried, split, self.run),
            )

    def close(self) -> None:
        """Let go of the file and of the lock. May be called twice."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        if self._lock is not None:
            release(self._lock)
            self._lock = None

    # -- reading -------------------------------------------------------------------------------------

    def rows_of(self, phase: str, block: int) -> list[tuple[Place, str]]:
        """The batches of one block that are known, with their states, in event order."""
        found = self._db.execute(
            "select first, last, state from batches where phase = ? and block = ? order by first, last",
            (phase, block),
        )
        return [(Place(phase, block, first, last), state) for first, last, state in found]

    def blocks_begun(self, phase: str) -> set[int]:
        """Blocks that have rows at all."""
        return {row[0] for row in self._db.execute("select distinct block from batches where phase = ?", (phase,))}

    def doubted(self) -> set[Place]:
        """The batches that are in doubt."""
        return {
            Place(*row)
            for row in self._db.execute("select phase, block, first, last from batches where state = 'begun'")
        }

    def totals(self) -> Totals:
        """Events by state, and what the runs took."""
        return _totals(self._db)


# -- reading beside a writer ---------------------------------------------------------------------------


def read_totals(path: Path) -> Totals:
    """Where a plan stands, also while a run is writing. Raises BrokenLedger."""
    with _reading(path) as database:
        return Totals() if database is None else _totals(database)


def read_places(path: Path, state: str) -> Iterator[Place]:
    """Every batch in one state, in phase and block order, also while a run is writing. Raises BrokenLedger."""
    with _reading(path) as database:
        if database is None:
            return
        yield from (
            Place(*row)
            for row in database.execute(
                "select phase, block, first, last from batches where state = ? order by phase, block, first", (state,)
            )
        )


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """The ledger for reading; None where there is none yet."""
    if not path.exists():
        yield None
        return
    try:
        # Without a log nobody is writing: read the file as it lies, and leave no shared index beside it.
        still = not path.with_name(path.name + "-wal").exists() and not is_held(path)
        address = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if still else ''}"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as database:
            begun = database.execute("select 1 from sqlite_master where name = 'runs'").fetchone()
            yield database if begun else None
    except sqlite3.Error as error:
        raise _trouble(path, error) from None


def _totals(database: sqlite3.Connection) -> Totals:
    states = dict(
        database.execute("select state, coalesce(sum(last - first + 1), 0) from batches group by state").fetchall()
    )
    sent, retried, split = database.execute(
        "select coalesce(sum(sent), 0), coalesce(sum(retried), 0), coalesce(sum(split), 0) from runs"
    ).fetchone()
    made = database.execute("select count(*) from batches").fetchone()[0]
    outcome = database.execute("select outcome from runs order by id desc limit 1").fetchone()
    return Totals(
        states.get("settled", 0),
        states.get("refused", 0),
        states.get("begun", 0),
        made,
        sent,
        retried,
        split,
        (outcome[0] if outcome else "") or "",
    )


# -- one writer ----------------------------------------------------------------------------------------


def hold(path: Path, what: str) -> IO[bytes]:
    """The lock beside a file, held until `release` or the process ends. Raises Busy, naming the holder; UsageError."""
    try:
        lock = path.with_name(path.name + ".lock").open("a+b")
    except OSError as error:
        raise UsageError(
            f"cannot write in {path.parent}: {error.strerror}",
            hint="make the plan directory writable, or copy it to where you may write",
        ) from None
    for last in (False, False, True):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if not last:
                time.sleep(0.05)  # `is_held` takes it for a moment
                continue
            lock.seek(0)
            holder = lock.read().decode(errors="replace").strip()
            lock.close()
            raise Busy(
                f"another run holds {what}: {holder or 'unknown process'}",
                hint="wait for it, or stop it; a stopped run resumes",
            ) from None
        except OSError as error:
            lock.close()
            raise UsageError(
                f"cannot lock {lock.name}: {error.strerror}", hint="keep the plan on a disk that knows file locks"
            ) from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()} since {_now()}".encode())
    lock.flush()
    return lock


def release(lock: IO[bytes]) -> None:
    """Let go of a lock."""
    lock.truncate(0)
    lock.close()


def is_held(path: Path) -> bool:
    """Whether some process holds the lock beside a file now."""
    try:
        with path.with_name(path.name + ".lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
            return False
    except OSError:
        return False


_PASSING = {
    "SQLITE_FULL": ("the disk is full", "make room and run the same command again; nothing is lost"),
    "SQLITE_IOERR": ("the disk failed", "mend the disk and run the same command again; nothing is lost"),
    "SQLITE_BUSY": ("another program holds it", "close that program and run the same command again"),
    "SQLITE_LOCKED": ("another program holds it", "close that program and run the same command again"),
}


def _trouble(path: Path | None, error: sqlite3.Error) -> Exception:
    """What SQLite's error asks of a person; the error itself where it is not SQLite's, but a defect of ours."""
    name: str = getattr(error, "sqlite_errorname", "") or ""
    if not name:
        return error
    for code, (what, hint) in _PASSING.items():
        if name.startswith(code):
            return Unfinished(f"the ledger {path} cannot be written: {what} ({error})", hint=hint)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return UsageError(
            f"the ledger {path} cannot be used: {error}",
            hint="make the plan directory and its ledger writable, or copy the directory to where you may write",
        )
    return BrokenLedger(
        f"the ledger {path} cannot be used: {error}",
        hint="restore the plan directory from a copy; without its ledger nobody knows what was sent",
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
