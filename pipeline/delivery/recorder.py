"""The recorder: one thread that writes the ledger and the counts of a run.

A sender asks the recorder to begin its batch, and waits until that is committed; it reports results without waiting.
Everything that was queued while the disk was busy goes into the next commit, in order of arrival (group commit).
So the disk is synced once for all waiting senders. A batch is begun in the commit that finishes the sender's previous
batch, or in a later one, so no commit has more unfinished batches than may be in flight.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, Queue
from typing import NamedTuple

from pipeline.batcher import Batch, unpack
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.outcome import RunCounts, SendLimits
from pipeline.delivery.retry import FailedTry, SendResult
from pipeline.delivery.size import KeyedBatch
from pipeline.delivery.stopping import StopSignal, gave_up, refused_access, too_many_refused
from pipeline.delivery.undecided import Division
from pipeline.encoder.encoded import UUID_LENGTH, uuid_of
from pipeline.ledger import BatchKey, Ledger


class FinishedBatch(NamedTuple):
    """The result of sending one batch, or the exception that ended it. `ends`: it stops the run.

    `pieces` are what it was split into; `learned` is the request size limit that this result showed. `rows` are the
    ledger rows that the result concerns, if an answer for each event divided the batch before; None: the batch's own
    row.
    """

    key: BatchKey
    batch: Batch
    sent: SendResult
    error: BaseException | None
    ends: bool
    pieces: Sequence[KeyedBatch] = ()
    learned: int | None = None
    rows: Sequence[BatchKey] | None = None


class _Write(NamedTuple):
    """A queued write. `durable`: it must survive a power loss. `result` is set by the commit; None if that failed."""

    write: Callable[[], object]
    durable: bool
    result: Future[object]


class Recorder:
    """Use between `start` and `close`; nothing else writes to the ledger meanwhile.

    Once `stop` is set, nothing is begun any more.
    """

    def __init__(
        self, ledger: Ledger, counts: RunCounts, send_limits: SendLimits, address: str, stop: StopSignal
    ) -> None:
        self.in_doubt: set[BatchKey] = set()
        self._ledger = ledger
        self._counts = counts
        self._send_limits = send_limits
        self._address = address
        self._stop = stop
        self._failing: dict[BatchKey, str] = {}
        self._lock = threading.Lock()
        self._writes: Queue[_Write | None] = Queue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Start the thread. From here on, `in_doubt` counts what earlier runs left in doubt."""
        self.in_doubt = self._ledger.in_doubt()
        self._thread.start()

    def settle(self) -> None:
        """Wait until everything that was queued is committed."""
        self._writes.join()

    def close(self) -> None:
        """Commit what is queued, and end the thread."""
        with self._lock:
            self._closed = True
            self._writes.put(None)
        if self._thread.is_alive():
            self._thread.join()

    # -- for the senders -------------------------------------------------------------------

    def begin(self, rows: Sequence[tuple[BatchKey, int]]) -> bool:
        """Wait until a request is begun in the ledger: its rows, with their bytes.

        Returns False if it may not leave because the run is stopping.
        """

        def write() -> bool:
            if self._stop.event.is_set():
                return False
            for key, size in rows:
                self._ledger.begin(key, size)
            return True

        return self._put(write).result() is True

    def tried(self, rows: Sequence[tuple[BatchKey, int]], tried: FailedTry) -> None:
        """Record a request that did not settle its batch, which may be tried again."""

        def write() -> None:
            for position, (key, _) in enumerate(rows):
                self._record_try(key, tried, listed=not position)

        self._put(write, durable=False)

    def divided(self, divisions: Sequence[Division], response: Response, uuids: str) -> None:
        """Record an answer that differs between the events of a batch. `uuids` are the request's."""
        self._put(lambda: self._record_division(divisions, response, uuids))

    def finished(self, finished: FinishedBatch) -> None:
        """Record the result of a batch."""
        self._put(lambda: self._record(finished))

    def cut(self, key: BatchKey, batch: Batch, pieces: Sequence[KeyedBatch]) -> None:
        """Record that a batch which was never begun is too large for the service, and is sent in pieces."""
        self._put(lambda: self._record_cut(key, batch, pieces), durable=False)

    def _put(self, write: Callable[[], object], *, durable: bool = True) -> Future[object]:
        result: Future[object] = Future()
        with self._lock:
            if self._closed:
                result.set_result(None)
            else:
                self._writes.put(_Write(write, durable, result))
        return result

    # -- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        closing = False
        while not closing:
            queued = [self._writes.get()]
            with suppress(Empty):
                while True:
                    queued.append(self._writes.get_nowait())
            closing = queued[-1] is None  # nothing is queued after it
            self._commit([write for write in queued if write is not None])
            for _ in queued:
                self._writes.task_done()

    def _commit(self, writes: Sequence[_Write]) -> None:
        """Do all writes in one transaction, then set their results; if it fails, none of them was done."""
        if not writes:
            return
        results: list[object] = []
        try:
            with self._ledger.transaction(durable=any(write.durable for write in writes)):
                results = [write.write() for write in writes]
        except BaseException as error:  # otherwise senders would wait for this thread for ever
            results = [None] * len(writes)
            self._stop.fail(error)
        for write, result in zip(writes, results, strict=True):
            write.result.set_result(result)

    def _record_try(self, key: BatchKey, tried: FailedTry, *, listed: bool) -> None:
        """Record a failed request in one of its rows; only one row has it `listed` among the tries."""
        number, at, seconds, response = tried
        status = response.status or (None if response.taken else 0)
        self._ledger.failed(key, number, at, seconds, status, response.detail, listed=listed)
        self._set_failure(key, f"{response.status or ''} {response.detail}".strip() or "no answer")
        if response.taken and key not in self.in_doubt:
            self.in_doubt.add(key)
            self._counts.add(key.phase, in_doubt=key.events)

    def _record_cut(self, key: BatchKey, batch: Batch, pieces: Sequence[KeyedBatch]) -> None:
        self._ledger.cut(key, batch.bytes, [(piece.key, piece.batch.bytes) for piece in pieces])
        self._counts.batches_split += 1

    def _record_division(self, divisions: Sequence[Division], response: Response, uuids: str) -> None:
        for row, accepted, refused, again in divisions:
            if row in self.in_doubt:
                self.in_doubt.discard(row)
                self._counts.add(row.phase, in_doubt=-row.events)
            self._ledger.divide(row, accepted, refused, again, response.status, response.detail)
            settled = sum(part.events for part in accepted)
            self._counts.add(row.phase, accepted=settled, refused=len(refused))
            self._counts.batches_split += row.events > 1 and row not in accepted and not any(p == row for p, _ in again)
            self._set_failure(row)
            for part, _ in again:
                self._set_failure(part, f"{response.status} {response.detail}")
        self._record_warnings(response, uuids)
        if any(refused for _, _, refused, _ in divisions):
            self._check_refused(response)

    def _record_warnings(self, response: Response, uuids: str) -> None:
        """Count, by reason, the events that were accepted with a warning."""
        counts: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for position, reason in response.verdicts.warned:
            counts[reason] += 1
            examples.setdefault(reason, uuids[position * UUID_LENGTH : (position + 1) * UUID_LENGTH])
        for reason, events in counts.items():
            self._ledger.warned(reason, events, examples[reason])

    def _check_refused(self, response: Response) -> None:
        self._counts.last_refusal = f"{response.status} {response.detail}"
        if self._counts.refused > self._send_limits.max_refused:
            self._stop.fail(too_many_refused(self._counts.refused, self._counts.last_refusal))

    def _set_failure(self, key: BatchKey, failure: str = "") -> None:
        """Set the last failure of a batch, "" once it is finished; the counts show that of the latest batch."""
        self._failing.pop(key, None)
        if failure:
            self._failing[key] = failure
        self._counts.last_failure = next(reversed(self._failing.values()), "")

    def _record(self, finished: FinishedBatch) -> None:
        """Write the result of a batch, and decide what it means for the run."""
        key, batch, sent, error, ends, _, learned, rows = finished
        response, counts = sent.response, self._counts
        if not sent.tries and error is None:
            return  # the run was stopping: it was never begun
        counts.batches_sent += sent.reached
        counts.bytes_sent += len(batch.body) * sent.reached
        counts.batches_retried += sent.tries > 1
        if response.kind is ResponseKind.SETTLED:
            self._record_warnings(response, batch.uuids)
            if learned is not None:
                self._ledger.learn(learned)
        for row in (key,) if rows is None else rows:
            self._record_row(row, finished)
        if response.kind is ResponseKind.POISON or response.kind is ResponseKind.TOO_LARGE:
            self._check_refused(response)
        elif response.kind is not ResponseKind.SETTLED:
            if error is not None:
                self._stop.fail(error)
            elif response.kind is ResponseKind.STOP:
                self._stop.fail(refused_access(self._address, response))
            elif ends:
                self._stop.fail(gave_up(self._address, sent, self._send_limits.retry))

    def _record_row(self, key: BatchKey, finished: FinishedBatch) -> None:
        """Write the result of a batch to one of its rows."""
        sent, response, counts = finished.sent, finished.sent.response, self._counts
        self._set_failure(key)
        in_doubt = key in self.in_doubt
        if response.kind in (ResponseKind.SETTLED, ResponseKind.POISON, ResponseKind.TOO_LARGE) and in_doubt:
            self.in_doubt.discard(key)
            counts.add(key.phase, in_doubt=-key.events)
        match response.kind:
            case ResponseKind.SETTLED:
                self._ledger.settle(key, response.status)
                counts.add(key.phase, accepted=key.events)
            case ResponseKind.POISON | ResponseKind.TOO_LARGE if any(piece.key == key for piece in finished.pieces):
                self._ledger.requeue(key)  # one of several rows of a request; it is sent by itself
            case ResponseKind.POISON | ResponseKind.TOO_LARGE if key.events > 1:
                sizes = [(piece.key, piece.batch.bytes) for piece in finished.pieces]
                self._ledger.split(key, sizes, response.status, response.detail)
                counts.batches_split += 1
            case ResponseKind.POISON | ResponseKind.TOO_LARGE:
                self._ledger.refuse(key, uuid_of(unpack(finished.batch.body)[0]), response.status, response.detail)
                counts.add(key.phase, refused=1)
            case _ if not (sent.doubtful or in_doubt):
                self._ledger.requeue(key)
