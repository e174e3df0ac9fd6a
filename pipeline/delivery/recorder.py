"""What happens to batches, written down as it happens: one thread alone writes the ledger and the counts.

A sender asks for its batch to be begun once a connection may send it, and waits until the ledger says so on disk; what
came of it is reported and not waited for. All that was asked and reported while the disk was busy goes into the next
commit, in the order in which it came. So the disk is asked once for all senders that wait, and a batch is begun in the
commit that holds the end of the one whose place in flight it takes, or in a later one: at no commit are more batches
begun and not settled than were in flight together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.batcher import Batch, unpack
from pipeline.delivery.destination import ResponseKind
from pipeline.delivery.outcome import RunCounts, SendLimits, too_many_refused, turned_away, unanswered
from pipeline.delivery.retry import FailedTry, SendResult
from pipeline.delivery.size import Piece
from pipeline.encoder.encoded import uuid_of
from pipeline.ledger import BatchKey, Ledger


class BatchResult(NamedTuple):
    """What came of one batch: how it was sent, or the error that no answer explains. `ends`: it stops the run.

    `pieces` are what it was split into, `learned` is the size of request that its answer taught.
    """

    key: BatchKey
    batch: Batch
    sent: SendResult
    error: BaseException | None
    ends: bool
    pieces: Sequence[Piece] = ()
    learned: int | None = None


class _Entry:
    """Something to write. `durable`: it has to outlive a power loss. `granted`: a batch is begun, and on disk."""

    def __init__(self, write: Callable[[_Entry], None], *, durable: bool) -> None:
        self.write = write
        self.durable = durable
        self.granted = False
        self.done = threading.Event()


class Recorder:
    """Use between `start` and `close`; nobody else writes to the ledger meanwhile.

    `fail` is called with what has to end the run. Once `stop` is set nothing is begun any more.
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
        """Begin to write. What earlier runs left in doubt is known from here on."""
        self.in_doubt = self._ledger.in_doubt()
        self._thread.start()

    # -- what senders ask and report -------------------------------------------------------------------

    def begin(self, key: BatchKey, batch: Batch) -> bool:
        """Whether the batch may leave: it is begun in the ledger, on disk. False once the run is stopping."""

        def write(entry: _Entry) -> None:
            if not self._stop.is_set():
                self._ledger.begin(key, batch.bytes)
                entry.granted = True

        entry = self._put(write)
        entry.done.wait()
        return entry.granted

    def tried(self, key: BatchKey, tried: FailedTry) -> None:
        """A request did not settle its batch, which may be tried again."""
        self._put(lambda _: self._note(key, tried), durable=False)

    def landed(self, landed: BatchResult) -> None:
        """A batch came to its end, or is not tried any more."""
        self._put(lambda _: self._record(landed))

    def cut(self, key: BatchKey, batch: Batch, pieces: Sequence[Piece]) -> None:
        """A batch that was never begun is larger than the service takes, and is sent in pieces."""

        def write(_: _Entry) -> None:
            self._ledger.cut(key, batch.bytes, [(piece, made.bytes) for piece, made in pieces])
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
        """The last failure of a batch that is still tried, "" where there is none."""
        with self._asked:
            return next(reversed(self._failing.values()), "")

    def settle(self) -> None:
        """Wait until all that was reported is written down."""
        with self._written:
            while self._waiting or self._writing:
                self._written.wait()

    def close(self) -> None:
        """Write down what was reported, and end."""
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
        """All that came meanwhile; nothing at the end."""
        with self._asked:
            self._writing = False
            self._written.notify_all()
            while not (self._waiting or self._closing):
                self._asked.wait()
            work, self._waiting = self._waiting, []
            self._writing = True
            return work

    # -- what an answer means --------------------------------------------------------------------------

    def _note(self, key: BatchKey, tried: FailedTry) -> None:
        """Write down a try that settled nothing."""
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

    def _record(self, landed: BatchResult) -> None:
        """Write one answer down, and decide what it means for the run."""
        key, batch, sent, error, ends, pieces, learned = landed
        response, counts = sent.response, self._counts
        if not sent.tries and error is None:
            return  # the run was stopping: it was never begun
        counts.batches_sent += sent.left
        counts.bytes_sent += len(batch.body) * sent.left
        counts.batches_retried += sent.tries > 1
        self._set_failure(key)
        in_doubt = key in self.in_doubt
        if response.answer in (ResponseKind.SETTLED, ResponseKind.POISON, ResponseKind.TOO_LARGE) and in_doubt:
            self.in_doubt.discard(key)
            counts.add(key.phase, in_doubt=-key.events)
        match response.answer:
            case ResponseKind.SETTLED:
                self._ledger.settle(key, response.status)
                counts.add(key.phase, accepted=key.events)
                if learned is not None:
                    self._ledger.learn(learned)
            case ResponseKind.POISON | ResponseKind.TOO_LARGE if key.events > 1:
                sizes = [(piece, made.bytes) for piece, made in pieces]
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
                elif response.answer is ResponseKind.STOP:
                    self._fail(turned_away(self._address, response))
                elif ends:
                    self._fail(unanswered(self._address, sent, self._send_limits.retry))
