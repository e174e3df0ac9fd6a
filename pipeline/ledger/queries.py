"""Reads a ledger, even while a run writes it: it waits for nothing and changes nothing."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from pipeline.config import Secret
from pipeline.errors import UnsafePlan
from pipeline.ledger.marker import Marker, check_marker, lost, read_marker
from pipeline.ledger.opening import BUSY_SECONDS, error_from_sqlite, is_key, is_locked, nothing_taken, other_target
from pipeline.ledger.schema import (
    BatchKey,
    EventRecord,
    FailureCount,
    InDoubtBatch,
    PhaseTotals,
    RefusalRecord,
    Totals,
    WarningCount,
    has_table,
    read_meta,
)

# A begun batch may have been sent; a waiting batch without a response never was.
_REACHED = "(state = 'begun' or (tries > 0 and not (state = 'waiting' and status is null)))"
_REFUSAL = ", ".join(RefusalRecord.__struct_fields__)


class RunHistory(msgspec.Struct, frozen=True):
    """The runs of a ledger: to which address, how many, when the first began and the last one ended.

    `ended` is None during a run, and if it was killed.
    """

    to: str
    runs: int
    began: str
    ended: str | None


class SendingRate(msgspec.Struct, frozen=True):
    """Events that were accepted, and requests that did not settle their batch, by second since 1970 (UTC)."""

    settled: dict[int, int]
    failed: dict[int, int]


class LedgerSummary(msgspec.Struct, frozen=True):
    """The ledger at one moment. `doubts` and `refusals` list the first ones, `failures` lists all by status.

    `warnings` are the service's own, by reason; `transport` is how batches travel, "" if it was never chosen.
    `history` is None if nothing was ever applied.
    """

    totals: Totals = msgspec.field(default_factory=Totals)
    doubts: list[InDoubtBatch] = msgspec.field(default_factory=list)
    warnings: list[WarningCount] = msgspec.field(default_factory=list)
    transport: str = ""
    refusals: list[RefusalRecord] = msgspec.field(default_factory=list)
    failures: list[FailureCount] = msgspec.field(default_factory=list)
    history: RunHistory | None = None


def read_summary(path: Path, most: int = 100) -> LedgerSummary:
    """Totals, and up to `most` entries of each list, even while a run is writing. Raises BrokenLedger."""
    with reading(path) as database:
        if database is None:
            return LedgerSummary()
        doubts = database.execute(
            "select phase, request, first, last, last - first + 1, max(tries, 1), status, detail, begun from batches"
            " where state = 'begun' order by phase, request, first limit ?",
            (most,),
        )
        refusals = database.execute(
            f"select {_REFUSAL} from refused_events order by phase, request, event limit ?", (most,)
        )
        # SQLite takes `detail` from the row that has the maximum.
        failures = database.execute(
            "select nullif(status, 0), count(*), max(at), detail from tries group by 1 order by max(at) desc"
        )
        return LedgerSummary(
            totals_in(database),
            [InDoubtBatch(*row) for row in doubts],
            warnings_in(database),
            read_meta(database).get("transport", ""),
            [RefusalRecord(*row) for row in refusals],
            [FailureCount(*row) for row in failures],
            _history(database),
        )


def _history(database: sqlite3.Connection) -> RunHistory | None:
    to = read_meta(database)["target"]
    runs, began = database.execute("select count(*), min(started) from runs").fetchone()
    last = database.execute("select ended from runs order by id desc limit 1").fetchone()
    return RunHistory(to, runs, began, last[0]) if last else None


def check_target(path: Path, target: str) -> None:
    """Raise BrokenLedger if something was sent to another target than the address `target`."""
    with reading(path) as database:
        if database is None or (own := read_meta(database).get("target")) == target or nothing_taken(database):
            return
        raise other_target(database, path, target, f"name the target that it was sent to: --to {own}")


def check_project(path: Path, name: str, project: str, key: Secret | None, command: str) -> None:
    """Raise UnsafePlan if something of the plan `name` was sent to another project than the one with this id ("" if
    unknown) and this capture key (None if unknown). `command` is what to run with the right project."""
    with reading(path) as database:
        if database is None or nothing_taken(database):
            return
        meta = read_meta(database)
    own, matches = meta.get("project", ""), None if key is None else is_key(meta, key)
    if matches or (own and own == project):
        return
    if own and project:
        raise UnsafePlan(
            f"{name} was sent to project {own}, not to project {project}; nothing was sent",
            hint=f"{command} --project {own}",
        )
    if matches is False:
        other = f"that of project {project}" if project else "this one"
        raise UnsafePlan(
            f"{name} was sent with another capture key than {other}; nothing was sent",
            hint=f"use the project that it was sent to, and its key: {command} --project ID; if that key was rotated"
            " since, run apply with --rotated-key first",
        )


def read_project(path: Path) -> str:
    """The id of the project that the plan was sent to; "" if it is not recorded. Raises BrokenLedger."""
    with reading(path) as database:
        return "" if database is None else read_meta(database).get("project", "")


def read_rate(path: Path) -> SendingRate:
    """When events were accepted and requests failed, over all runs. Raises BrokenLedger."""
    settled = (
        "select cast(strftime('%s', ended) as integer) as second, sum(last - first + 1) from batches"
        " where state = 'settled' and ended is not null group by second order by second"
    )
    failed = "select cast(strftime('%s', at) as integer) as second, count(*) from tries group by second order by second"
    return SendingRate(dict(_rows(path, settled)), dict(_rows(path, failed)))


def read_refused_events(path: Path) -> Iterator[RefusalRecord]:
    """Every event that was refused, in phase and request order. Raises BrokenLedger."""
    for row in _rows(path, f"select {_REFUSAL} from refused_events order by phase, request, event"):
        yield RefusalRecord(*row)


def read_totals(path: Path) -> Totals:
    """The totals, even while a run is writing. Raises BrokenLedger."""
    with reading(path) as database:
        return Totals() if database is None else totals_in(database)


def read_events_sent(path: Path, events: Iterable[tuple[str, int, int]]) -> Iterator[EventRecord]:
    """What the ledger has of some events, each (phase, request, place in it), in their order. Raises BrokenLedger."""
    batch = (
        "select state, status, detail, tries, coalesce(ended, begun) from batches where phase = ? and request = ?"
        " and first <= ? and last >= ? and state != 'split' order by last - first limit 1"
    )
    refused = "select status, detail from refused_events where phase = ? and request = ? and event = ?"
    with reading(path) as database:
        for phase, request, place in events:
            found = database and database.execute(batch, (phase, request, place, place)).fetchone()
            record = EventRecord(*found) if found else EventRecord()
            reason = database and database.execute(refused, (phase, request, place)).fetchone()
            yield EventRecord("refused", *reason, *found[3:]) if reason and found else record


def read_last_settled(path: Path) -> datetime | None:
    """When a batch was last accepted; None if none was. Raises BrokenLedger."""
    query = "select max(ended) from batches where state = 'settled'"
    last = next((row[0] for row in _rows(path, query)), None)
    return None if last is None else datetime.fromisoformat(last)


def read_batches(path: Path, state: str) -> Iterator[BatchKey]:
    """Every batch in one state, in phase and request order, even while a run is writing. Raises BrokenLedger."""
    query = "select phase, request, first, last from batches where state = ? order by phase, request, first"
    for row in _rows(path, query, state):
        yield BatchKey(*row)


def state_digest(path: Path) -> str:
    """The sha256 over a line for each batch: `phase request first last state` with tabs, sorted by state, phase, place.

    Raises BrokenLedger.
    """
    digest = hashlib.sha256()
    for state in ("settled", "refused", "begun", "waiting"):
        for key in read_batches(path, state):
            digest.update("\t".join(map(str, (*key, state))).encode() + b"\n")
    return digest.hexdigest()


def read_unanswered(path: Path) -> Iterator[BatchKey]:
    """Every batch whose events the service may have without having said so, in phase and request order.

    Such a batch is in doubt, or it waits after the service answered for it or for a larger request that contained it.
    Raises BrokenLedger.
    """
    query = (
        "select phase, request, first, last from batches as batch where state = 'begun' or (state = 'waiting'"
        f" and ({_REACHED} or exists (select 1 from batches as whole where whole.state = 'split'"
        " and whole.phase = batch.phase and whole.request = batch.request"
        " and whole.first <= batch.first and whole.last >= batch.last))) order by phase, request, first"
    )
    for row in _rows(path, query):
        yield BatchKey(*row)


def read_doubts(path: Path) -> tuple[int, int]:
    """Batches, with their events, whose response was lost and that were sent again until one came.

    A try without a connection sent nothing, and does not count. Raises BrokenLedger.
    """
    query = (
        "select count(*), total(last - first + 1) from batches"
        " join (select distinct phase, request, first, last from tries where status is null)"
        " using (phase, request, first, last) where state = 'settled'"
    )
    batches, events = next(_rows(path, query), (0, 0))
    return int(batches), int(events)


def _rows(path: Path, query: str, *values: str) -> Iterator[tuple[Any, ...]]:
    with reading(path) as database:
        if database is not None:
            yield from database.execute(query, values)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """The ledger for reading; None if there is none yet. Raises BrokenLedger if it was lost, or is an older one."""
    marker = read_marker(path)  # read first: a run writes it after opening the ledger
    if not path.exists():
        if marker is not None:
            raise lost(path, marker)
        yield None
        return
    try:
        with contextlib.closing(_one_view(path, marker)) as database:
            yield database if has_table(database, "runs") else None
    except sqlite3.Error as error:
        # No code means that a string in it is not UTF-8.
        raise error_from_sqlite(path, error, opening=isinstance(error, sqlite3.OperationalError)) from None


def _one_view(path: Path, marker: Marker | None) -> sqlite3.Connection:
    """A connection to the ledger as it is at this moment."""
    database = sqlite3.connect(_read_only(path), uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        database.execute("begin")
        if marker is not None:
            check_marker(database, path, marker)
        return database
    except BaseException:
        database.close()
        raise


def _read_only(path: Path) -> str:
    """The URI by which SQLite reads a file."""
    # Without a log there is no writer: read only the file, and leave no shared index next to it.
    unused = not path.with_name(path.name + "-wal").exists() and not is_locked(path)
    return f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if unused else ''}"


def copy_ledger(path: Path, into: sqlite3.Connection) -> None:
    """Copy the ledger at `path`, if there is one. Raises BrokenLedger."""
    with reading(path) as database:
        if database is None:
            return
        database.backup(into)


def warnings_in(database: sqlite3.Connection) -> list[WarningCount]:
    """The service's warnings in an open ledger, the most frequent first."""
    rows = database.execute("select detail, events, example from event_warnings order by events desc, detail")
    return [WarningCount(*row) for row in rows]


