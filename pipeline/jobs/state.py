"""The state of a job: SQLite, one file next to the plans of its windows.

`attempts` has one row for each plan, which is the history; `windows` and `parts` have what was read; `settled` has
every uuid that was accepted; `ids`, `pairs` and `groups` have what all windows showed. A window is recorded as done,
with its parts, uuids and ids, in one transaction, so that a crash leaves it either done or to be resumed. A lost file
is rebuilt from the plans and ledgers (`pipeline.jobs.opening`).

You can read it even while the job runs: `sqlite3 -readonly state.sqlite 'select * from attempts'`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from pipeline.errors import BrokenLedger, UsageError
from pipeline.jobs.arrivals import RecordedPart, parts_of
from pipeline.jobs.database import BUSY_SECONDS, REBUILD, connect, read_only_uri, translated_errors
from pipeline.jobs.indexes import INDEXES, SettledIndex, StoredGroups, StoredIdentities, digest_uuids
from pipeline.ledger import read_batches, read_totals
from pipeline.plan.requests.query import every_batch
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.settled_facts import settled_facts
from pipeline.plan.window_index import WindowIndex
from pipeline.timestamps import utc_now

VERSION = "5"
EXPORTED_AGAIN = "exported again after it was sent"
"""Begins the detail of a window that is done but whose files changed since."""
IGNORED = "; ignored"
"""Ends that detail if the job file says to ignore the change."""
_SCHEMA = (
    "create table meta (key text primary key, value text not null) without rowid",
    "create table windows (label text primary key, detail text not null,"
    " state text not null check (state in ('waiting', 'stopped', 'open', 'done'))) without rowid",
    "create table attempts (id integer primary key, window text not null, number integer not null,"
    " state text not null check (state in ('planning', 'sending', 'done', 'stopped', 'replaced')),"
    " started text not null, ended text, parts integer not null default 0, rows integer not null default 0,"
    " skipped integer not null default 0, rejected integer not null default 0, already integer not null default 0,"
    " changed integer not null default 0, events integer not null default 0, sent integer not null default 0,"
    " refused integer not null default 0, held integer not null default 0, seconds real not null default 0,"
    " detail text not null default '',"
    " proof text not null default '' check (proof in ('', 'pending', 'proved', 'differs', 'unknown')))",
    "create table parts (window text not null, path text not null, bytes integer not null, mtime_ns integer not null,"
    " digest text not null, primary key (window, path)) without rowid",
    *INDEXES,
)


class Attempt(msgspec.Struct, frozen=True):
    """One plan of a window and its result. Times are UTC.

    `state` is planning, sending, done, stopped (by a check, or a file that cannot be read) or replaced (its files
    changed before all of it was sent). Rows: `rows` were read, `skipped` and `rejected` of them left out. Events:
    `events` were planned, `sent` accepted, `refused` by the service, `already` settled by earlier windows, `changed` of
    those with other values now; `held` counts merges that are held back. `seconds` is the time it took, over all runs.
    `proof` is the result of reading it back: "" if that was not requested, else pending, proved, differs, or unknown if
    its events cannot be read again.
    """

    id: int
    window: str
    number: int
    state: str
    started: str
    ended: str | None
    parts: int
    rows: int
    skipped: int
    rejected: int
    already: int
    changed: int
    events: int
    sent: int
    refused: int
    held: int
    seconds: float
    detail: str
    proof: str


class WindowState(msgspec.Struct, frozen=True):
    """The state of a window: waiting (for its files), stopped, open (being sent) or done."""

    label: str
    state: str
    detail: str

    @property
    def exported_again(self) -> bool:
        """Whether it was sent, and its files changed since."""
        return self.state == "done" and self.detail.startswith(EXPORTED_AGAIN)

    @property
    def stopped(self) -> bool:
        """Whether the last run stopped it: before it was sent, or because its files changed since."""
        return self.state == "stopped" or (self.exported_again and not self.detail.endswith(IGNORED))


class State:
    """The state of one job, open for writing by the holder of the job's lock."""

    def __init__(self, path: Path, database: sqlite3.Connection, schemas: tuple[str, ...] = ("main",)) -> None:
        self.path = path
        self._database = database
        self.settled = SettledIndex(path, database, schemas)
        self.identities = StoredIdentities(path, database, schemas)
        self.groups = StoredGroups(path, database, schemas)

    # -- opening -------------------------------------------------------------------------------------

    @staticmethod
    def open(path: Path, belongs: dict[str, str]) -> State:
        """Open or create a state. `belongs` must equal that of its creation: the job's name, target and windows.

        Raises UsageError, BrokenLedger, Unfinished.
        """
        with translated_errors(path), _closed_on_error(connect(path, "wal")) as database:
            _prepare(database, path, belongs)
            return State(path, database)

    @staticmethod
    def scratch(path: Path, scratch: Path, belongs: dict[str, str]) -> State:
        """A state for a dry run: it has the content of the one at `path`, and writes only to the file `scratch`."""
        with _reading(path) as earlier:
            if earlier is None:
                return State.open(scratch, belongs)
        with translated_errors(path), _closed_on_error(connect(scratch, "memory")) as database:
            database.execute("attach ? as earlier", (read_only_uri(path),))
            _check(database, "earlier", path, belongs)
            _prepare(database, scratch, belongs)
            for table in ("windows", "attempts", "parts"):
                database.execute(f"insert into main.{table} select * from earlier.{table}")
            return State(path, database, ("main", "earlier"))

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("pragma wal_checkpoint(truncate)")
        self._database.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """When it ends, everything inside it is on disk, or none of it."""
        with translated_errors(self.path), self._database:
            self._database.execute("begin immediate")
            yield

    # -- reading -------------------------------------------------------------------------------------

    def windows(self) -> dict[str, WindowState]:
        """Every window that was processed, by its label."""
        return {window.label: window for window in _windows(self._database)}

    def parts(self, window: str) -> dict[str, RecordedPart]:
        """The parts of a window that were read and settled, by their path."""
        rows = self._database.execute("select path, bytes, mtime_ns, digest from parts where window = ?", (window,))
        return {row[0]: RecordedPart(*row) for row in rows}

    def parts_before(self, window: str) -> dict[str, list[str]]:
        """The paths of the parts of the five weeks of windows before one, by window."""
        labels = "select distinct window from parts where window < ? order by window desc limit 35"
        rows = self._database.execute(labels, (window,)).fetchall()
        return {label: [*self.parts(label)] for (label,) in rows}

    def facts(self) -> dict[str, str]:
        """What is remembered about the job (`remember`), including what the state belongs to."""
        return dict(self._database.execute("select key, value from meta"))

    def has_sent(self, window: str) -> bool:
        """Whether the target accepted events of a window."""
        return any(attempt.sent for attempt in _attempts(self._database, "where window = ?", window))

    def attempt(self, id: int) -> Attempt:
        """One attempt."""
        return _attempts(self._database, "where id = ?", id)[0]

    def sending(self) -> Attempt | None:
        """The attempt whose sending began but did not end."""
        return next(iter(_attempts(self._database, "where state = 'sending'")), None)

    def sent_before(self) -> bool:
        """Whether the target accepted events of any window."""
        return self._database.execute("select 1 from attempts where sent > 0 limit 1").fetchone() is not None

    def unproved(self) -> list[Attempt]:
        """The attempts that were sent and are to be read back, oldest first."""
        return _attempts(self._database, "where state = 'done' and proof in ('pending', 'differs')")

    def done(self) -> list[Attempt]:
        """The attempts that were sent completely, or had nothing to send, oldest first."""
        return _attempts(self._database, "where state = 'done'")

    def replaced_by(self, attempt: Attempt) -> list[Attempt]:
        """The replaced attempts of this attempt's window that came before it."""
        where = "where state = 'replaced' and window = ? and number < ?"
        return _attempts(self._database, where, attempt.window, attempt.number)

    def next_number(self, window: str) -> int:
        """The number of a window's next plan. The number of a plan of which something was sent is never used again."""
        rows = self._database.execute(
            "select coalesce(max(number), 0) + 1 from attempts"
            " where window = ? and state in ('sending', 'done', 'replaced')",
            (window,),
        )
        return int(rows.fetchone()[0])

    def was_replaced(self, window: str) -> bool:
        """Whether the last plan of this window of which something was sent was replaced before its end."""
        ended = _attempts(self._database, "where window = ? and state in ('done', 'replaced')", window)
        return bool(ended) and ended[-1].state == "replaced"

    # -- writing -------------------------------------------------------------------------------------

    def begin(self, window: str, number: int) -> Attempt:
        """A new attempt, about to be planned. One that an earlier run did not finish planning is deleted."""
        with self.transaction():
            self._database.execute("delete from attempts where state = 'planning'")
            inserted = self._database.execute(
                "insert into attempts (window, number, state, started) values (?, ?, 'planning', ?)",
                (window, number, utc_now()),
            )
        return self.attempt(int(inserted.lastrowid or 0))

    def update(self, attempt: Attempt, **columns: Any) -> Attempt:
        """Update some columns of an attempt. Returns the updated attempt."""
        with self.transaction():
            self._update(attempt, columns)
        return self.attempt(attempt.id)

    def send(self, attempt: Attempt) -> None:
        """Record that the plan passed its checks and is about to be sent."""
        with self.transaction():
            self._update(attempt, {"state": "sending"})
            self._set_window(attempt.window, "open", "")

    def stop(self, window: str, detail: str, attempt: Attempt | None = None, *, done: bool = False) -> None:
        """Record that the window, and its plan if there is one, cannot be sent. `done`: its earlier content was
        sent."""
        with self.transaction():
            if attempt is not None:
                self._update(attempt, {"state": "stopped", "ended": utc_now(), "detail": detail})
            self._set_window(window, "done" if done else "stopped", detail)

    def refresh(self, window: str, parts: Iterable[RecordedPart]) -> None:
        """Record the new times of parts whose content did not change."""
        with self.transaction():
            rows = [(window, *part) for part in parts]
            self._database.executemany("insert or replace into parts values (?, ?, ?, ?, ?)", rows)

    def forget(self, window: str, parts: Iterable[str]) -> None:
        """Forget parts of a window that are gone and were replaced by others."""
        with self.transaction():
            names = [(window, name) for name in parts]
            self._database.executemany("delete from parts where window = ? and path = ?", names)

    def record(
        self, attempt: Attempt, plan: Plan, directory: Directory, folder: Path, *, dry_run: bool = False,
        read_back: bool = False,
    ) -> Attempt:  # fmt: skip
        """Record that the window is done: its parts were read, and its uuids are never sent again. Returns the attempt.

        `folder` is the job's. A dry run counts everything as settled. `read_back`: it is to be compared with what
        landed.
        """
        parts = ((attempt.window, *part) for part in parts_of(plan, folder))
        with self.transaction():
            sent = self._settle(attempt, directory, WindowIndex.from_plan(plan, directory), "done", dry_run=dry_run)
            self._database.executemany("insert or replace into parts values (?, ?, ?, ?, ?)", parts)
            self._update(attempt, {"proof": "pending" if read_back and sent else ""})
            self._set_window(attempt.window, "done", "")
        return self.attempt(attempt.id)

    def replace(self, attempt: Attempt, directory: Directory, detail: str) -> None:
        """Record that the files changed before the plan was completely sent: settled events stay, the rest is planned
        again."""
        with self.transaction():
            self._settle(attempt, directory, WindowIndex.from_unfinished_plan(directory), "replaced")
            self._update(attempt, {"detail": detail})
            self._set_window(attempt.window, "stopped", detail)

    def remember(self, **facts: str) -> None:
        """Remember facts about the job."""
        with self.transaction():
            self._database.executemany("insert or replace into meta values (?, ?)", facts.items())

    def mark(self, window: str, state: str, detail: str) -> None:
        """Set the state of a window that has no plan."""
        with self.transaction():
            self._set_window(window, state, detail)

    def _settle(
        self, attempt: Attempt, directory: Directory, index: WindowIndex, state: str, *, dry_run: bool = False
    ) -> int:
        """End an attempt and index what its plan settled. Returns the number of events that were sent."""
        totals = read_totals(directory.ledger)
        batches = every_batch(directory) if dry_run else read_batches(directory.ledger, "settled")
        self.settled.add(settled_facts(directory, batches), attempt.id)
        self.identities.add(index)
        self.groups.add(index)
        counts = {"sent": totals.settled, "refused": totals.refused}
        self._update(attempt, {"state": state, "ended": utc_now(), **counts})
        return totals.settled

    def _update(self, attempt: Attempt, columns: dict[str, Any]) -> None:
        names = ", ".join(f"{name} = :{name}" for name in columns)
        self._database.execute(f"update attempts set {names} where id = :id", {**columns, "id": attempt.id})

    def _set_window(self, label: str, state: str, detail: str) -> None:
        self._database.execute(
            "insert or replace into windows (label, state, detail) values (?, ?, ?)", (label, state, detail)
        )


