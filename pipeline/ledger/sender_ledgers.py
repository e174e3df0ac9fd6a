"""The ledgers of sender processes: several send the events of a plan at once, and each writes ahead in its own.

They are `senders/RUN-1/ledger.sqlite`, `senders/RUN-2/ledger.sqlite` and so on beside the plan's ledger, with markers
of their own; RUN is the run of the plan's ledger that started them, so that no other run ever has a ledger at the same
path. The plan's ledger records their folders (`senders` in `meta`) durably before the first of them sends. Once the
processes have ended, one transaction takes all rows over and removes that record, so a crash leaves either all of the
ledgers to be merged or none. Until then whoever reads the plan's ledger reads them with it, as one, and a version of
backcast that knows nothing of them refuses it, by the number of its schema.

No batch is in two of them: each process sends blocks of its own, of which the plan's ledger has no row.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from pipeline.errors import BrokenLedger, Busy
from pipeline.ledger.marker import check_marker, read_marker
from pipeline.ledger.opening import connect, is_locked, lock_file, make_folder, sync_directory, unlock
from pipeline.ledger.schema import VERSION, has_table, read_meta

_UNMERGED = str(VERSION + 1)
"""The schema of a ledger while it has sender ledgers, which a version without them must not open."""
_RUN = "(select max(id) from main.runs)"
"""A row belongs to the run of the plan's ledger that started the process, whatever number it has in its own ledger."""
_COLUMNS = {
    "batches": f"phase, block, first, last, state, bytes, tries, status, detail, {_RUN} as run, begun, ended",
    "refused_events": "*",
    "tries": f"phase, block, first, last, {_RUN} as run, try, at, seconds, status, detail",
    "event_warnings": "*",
}
"""By table that has rows of batches: its columns, as those of a sender's ledger are read."""


def folder_of(path: Path) -> Path:
    """The folder of the sender ledgers of the ledger at `path`."""
    return path.with_name("senders")


def paths_of(path: Path, names: Sequence[str]) -> list[Path]:
    """Where the sender ledgers in these folders are, of the ledger at `path`."""
    return [folder_of(path) / name / path.name for name in names]


def names_in(database: sqlite3.Connection) -> list[str]:
    """The folders of the sender ledgers of an open ledger, of which the rows are not taken over yet.

    Raises BrokenLedger for a name that `make_folders` does not give, which could lead anywhere.
    """
    names = read_meta(database).get("senders", "").split() if has_table(database, "meta") else []
    if not all(re.fullmatch(r"\d+-\d+", name) for name in names):
        raise BrokenLedger(f"the ledger has senders that backcast never makes: {names}", hint="restore it from a copy")
    return names


def make_folders(path: Path, run: int, count: int) -> list[str]:
    """Make the folders for `count` sender ledgers of a run of the ledger at `path`. Raises Unfinished."""
    remove(path)
    names = [f"{run}-{number + 1}" for number in range(count)]
    for one in paths_of(path, names):
        make_folder(one.parent)
    return names


def copy_settings(database: sqlite3.Connection, meta: Mapping[str, str]) -> None:
    """Give the ledger of a sender what the `meta` of the plan's has learned of the target."""
    settings = [(name, meta[name]) for name in ("transport", "batch_bytes") if name in meta]
    database.executemany("insert or replace into meta values (?, ?)", settings)


def record(database: sqlite3.Connection, path: Path, names: Sequence[str]) -> None:
    """Record in an open transaction that there are these, which exist already."""
    for one in paths_of(path, names):
        sync_directory(one)
    sync_directory(folder_of(path))
    database.execute("insert into meta values ('senders', ?)", (" ".join(names),))
    database.execute("update meta set value = ? where key = 'version'", (_UNMERGED,))


def _forget(database: sqlite3.Connection) -> None:
    database.execute("delete from main.meta where key = 'senders'")
    database.execute("update main.meta set value = ? where key = 'version'", (str(VERSION),))


def remove(path: Path) -> None:
    """Remove the sender ledgers of the ledger at `path`, which has their rows, or never recorded them."""
    folder = folder_of(path)
    aside = folder.with_name("senders.merged")
    shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(OSError):  # at once, so that no reader finds a ledger without its log
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def is_in_use(path: Path) -> bool:
    """Whether a process has the ledger at `path` now, or one of its sender ledgers."""
    return is_locked(path) or any(is_locked(one) for one in _all(path))


def _all(path: Path) -> list[Path]:
    """All sender ledgers that there are, also those that were merged."""
    return sorted(folder_of(path).glob(f"*/{path.name}"))