def batches_in(database: sqlite3.Connection, run: int | None = None) -> tuple[int, int, int, int]:
    """Batches of an open ledger that were made, sent, retried and split (`schema.Totals`): all, or those of one run."""
    made, sent, retried, split = database.execute(
        f"select count(*), total({_REACHED}), total(tries > 1 and {_REACHED}), total(state = 'split')"
        " from batches where :run is null or run = :run",
        {"run": run},
    ).fetchone()
    return made, int(sent), int(retried), int(split)


def totals_in(database: sqlite3.Connection) -> Totals:
    """The totals of an open ledger."""
    states = {
        (phase, state): int(events)
        for phase, state, events in database.execute(
            "select phase, state, sum(last - first + 1) from batches group by phase, state"
        )
    }
    phases = {
        phase: PhaseTotals(*(states.get((phase, state), 0) for state in ("settled", "refused", "begun")))
        for phase in {phase for phase, _ in states}
    }
    outcome = database.execute("select outcome from runs order by id desc limit 1").fetchone()
    return Totals(
        sum(phase.settled for phase in phases.values()),
        sum(phase.refused for phase in phases.values()),
        sum(phase.in_doubt for phase in phases.values()),
        *batches_in(database),
        (outcome[0] if outcome else "") or "",
        phases,
    )