class History(msgspec.Struct, frozen=True):
    """The content of a state: its windows and attempts, what it belongs to, how many uuids are settled and their
    digest."""

    belongs: dict[str, str]
    windows: list[WindowState]
    attempts: list[Attempt]
    uuids: int
    digest: str


def read_whole_history(path: Path) -> History:
    """The whole state, even while the job runs. Raises UsageError if there is none, BrokenLedger."""
    with _reading(path) as database:
        if database is None:
            hint = "name the folder of `state` in the job file, once backcast run JOB.yaml wrote it"
            raise UsageError(f"{path.parent} contains no state of a job", hint=hint)
        belongs = dict(database.execute("select key, value from meta"))
        return History(belongs, _windows(database), _attempts(database), *digest_uuids(database))


def read_history(path: Path) -> tuple[list[WindowState], list[Attempt]]:
    """Windows and attempts, even while the job runs; nothing if it never ran. Raises BrokenLedger."""
    with _reading(path) as database:
        return (_windows(database), _attempts(database)) if database is not None else ([], [])


def read_facts(path: Path) -> dict[str, str]:
    """What is remembered about a job; nothing if it never ran. Raises BrokenLedger."""
    with _reading(path) as database:
        return dict(database.execute("select key, value from meta")) if database is not None else {}


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """A state at one moment, for reading; None if there is none yet.

    A run creates the file before its tables, so another process may find it without any.
    """
    if not path.exists():
        yield None
        return
    with (
        translated_errors(path),
        contextlib.closing(sqlite3.connect(read_only_uri(path), uri=True, timeout=BUSY_SECONDS)) as database,
    ):
        database.execute("begin")
        yield database if _has_tables(database) else None


