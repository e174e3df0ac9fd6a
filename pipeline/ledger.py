"""What we remember of sending: SQLite, one file in the plan directory, written ahead of every request.

The protocol (law 4): `begin` is durable before a byte leaves; `settle` records the answer. A crash leaves at most the
batches in flight begun and not settled: they are *in doubt*, and are sent again with the same events and uuids.

A batch is a row of `batches`, keyed by (phase, block, first, last) with events counted from 0 in their block after
the plan's tables. States: `begun`, `settled`, `refused` (one event), `split` (its halves are rows of their own).
Anybody may read the file with `sqlite3 ledger.sqlite 'select * from batches'`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

from pipeline.errors import BrokenLedger, Busy, UsageError

VERSION = 1

_SCHEMA = """
create table meta (key text primary key, value text not null) without rowid;
create table runs (
    id integer primary key, started text not null, ended text, version text not null, outcome text,
    sent integer not null default 0, retried integer not null default 0, split integer not null default 0
);
create table batches (
    phase text not null, block integer not null, first integer not null, last integer not null,
    state text not null check (state in ('begun', 'settled', 'refused', 'split')),
    bytes integer not null, tries integer not null default 0, status integer, detail text not null default '',
    run integer not null references runs (id), begun text not null, ended text,
    primary key (phase, block, first, last)
) without rowid;
create table refused_events (
    phase text not null, block integer not null, event integer not null,
    uuid text not null, status integer not null, detail text not null,
    primary key (phase, block, event)
) without rowid;
"""


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
    """Events by state over all runs, and what the runs took."""

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
        self._lock: IO[bytes] | None = None
        self.run = 0

    # -- opening -------------------------------------------------------------------------------------

    def open(self, plan_digest: str, version: str, target: str) -> Ledger:
        """Open for writing, alone. Raises Busy, BrokenLedger, UsageError."""
        self._db = self._connect()
        try:
            with self._db:
                self._prepare(plan_digest, target)
                self.run = self._insert_run(version)
        except sqlite3.DatabaseError as error:
            raise self._broken(error) from None
        return self

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            return sqlite3.connect(":memory:")
        self._take_lock(self.path)
        try:
            database = sqlite3.connect(self.path, timeout=10, check_same_thread=False)
            database.execute("pragma journal_mode = wal")
            database.execute("pragma synchronous = full")
        except sqlite3.DatabaseError as error:
            raise self._broken(error) from None
        return database

    def _take_lock(self, path: Path) -> None:
        try:
            lock = path.with_name(path.name + ".lock").open("a+b")
        except OSError as error:
            raise UsageError(
                f"cannot write the ledger in {path.parent}: {error.strerror}",
                hint="make the plan directory writable, or copy it to where you may write",
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().decode(errors="replace").strip()
            lock.close()
            raise Busy(
                f"another run holds this plan: {holder or 'unknown process'}",
                hint="wait for it, or stop it; a stopped run resumes",
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} since {_now()}".encode())
        lock.flush()
        self._lock = lock

    def _prepare(self, plan_digest: str, target: str) -> None:
        exists = self._db.execute("select 1 from sqlite_master where name = 'meta'").fetchone()
        if not exists:
            for statement in _SCHEMA.split(";"):
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

    def _broken(self, error: sqlite3.Error) -> BrokenLedger:
        return BrokenLedger(
            f"the ledger {self.path} cannot be used: {error}",
            hint="restore the plan directory from a copy; without its ledger nobody knows what was sent",
        )

    # -- writing -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """One durable step: everything inside it is on disk when it ends, or none of it."""
        try:
            with self._db:
                yield
        except sqlite3.DatabaseError as error:
            raise self._broken(error) from None

    def begin(self, place: Place, size: int) -> None:
        """About to send. An earlier attempt that is in doubt is begun again."""
        self._db.execute(
            "insert into batches (phase, block, first, last, state, bytes, run, begun) values (?,?,?,?,'begun',?,?,?)"
            " on conflict do update set run = excluded.run, begun = excluded.begun",
            (*place, size, self.run, _now()),
        )

    def settle(self, place: Place, tries: int, status: int) -> None:
        self._end(place, "settled", tries, status, "")

    def split(self, place: Place, tries: int, status: int, detail: str) -> None:
        """The batch was refused as a whole; its halves are begun as rows of their own."""
        self._end(place, "split", tries, status, detail)

    def refuse(self, place: Place, uuid: str, tries: int, status: int, detail: str) -> None:
        """One event was refused for good."""
        self._end(place, "refused", tries, status, detail)
        self._db.execute(
            "insert or replace into refused_events values (?,?,?,?,?,?)",
            (place.phase, place.block, place.first, uuid, status, detail),
        )

    def doubt(self, place: Place, tries: int, status: int | None, detail: str) -> None:
        """No answer that settles it: it stays begun, with what is known."""
        self._db.execute(
            "update batches set tries = tries + ?, status = ?, detail = ?"
            " where phase = ? and block = ? and first = ? and last = ?",
            (tries, status, detail, *place),
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
        self._db.close()
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()
            self._lock = None

    # -- reading -------------------------------------------------------------------------------------

    def rows_of(self, phase: str, block: int) -> list[tuple[Place, str]]:
        """The batches of one block that earlier runs began, with their states, in event order."""
        found = self._db.execute(
            "select first, last, state from batches where phase = ? and block = ? order by first, last",
            (phase, block),
        )
        return [(Place(phase, block, first, last), state) for first, last, state in found]

    def blocks_begun(self, phase: str) -> set[int]:
        """Blocks that have rows at all."""
        return {row[0] for row in self._db.execute("select distinct block from batches where phase = ?", (phase,))}

    def totals(self) -> Totals:
        return _totals(self._db)


def read_totals(path: Path) -> Totals:
    """Where a plan stands, also while a run is writing."""
    if not path.exists():
        return Totals()
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as database:
            return _totals(database)
    except sqlite3.DatabaseError as error:
        raise BrokenLedger(f"the ledger {path} cannot be read: {error}", hint="restore it from a copy") from None


def read_settled(path: Path) -> Iterator[Place]:
    """Every settled batch in phase and block order."""
    if not path.exists():
        return
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as database:
        yield from (
            Place(*row)
            for row in database.execute(
                "select phase, block, first, last from batches where state = 'settled' order by phase, block, first"
            )
        )


def is_held(path: Path) -> bool:
    """Whether some process is writing this ledger now."""
    try:
        with path.with_name(path.name + ".lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
            return False
    except FileNotFoundError:
        return False


def _totals(database: sqlite3.Connection) -> Totals:
    try:
        states = dict(
            database.execute("select state, coalesce(sum(last - first + 1), 0) from batches group by state").fetchall()
        )
        sent, retried, split = database.execute(
            "select coalesce(sum(sent), 0), coalesce(sum(retried), 0), coalesce(sum(split), 0) from runs"
        ).fetchone()
        made = database.execute("select count(*) from batches").fetchone()[0]
        outcome = database.execute("select outcome from runs order by id desc limit 1").fetchone()
    except sqlite3.OperationalError:
        return Totals()
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