def _outlives(holder: str) -> Busy:
    return Busy(
        f"this plan is in use: {holder}, which a run that died had started, settles what it has in flight",
        hint="run the same command again in a minute; it ends by itself, and stopping it leaves its requests in doubt",
    )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Inside, no process has one of the sender ledgers that there are. Raises Busy where one has."""
    with ExitStack() as stack:
        for one in _all(path):
            stack.callback(unlock, lock_file(one, _outlives))
        yield


# -- reading ---------------------------------------------------------------------------------------


def read_together(database: sqlite3.Connection, path: Path, address: Callable[[Path], str]) -> None:
    """Let every later query of this connection, which only reads, have the rows of the sender ledgers, too.

    The connection is in a transaction: what a process takes over from now on is not seen twice. `address` is the URI by
    which SQLite opens a file. Raises BrokenLedger where one of them was lost.
    """
    names = names_in(database)
    if not names:
        return
    schemas = _attach(database, path, names, address)
    for table, columns in _COLUMNS.items():
        parts = [f"select {columns} from {schema}.{table}" for schema in schemas if has_table(database, table, schema)]
        if has_table(database, table):
            parts.append(f"select * from main.{table}")
        rows = " union all ".join(parts)
        if table == "event_warnings":
            rows = f"select detail, sum(events) as events, min(example) as example from ({rows}) group by detail"
        database.execute(f"create temp view {table} as {rows}")


def copy_view(database: sqlite3.Connection, into: sqlite3.Connection) -> None:
    """Give a copy of the plan's ledger the rows that `read_together` shows, as if they were taken over."""
    into.execute("begin")
    for table in _COLUMNS:
        if has_table(into, table):
            into.execute(f"delete from {table}")
            rows = database.execute(f"select * from {table}")
            into.executemany(f"insert into {table} values ({', '.join('?' * len(rows.description))})", rows)
    _forget(into)
    into.execute("commit")


def _attach(
    database: sqlite3.Connection, path: Path, names: Sequence[str], address: Callable[[Path], str]
) -> list[str]:
    """Open the sender ledgers with the plan's; the names of their schemas. Raises BrokenLedger."""
    schemas = []
    for number, one in enumerate(paths_of(path, names)):
        marker = read_marker(one)
        if marker is None or not one.exists():
            raise BrokenLedger(
                f"the ledger {one} of a sender process is missing",
                hint=f"put {folder_of(path)} back from a copy of the plan directory: without it there is no record of"
                " what that process sent",
            )
        database.execute(f"attach ? as sender_{number}", (address(one),))
        schemas.append(f"sender_{number}")
        check_marker(database, one, marker, schemas[-1])
    return schemas


# -- taking over ------------------------------------------------------------------------------------


@contextlib.contextmanager
def attached(database: sqlite3.Connection, path: Path) -> Iterator[Sequence[str]]:
    """The schemas of the sender ledgers of an open ledger, while no process has one of them.

    Raises Busy where one sends, and BrokenLedger.
    """
    with locked(path):
        names = names_in(database)
        for one in filter(Path.exists, paths_of(path, names)):
            connect(one).close()  # which checks it
        try:
            yield _attach(database, path, names, str)
        finally:
            for _, schema, _ in database.execute("pragma database_list").fetchall():
                if schema.startswith("sender_"):
                    database.execute(f"detach {schema}")


def take_over(database: sqlite3.Connection, path: Path, schemas: Sequence[str]) -> None:
    """Take all rows of the sender ledgers, in an open transaction. `remove` them after it. Raises BrokenLedger."""
    learned = [read_meta(database, schema).get("batch_bytes") for schema in ("main", *schemas)]
    try:
        for schema in schemas:
            for table, columns in _COLUMNS.items():
                if table != "event_warnings":
                    database.execute(f"insert into main.{table} select {columns} from {schema}.{table}")
                elif has_table(database, table, schema):
                    database.execute(
                        f"insert into main.{table} select * from {schema}.{table} where true"
                        " on conflict do update set events = events + excluded.events"
                    )
    except sqlite3.IntegrityError as error:
        raise BrokenLedger(
            f"{path} and a ledger in {folder_of(path)} have the same batch: {error}",
            hint="nothing was sent twice by this run; report this, with the ledgers",
        ) from None
    if sizes := [int(size) for size in learned if size is not None]:
        database.execute("insert or replace into main.meta values ('batch_bytes', ?)", (str(min(sizes)),))
    _forget(database)