def _windows(database: sqlite3.Connection) -> list[WindowState]:
    rows = database.execute("select label, state, detail from windows order by label")
    return [WindowState(*row) for row in rows]


def _attempts(database: sqlite3.Connection, where: str = "", *values: Any) -> list[Attempt]:
    columns = ", ".join(Attempt.__struct_fields__)
    return [Attempt(*row) for row in database.execute(f"select {columns} from attempts {where} order by id", values)]


@contextlib.contextmanager
def _closed_on_error(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield database
    except BaseException:
        database.close()
        raise


def _has_tables(database: sqlite3.Connection) -> bool:
    return bool(database.execute("select 1 from main.sqlite_master where name = 'meta'").fetchone())


def _prepare(database: sqlite3.Connection, path: Path, belongs: dict[str, str]) -> None:
    with database:
        database.execute("begin immediate")
        if not _has_tables(database):
            for statement in _SCHEMA:
                database.execute(statement)
            database.executemany("insert into meta values (?, ?)", {"version": VERSION, **belongs}.items())
        _check(database, "main", path, belongs)


def _check(database: sqlite3.Connection, schema: str, path: Path, belongs: dict[str, str]) -> None:
    stored = dict(database.execute(f"select key, value from {schema}.meta"))
    if stored.get("version") != VERSION:
        raise BrokenLedger(
            f"{path} has schema {stored.get('version')}; this version of backcast writes {VERSION}", hint=REBUILD
        )
    for name, value in belongs.items():
        if stored.get(name) != value:
            raise UsageError(
                f"{path} belongs to the {name} {stored.get(name)!r}, not to {value!r}",
                hint="name another folder under `state` in the job file: each is for one target and calendar",
            )
