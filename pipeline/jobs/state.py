"""What a job remembers: SQLite, one file beside the plans of its windows.

`settled` holds every uuid that was taken, `ids` and `pairs` who is known, `windows` and `parts` what was read,
`attempts` one row for each plan that was made: the history. A window is recorded as done, its parts noted and its uuids
indexed in one transaction, so that a crash leaves it either done or to be resumed. A lost file is made again from the
plans and ledgers (`rebuilding`).

Its owner may read it, also while the job runs: `sqlite3 -readonly state.sqlite 'select * from attempts'`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.errors import BrokenLedger, UsageError
from pipeline.jobs.arrivals import SeenPart
from pipeline.jobs.identity_index import SCHEMA as KNOWN_SCHEMA
from pipeline.jobs.identity_index import KnownIds
from pipeline.jobs.settled_uuids import SCHEMA as SETTLED_SCHEMA
from pipeline.jobs.settled_uuids import SettledIndex
from pipeline.jobs.sqlite_errors import translated_errors
from pipeline.plan.window_index import WindowIndex

VERSION = "2"
BUSY_SECONDS = 10.0
CACHE_KIB = 64 * 1024

_SCHEMA = (
    "create table meta (key text primary key, value text not null) without rowid",
    "create table windows (label text primary key, detail text not null,"
    " state text not null check (state in ('waiting', 'stopped', 'open', 'done'))) without rowid",
    "create table attempts (id integer primary key, window text not null, number integer not null,"
    " state text not null check (state in ('planning', 'sending', 'done', 'stopped', 'replaced')),"
    " started text not null, ended text, parts integer not null default 0, rows integer not null default 0,"
    " skipped integer not null default 0, rejected integer not null default 0, already integer not null default 0,"
    " events integer not null default 0, sent integer not null default 0, refused integer not null default 0,"
    " held integer not null default 0, seconds real not null default 0, detail text not null default '',"
    " proof text not null default '' check (proof in ('', 'pending', 'proved', 'differs', 'unknown')))",
    "create table parts (window text not null, path text not null, bytes integer not null, mtime_ns integer not null,"
    " digest text not null, primary key (window, path)) without rowid",
    *SETTLED_SCHEMA,
    *KNOWN_SCHEMA,
)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One plan of a window and what came of it. Times are UTC.

    `state` is planning, sending, done, stopped (a gate, or a file that cannot be read) or replaced (its files changed
    before it was sent to its end). Rows: `rows` were read, `skipped` and `rejected` of them left out. Events: `events`
    were planned, `sent` taken, `refused` by the service, `already` settled by earlier windows; `held` merges are held
    back. `seconds` is the time it took, over all runs. `proof` is what reading it back said: nothing where nobody
    could, else pending, proved, differs, or unknown where its events cannot be made again.
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
    events: int
    sent: int
    refused: int
    held: int
    seconds: float
    detail: str
    proof: str = ""


class WindowState(msgspec.Struct, frozen=True):
    """Where a window stands: waiting (for its files), stopped, open (being sent) or done."""

    label: str
    state: str
    detail: str


_COLUMNS = ", ".join(Attempt.__struct_fields__)


class State:
    """The state of one job, open for writing by the holder of the job's lock."""

    def __init__(self, path: Path, database: sqlite3.Connection, schemas: tuple[str, ...] = ("main",)) -> None:
        self.path = path
        self._database = database
        self.settled = SettledIndex(path, database, schemas)
        self.known = KnownIds(path, database, schemas)

    # -- opening -------------------------------------------------------------------------------------

    @staticmethod
    def open(path: Path, belongs: dict[str, str]) -> State:
        """Open or make a state. `belongs` is what it must have been made for: the job's name, target and windows.

        Raises UsageError, BrokenLedger, Unfinished.
        """
        with translated_errors(path):
            database = _connect(str(path), "wal")
            try:
                _prepare(database, path, belongs)
                return State(path, database)
            except BaseException:
                database.close()
                raise

    @staticmethod
    def scratch(path: Path, scratch: Path, belongs: dict[str, str]) -> State:
        """A state that knows what the one at `path` does, and keeps what it learns in `scratch`, for a dry run."""
        if not path.exists():
            return State.open(scratch, belongs)
        with translated_errors(path):
            database = _connect(str(scratch), "memory")
            try:
                database.execute("attach ? as earlier", (_read_only(path),))
                _check(database, "earlier", path, belongs)
                _prepare(database, scratch, belongs)
                for table in ("windows", "attempts", "parts"):
                    database.execute(f"insert into main.{table} select * from earlier.{table}")
                return State(path, database, ("main", "earlier"))
            except BaseException:
                database.close()
                raise

    def close(self) -> None:
        """Let go of the file."""
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("pragma wal_checkpoint(truncate)")
        self._database.close()

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """One durable step: everything inside it is on disk when it ends, or none of it."""
        with translated_errors(self.path):
            self._database.execute("begin immediate")
            try:
                yield
                self._database.execute("commit")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("rollback")
                raise

    # -- reading -------------------------------------------------------------------------------------

    def windows(self) -> dict[str, WindowState]:
        """Every window that was looked at, by its label."""
        found = self._database.execute("select label, state, detail from windows order by label")
        return {row[0]: WindowState(*row) for row in found}

    def window(self, label: str) -> WindowState | None:
        """One window, None where it was never looked at."""
        found = self._database.execute("select label, state, detail from windows where label = ?", (label,)).fetchone()
        return None if found is None else WindowState(*found)

    def parts(self, window: str) -> dict[str, SeenPart]:
        """The parts of a window that were read and settled."""
        found = self._database.execute("select path, bytes, mtime_ns, digest from parts where window = ?", (window,))
        return {row[0]: SeenPart(*row) for row in found}

    def attempts(self) -> list[Attempt]:
        """The history, oldest first."""
        return _attempts(self._database)

    def attempt(self, id: int) -> Attempt:
        """One attempt."""
        return _attempts(self._database, " where id = ?", id)[0]

    def sending(self) -> Attempt | None:
        """The attempt whose sending began and did not come to its end."""
        return next(iter(_attempts(self._database, " where state = 'sending'")), None)

    def sent_before(self) -> bool:
        """Whether the target took events of any window."""
        return self._database.execute("select 1 from attempts where sent > 0 limit 1").fetchone() is not None

    def unproved(self) -> list[Attempt]:
        """What was sent to its end and is to be read back, oldest first."""
        return _attempts(self._database, " where state = 'done' and proof in ('pending', 'differs')")

    def next_number(self, window: str) -> int:
        """The number of a window's next plan: those that were sent, in whole or in part, keep theirs."""
        found = self._database.execute(
            "select coalesce(max(number), 0) + 1 from attempts"
            " where window = ? and state in ('sending', 'done', 'replaced')",
            (window,),
        ).fetchone()
        return int(found[0])

    def was_replaced(self, window: str) -> bool:
        """Whether a plan of this window was sent in part, and none to its end since."""
        last = self._database.execute(
            "select state from attempts where window = ? and state in ('done', 'replaced') order by id desc", (window,)
        ).fetchone()
        return last is not None and last[0] == "replaced"

    # -- writing -------------------------------------------------------------------------------------

    def begin(self, window: str, number: int) -> int:
        """A plan is about to be made. What an earlier run left half made is forgotten."""
        with self.moment():
            self._database.execute("delete from attempts where state = 'planning'")
            done = self._database.execute(
                "insert into attempts (window, number, state, started) values (?, ?, 'planning', ?)",
                (window, number, now_text()),
            )
            return int(done.lastrowid or 0)

    def note(self, attempt: int, **counts: Any) -> None:
        """What is known of an attempt now."""
        with self.moment():
            self._note(attempt, counts)

    def send(self, attempt: Attempt) -> None:
        """The plan is good and is about to be sent."""
        with self.moment():
            self._note(attempt.id, {"state": "sending"})
            self._window(attempt.window, "open", "")

    def stop(self, attempt: Attempt, detail: str) -> None:
        """The plan is not to be sent as it is."""
        with self.moment():
            self._note(attempt.id, {"state": "stopped", "ended": now_text(), "detail": detail})
            self._window(attempt.window, "stopped", detail)

    def record(
        self,
        attempt: Attempt,
        parts: Iterable[SeenPart],
        settled: Iterable[NDArray[np.void]],
        seen: WindowIndex,
        **counts: Any,
    ) -> None:
        """The window came to its end: it is done, its parts are read, its uuids are never sent again."""
        with self.moment():
            self.settled.add(settled, attempt.id)
            self.known.add(seen)
            self._database.executemany(
                "insert or replace into parts values (?, ?, ?, ?, ?)", ((attempt.window, *part) for part in parts)
            )
            self._note(attempt.id, {"state": "done", "ended": now_text(), **counts})
            self._window(attempt.window, "done", "")

    def replace(
        self, attempt: Attempt, settled: Iterable[NDArray[np.void]], seen: WindowIndex, detail: str, **counts: Any
    ) -> None:
        """The files changed before the plan was sent to its end: what was settled stays, the rest is planned anew."""
        with self.moment():
            self.settled.add(settled, attempt.id)
            self.known.add(seen)
            self._note(attempt.id, {"state": "replaced", "ended": now_text(), "detail": detail, **counts})
            self._window(attempt.window, "stopped", detail)

    def mark(self, window: str, state: str, detail: str) -> None:
        """Where a window stands without a plan."""
        with self.moment():
            self._window(window, state, detail)

    def _note(self, attempt: int, values: dict[str, Any]) -> None:
        names = ", ".join(f"{name} = :{name}" for name in values)
        self._database.execute(f"update attempts set {names} where id = :id", {**values, "id": attempt})

    def _window(self, label: str, state: str, detail: str) -> None:
        self._database.execute(
            "insert or replace into windows (label, state, detail) values (?, ?, ?)", (label, state, detail)
        )


