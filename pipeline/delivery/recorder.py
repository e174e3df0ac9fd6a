"""The recorder: one thread that writes the ledger and the counts of a run.

A sender asks the recorder to begin its batch, and waits until that is committed; it reports results without waiting.
All that was queued while the disk was busy goes into the next commit, in the order in which it came (group commit).
So the disk is synced once for all senders that wait, and a batch is begun in the commit that finishes the batch whose
place in flight it takes, or in a later one: no commit has more batches begun and unfinished than may be in flight.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.batcher import Batch, unpack
from pipeline.delivery.destination import ResponseKind
from pipeline.delivery.outcome import RunCounts, SendLimits, gave_up, refused_access, too_many_refused
from pipeline.delivery.retry import FailedTry, SendResult
from pipeline.delivery.size import Piece
from pipeline.encoder.encoded import uuid_of
from pipeline.ledger import BatchKey, Ledger


class FinishedBatch(NamedTuple):
    """The result of sending one batch, or the exception that ended it. `ends`: it stops the run.

    `pieces` are what it was split into; `learned` is the request size limit that was learned from it.
    """

    key: BatchKey
    batch: Batch
    sent: SendResult
    error: BaseException | None
    ends: bool
    pieces: Sequence[Piece] = ()
    learned: int | None = None


class _Entry:
    """A queued write. `durable`: it has to survive a power loss. `granted`: the batch is begun, and committed."""

    def __init__(self, write: Callable[[_Entry], None], *, durable: bool) -> None:
        self.write = write
        self.durable = durable
        self.granted = False
        self.done = threading.Event()


class Recorder:
    """Use between `start` and `close`; nothing else writes to the ledger meanwhile.

    `fail` is called with the error that has to end the run. Once `stop` is set nothing is begun any more.
    """

    def __init__(
        self,
        ledger: Ledger,
        counts: RunCounts,
        send_limits: SendLimits,
        address: str,
        *,
        fail: Callable[[BaseException], None],
        stop: threading.Event,
    ) -> None:
        self.in_doubt: set[BatchKey] = set()
        self._ledger = ledger
        self._counts = counts
        self._send_limits = send_limits
        self._address = address
        self._fail = fail
        self._stop = stop
        self._failing: dict[BatchKey, str] = {}
        lock = threading.Lock()
        self._asked = threading.Condition(lock)
        self._written = threading.Condition(lock)
        self._waiting: list[_Entry] = []
        self._writing = False
        self._closing = self._ended = False
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)

    def start(self) -> None:
        """Start the thread. From here on `in_doubt` has what earlier runs left in doubt."""
        self.in_doubt = self._ledger.in_doubt()
        self._thread.start()

    # -- for the senders -------------------------------------------------------------------

    def begin(self, key: BatchKey, batch: Batch) -> bool:
        """Wait until the batch is begun in the ledger. Returns False where it may not leave: the run is stopping."""

        def write(entry: _Entry) -> None:
            if not self._stop.is_set():
                self._ledger.begin(key, batch.bytes)
                entry.granted = True

        entry = self._put(write)
        entry.done.wait()
        return entry.granted

    def tried(self, key: BatchKey, tried: FailedTry) -> None:
        """Record a request that did not settle its batch, which may be tried again."""
        self._put(lambda _: self._note(key, tried), durable=False)

    def finished(self, finished: FinishedBatch) -> None:
        """Record the result of a batch."""
        self._put(lambda _: self._record(finished))

    def cut(self, key: BatchKey, batch: Batch, pieces: Sequence[Piece]) -> None:
        """Record that a batch which was never begun is too large for the service, and is sent in pieces."""

        def write(_: _Entry) -> None:
            self._ledger.cut(key, batch.bytes, [(piece, part.bytes) for piece, part in pieces])
            self._counts.batches_split += 1

        self._put(write, durable=False)

    def _put(self, write: Callable[[_Entry], None], *, durable: bool = True) -> _Entry:
        entry = _Entry(write, durable=durable)
        with self._asked:
            if self._ended:
                entry.done.set()
            else:
                self._waiting.append(entry)
                self._asked.notify()
        return entry

    # -- the run ---------------------------------------------------------------------------------------

    @property
    def last_failure(self) -> str:
        """The last failure of a batch that is still being tried, "" where there is none."""
        with self._asked:
            return next(reversed(self._failing.values()), "")

    def settle(self) -> None:
        """Wait until everything that was queued is committed."""
        with self._written:
            while self._waiting or self._writing:
                self._written.wait()

    def close(self) -> None:
        """Commit what is queued, and end the thread."""
        with self._asked:
            self._closing = True
            self._asked.notify()
        if self._thread.is_alive():
            self._thread.join()

    # -- the thread ------------------------------------------------------------------------------------

    def _write(self) -> None:
        try:
            while work := self._next():
                try:
                    with self._ledger.transaction(durable=any(entry.durable for entry in work)):
                        for entry in work:
                            entry.write(entry)
                except Exception as error:
                    for entry in work:
                        entry.granted = False
                    self._fail(error)
                for entry in work:
                    entry.done.set()
        finally:
            with self._asked:
                self._ended = True
                self._writing = False
                self._written.notify_all()
                for entry in self._waiting:
                    entry.done.set()
                self._waiting.clear()

    def _next(self) -> list[_Entry]:
        """Everything that was queued meanwhile; empty at the end."""
        with self._asked:
            self._writing = False
            self._written.notify_all()
            while not (self._waiting or self._closing):
                self._asked.wait()
            work, self._waiting = self._waiting, []
            self._writing = True
            return work

    # -- what is written --------------------------------------------------------------------------

    def _note(self, key: BatchKey, tried: FailedTry) -> None:
        """Write a try that did not settle its batch."""
        number, at, seconds, response = tried
        self._ledger.failed(key, number, at, seconds, response.status or None, response.detail)
        self._set_failure(key, f"{response.status or ''} {response.detail}".strip() or "no answer")
        if response.taken and key not in self.in_doubt:
            self.in_doubt.add(key)
            self._counts.add(key.phase, in_doubt=key.events)

    def _set_failure(self, key: BatchKey, last_failure: str = "") -> None:
        with self._asked:
            self._failing.pop(key, None)
            if last_failure:
                self._failing[key] = last_failure

    def _record(self, finished: FinishedBatch) -> None:
        """Write the result of a batch, and decide what it means for the run."""
        key, batch, sent, error, ends, pieces, learned = finished
        response, counts = sent.response, self._counts
        if not sent.tries and error is None:
            return  # the run was stopping: it was never begun
        counts.batches_sent += sent.left
        counts.bytes_sent += len(batch.body) * sent.left
        counts.batches_retried += sent.tries > 1
        self._set_failure(key)
        in_doubt = key in self.in_doubt
        if response.kind in (ResponseKind.SETTLED, ResponseKind.POISON, ResponseKind.TOO_LARGE) and in_doubt:
            self.in_doubt.discard(key)
            counts.add(key.phase, in_doubt=-key.events)
        match response.kind:
            case ResponseKind.SETTLED:
                self._ledger.settle(key, response.status)
                counts.add(key.phase, accepted=key.events)
                if learned is not None:
                    self._ledger.learn(learned)
            case ResponseKind.POISON | ResponseKind.TOO_LARGE if key.events > 1:
                sizes = [(piece, part.bytes) for piece, part in pieces]
                self._ledger.split(key, sizes, response.status, response.detail)
                counts.batches_split += 1
            case ResponseKind.POISON | ResponseKind.TOO_LARGE:
                self._ledger.refuse(key, uuid_of(unpack(batch.body)[0]), response.status, response.detail)
                counts.add(key.phase, refused=1)
                if counts.refused > self._send_limits.max_refused:
                    self._fail(too_many_refused(counts.refused, response))
            case _:
                if not (sent.doubtful or in_doubt):
                    self._ledger.requeue(key)
                if error is not None:
                    self._fail(error)
                elif response.kind is ResponseKind.STOP:
                    self._fail(refused_access(self._address, response))
                elif ends:
                    self._fail(gave_up(self._address, sent, self._send_limits.retry))
