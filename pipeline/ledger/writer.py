"""The ledger for its one writer: durable transactions, and the steps that are written in them."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from pipeline.config import Secret
from pipeline.errors import BrokenLedger
from pipeline.ledger.marker import check_marker, lost, read_marker, write_marker
from pipeline.ledger.opening import (
    check_key,
    connect,
    error_from_sqlite,
    lock_file,
    nothing_taken,
    prepare,
    sync_directory,
    unlock,
)
from pipeline.ledger.queries import batches_in, copy_ledger, totals_in, warnings_in
from pipeline.ledger.schema import BatchKey, Refusal, Totals
from pipeline.timestamps import utc_now

Watch = Callable[[str, Sequence[str]], None]
"""Called around each transaction with `before` or `after` its commit, and the names of the steps in it."""


class Ledger:
    """Use between `open` and `close`. `Ledger(None)`, for a dry run, is a file that is removed on close.

    It begins as a copy of the ledger `like`. `watch` is called around every transaction, so that a test can end the
    process there. Several threads may use a ledger: a reader waits until another thread's transaction ends.
    """

    def __init__(
        self, path: Path | None, watch: Watch = lambda stage, steps: None, *, like: Path | None = None
    ) -> None:
        self.path = path
        self._like = like
        self.run = 0
        self._watch = watch
        self._steps: list[str] = []
        self._durable = True
        self._transacting = threading.RLock()
        self._lock: IO[bytes] | None = None
        self._opened: sqlite3.Connection | None = None

    # -- opening -------------------------------------------------------------------------------------

    def open(
        self, plan_digest: str, version: str, target: str, key: Secret | None = None, *, rotated: bool = False,
        project: str = "",
    ) -> Ledger:  # fmt: skip
        """Open as the only writer. `key` is the project's: a different key than before is refused unless it was
        `rotated`. `project` is its id, "" if it is not known.

        Raises Busy, BrokenLedger, UnsafePlan, UsageError, Unfinished; then nothing is left open.
        """
        try:
            fresh, marker = False, None
            if self.path is not None:
                self._lock = lock_file(self.path, "this plan")
                fresh, marker = not self.path.exists(), read_marker(self.path)
                if fresh and marker is not None:
                    raise lost(self.path, marker)
            self._opened = connect(self.path)
            if self._like is not None:
                copy_ledger(self._like, self._opened)
            if self.path is not None and marker is not None:
                check_marker(self._db, self.path, marker)
            with self.transaction():
                self._steps.append("open")
                marker = prepare(self._db, self.path or self._like, plan_digest, target)
                if key is not None:
                    check_key(self._db, self.path, key, rotated=rotated)
                if project:
                    self._db.execute("insert or replace into meta values ('project', ?)", (project,))
                started = self._db.execute("insert into runs (started, version) values (?, ?)", (utc_now(), version))
                self.run = int(started.lastrowid or 0)
            if self.path is not None:
                if fresh:
                    sync_directory(self.path)
                # Written after the ledger, so that no crash leaves a marker without one, and before anything can be
                # sent.
                self._watch("before", ("mark",))
                write_marker(self.path, marker)
                self._watch("after", ("mark",))
        except BaseException:
            self.close()
            raise
        return self

    @property
    def _db(self) -> sqlite3.Connection:
        assert self._opened is not None, "the ledger is not open"
        return self._opened

    # -- writing -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[None]:
        """One transaction: when it ends, the ledger has everything inside it, or none of it.

        A `durable` one survives a power loss from then on; any other survives a crash of this process, and a power
        loss once a durable one followed it. Raises BrokenLedger, and Unfinished if the disk is full or another
        program has locked the file.
        """
        with self._transacting:
            try:
                if durable != self._durable:
                    self._db.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
                    self._durable = durable
                self._db.execute("begin immediate")
                try:
                    yield
                    self._watch("before", tuple(self._steps))
                    self._db.execute("commit")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("rollback")
                    raise
                self._watch("after", tuple(self._steps))
            except sqlite3.Error as error:
                raise error_from_sqlite(self.path, error) from None
            finally:
                self._steps.clear()

    def begin(self, key: BatchKey, size: int) -> None:
        """Record that a batch is about to be sent. A batch that waits, or is in doubt, is begun again.

        Raises BrokenLedger if one of its events was already settled or refused: nothing is sent twice.
        """
        self._steps.append("begin")
        begun = self._db.execute(
            "insert into batches (phase, request, first, last, state, bytes, run, begun)"
            " select :phase, :request, :first, :last, 'begun', :bytes, :run, :now"
            " where not exists (select 1 from batches where phase = :phase and request = :request"
            " and first <= :last and last >= :first and state in ('settled', 'refused'))"
            # A run that was killed did not record the request that it left in doubt.
            " on conflict do update set tries = max(tries, state = 'begun'), state = 'begun', bytes = excluded.bytes,"
            " run = excluded.run, begun = excluded.begun where state in ('begun', 'waiting')",
            {**key._asdict(), "bytes": size, "run": self.run, "now": utc_now()},
        )
        if begun.rowcount != 1:
            raise BrokenLedger(
                f"events {key.first} to {key.last} of request {key.request} are already settled or refused"
                f" in {self.path}",
                hint="nothing was sent twice. This is a bug in backcast: report it, with the ledger",
            )

    def settle(self, key: BatchKey, status: int) -> None:
        """Record that the batch was accepted, by the try after those that are recorded as failed."""
        self._end("settle", key, "settled", status, "", tries=1)

    def split(self, key: BatchKey, halves: Sequence[tuple[BatchKey, int]], status: int, detail: str) -> None:
        """Record that the batch was refused as a whole; its halves, with their bytes, wait as rows of their own."""
        self._end("split", key, "split", status, detail)
        self._wait(halves)

    def cut(self, key: BatchKey, size: int, pieces: Sequence[tuple[BatchKey, int]]) -> None:
        """Record that a batch which was never begun is too large; its pieces wait as rows of their own."""
        self._steps.append("cut")
        self._db.execute(
            "insert into batches (phase, request, first, last, state, bytes, run, begun, ended, detail)"
            " values (?,?,?,?,'split',?,?,?,?,'larger than the service accepts')",
            (*key, size, self.run, utc_now(), utc_now()),
        )
        self._wait(pieces)

    def _wait(self, pieces: Sequence[tuple[BatchKey, int]]) -> None:
        self._db.executemany(
            "insert into batches (phase, request, first, last, state, bytes, run, begun)"
            " values (?,?,?,?,'waiting',?,?,?)",
            [(*piece, size, self.run, utc_now()) for piece, size in pieces],
        )

    def refuse(self, key: BatchKey, uuid: str, status: int, detail: str) -> None:
        """Record that one event was refused permanently."""
        self._end("refuse", key, "refused", status, detail)
        self._db.execute(
            "insert or replace into refused_events values (?,?,?,?,?,?)",
            (key.phase, key.request, key.first, uuid, status, detail),
        )

    def divide(
        self,
        key: BatchKey,
        accepted: Sequence[BatchKey],
        refused: Sequence[Refusal],
        again: Sequence[tuple[BatchKey, int]],
        status: int,
        detail: str,
    ) -> None:
        """Record what an answer for each event made of a batch. If one part covers the whole batch, only its row
        changes.

        Otherwise the row is split into parts: ranges that were accepted, single events that were refused, and ranges
        that wait, with their bytes. If something of the batch waits, its try is recorded as a failed one.
        """
        self._steps.append("divide")
        tries = 0 if again else 1
        if any(part == key for part, _ in again):
            self.requeue(key)
        elif key in accepted:
            self._end("settle", key, "settled", status, "", tries=tries)
        else:
            if key.events > 1:
                self._end("split", key, "split", status, detail, tries=tries)
                rows = [(part, "settled", "") for part in accepted] + [
                    (one.row, "refused", one.detail) for one in refused
                ]
                self._db.executemany(
                    "insert into batches (phase, request, first, last, state, bytes, run, begun, ended, status, detail)"
                    " values (?,?,?,?,?,0,?,?,?,?,?)",
                    [(*part, state, self.run, utc_now(), utc_now(), status, text) for part, state, text in rows],
                )
            else:
                self._end("refuse", key, "refused", status, refused[0].detail, tries=tries)
            self._db.executemany(
                "insert or replace into refused_events values (?,?,?,?,?,?)",
                [(one.row.phase, one.row.request, one.row.first, one.uuid, status, one.detail) for one in refused],
            )
            self._wait(again)

    def warned(self, detail: str, events: int, example: str) -> None:
        """Count events that were accepted with a warning; `example` is the uuid of one."""
        self._steps.append("warn")
        self._db.execute(
            "insert into event_warnings values (?,?,?) on conflict do update set events = events + excluded.events",
            (detail, events, example),
        )

    def requeue(self, key: BatchKey) -> None:
        """Record that the batch was never sent, or that none of it was accepted: it waits to be sent unchanged."""
        self._steps.append("requeue")
        self._db.execute(
            "update batches set state = 'waiting' where phase = ? and request = ? and first = ? and last = ?", key
        )

    def reopen(self, key: BatchKey, pieces: Sequence[tuple[BatchKey, bool]], detail: str) -> None:
        """Record that events of a settled batch did not land: some of its pieces wait again, others stay settled.

        If the whole batch must be sent again, the batch itself waits.
        """
        self._steps.append("reopen")
        if len(pieces) == 1:
            self._db.execute(
                "update batches set state = 'waiting', ended = null, detail = ?, run = ?"
                " where phase = ? and request = ? and first = ? and last = ?",
                (detail, self.run, *key),
            )
            return
        same = "phase = ? and request = ? and first = ? and last = ?"
        size, status, begun, ended = self._db.execute(
            f"select bytes, status, begun, ended from batches where {same}", key
        ).fetchone()
        self._db.execute(f"update batches set state = 'split', detail = ? where {same}", (detail, *key))
        self._db.executemany(
            "insert into batches (phase, request, first, last, state, bytes, status, detail, run, begun, ended)"
            " values (?,?,?,?,?,?,?,?,?,?,?)",
            [
                (*piece, "waiting", size, None, detail, self.run, begun, None)
                if again
                else (*piece, "settled", 0, status, "", self.run, begun, ended)
                for piece, again in pieces
            ],
        )

    def failed(
        self,
        key: BatchKey,
        number: int,
        at: str,
        seconds: float,
        status: int | None,
        detail: str,
        *,
        listed: bool = True,
    ) -> None:
        """Record a try that did not settle its batch, which stays begun: in doubt until a later response decides.

        `status` is None for a request without a response, and 0 for one that did not leave. If a request has several
        rows, only one of them has its try `listed`.
        """
        self._steps.append("try")
        if listed:
            self._db.execute(
                "insert into tries values (?,?,?,?,?,?,?,?,?,?)",
                (*key, self.run, number, at, round(seconds, 3), status, detail),
            )
        self._db.execute(
            "update batches set tries = tries + 1, status = coalesce(nullif(?, 0), status), detail = ?"
            " where phase = ? and request = ? and first = ? and last = ?",
            (status, detail, *key),
        )

    def _end(self, step: str, key: BatchKey, state: str, status: int, detail: str, *, tries: int = 0) -> None:
        self._steps.append(step)
        self._db.execute(
            "update batches set state = ?, tries = tries + ?, status = ?, detail = ?, ended = ?"
            " where phase = ? and request = ? and first = ? and last = ?",
            (state, tries, status, detail, utc_now(), *key),
        )

    def learn(self, batch_bytes: int) -> None:
        """Record the largest request that the service accepts."""
        self._steps.append("learn")
        self._db.execute("insert or replace into meta values ('batch_bytes', ?)", (str(batch_bytes),))

    def choose_transport(self, name: str) -> None:
        """Record how the batches of this plan travel: `batch` or `v1`."""
        with self.transaction():
            self._steps.append("transport")
            self._db.execute("insert or replace into meta values ('transport', ?)", (name,))

    def finish(self, outcome: str) -> None:
        """Record how this run ended."""
        with self.transaction(durable=False):
            self._steps.append("finish")
            self._db.execute("update runs set ended = ?, outcome = ? where id = ?", (utc_now(), outcome, self.run))

    def close(self) -> None:
        """Close the file and release the lock. May be called twice."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        if self._lock is not None:
            unlock(self._lock)
            self._lock = None

    # -- reading ---------------------------------------------------------------------------------------

    def rows_of(self, phase: str, request: int) -> list[tuple[BatchKey, str]]:
        """The recorded batches of one request, with their states, in event order."""
        query = "select first, last, state from batches where phase = ? and request = ? order by first, last"
        return [(BatchKey(phase, request, *row[:2]), row[2]) for row in self._read(query, phase, request)]

    def requests_begun(self, phase: str) -> set[int]:
        """The numbers of requests that have rows."""
        return {row[0] for row in self._read("select distinct request from batches where phase = ?", phase)}

    def in_doubt(self) -> set[BatchKey]:
        """The batches that are in doubt."""
        query = "select phase, request, first, last from batches where state = 'begun'"
        return {BatchKey(*row) for row in self._read(query)}

    def runs_before(self) -> int:
        """How many runs there were before this one."""
        return int(self._read("select count(*) from runs where id < ?", self.run)[0][0])

    def was_answered(self) -> bool:
        """Whether the target responded in an earlier run, or may have received a request."""
        with self._transacting:
            return not nothing_taken(self._db)

    def learned(self) -> int | None:
        """The largest request that the service accepts, if it refused a larger one."""
        rows = self._read("select value from meta where key = 'batch_bytes'")
        return int(rows[0][0]) if rows else None

    def transport(self) -> str:
        """How the batches of this plan travel; "" if it was never chosen. Older ledgers knew only one way."""
        rows = self._read("select value from meta where key = 'transport'")
        return str(rows[0][0]) if rows else "batch" if self.was_answered() else ""

    def batches_of_run(self) -> tuple[int, int, int, int]:
        """Batches, and their pieces, that this run had last, counted as in `Totals`: made, sent, retried and split."""
        with self._transacting:
            return batches_in(self._db, self.run)

    def warnings(self) -> dict[str, int]:
        """Events that were accepted with a warning, by the service's reason."""
        with self._transacting:
            return {one.detail: one.events for one in warnings_in(self._db)}

    def totals(self) -> Totals:
        """Events by state, and the batches that contain them."""
        with self._transacting:
            return totals_in(self._db)

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._transacting:
            return self._db.execute(query, values).fetchall()