def read_history(path: Path) -> tuple[list[WindowState], list[Attempt]]:
    """Windows and attempts, also while the job runs; nothing where it never ran. Raises BrokenLedger."""
    if not path.exists():
        return [], []
    with (
        translated_errors(path),
        contextlib.closing(sqlite3.connect(_read_only(path), uri=True, timeout=BUSY_SECONDS)) as database,
    ):
        database.execute("begin")
        found = database.execute("select label, state, detail from windows order by label")
        return [WindowState(*row) for row in found], _attempts(database)


def now_text() -> str:
    """The clock, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _attempts(database: sqlite3.Connection, where: str = "", *values: Any) -> list[Attempt]:
    found = database.execute(f"select {_COLUMNS} from attempts{where} order by id", values)
    return [Attempt(**dict(zip(Attempt.__struct_fields__, row, strict=True))) for row in found]


def _connect(path: str, journal: str = "") -> sqlite3.Connection:
    # Transactions are begun by `moment` alone, as in the ledger.
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
    try:
        if journal:
            database.execute(f"pragma journal_mode = {journal}")
        database.execute("pragma synchronous = full")
        database.execute("pragma temp_store = memory")
        database.execute(f"pragma cache_size = -{CACHE_KIB}")
    except BaseException:
        database.close()
        raise
    return database


def _read_only(path: Path) -> str:
    # Without a log nobody is writing: read the file as it lies, and leave no shared index beside it.
    still = not path.with_name(path.name + "-wal").exists()
    return f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if still else ''}"


def _prepare(database: sqlite3.Connection, path: Path, belongs: dict[str, str]) -> None:
    database.execute("begin immediate")
    try:
        if not database.execute("select 1 from main.sqlite_master where name = 'meta'").fetchone():
            for statement in _SCHEMA:
                database.execute(statement)
            database.executemany("insert into meta values (?, ?)", {"version": VERSION, **belongs}.items())
        _check(database, "main", path, belongs)
        database.execute("commit")
    except BaseException:
        if database.in_transaction:
            database.execute("rollback")
        raise


def _check(database: sqlite3.Connection, schema: str, path: Path, belongs: dict[str, str]) -> None:
    known = dict(database.execute(f"select key, value from {schema}.meta"))
    if known.get("version") != VERSION:
        raise BrokenLedger(
            f"{path} has schema {known.get('version')}; this version writes {VERSION}",
            hint="move it away: it is made again from the plans and ledgers beside it",
        )
    for name, value in belongs.items():
        if known.get(name) != value:
            raise UsageError(
                f"{path} belongs to the {name} {known.get(name)!r}, not to {value!r}",
                hint="give the job another `state`: what one target or calendar settled says nothing about another",
            )
