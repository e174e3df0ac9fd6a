"""The sender threads: each takes a batch, waits until the throttle admits a request, sends it, and reports the result.

They first take batches that earlier runs left in doubt, then the pieces of split batches, then all others in
order, as far as `pipeline.delivery.lanes` lets them. So no batch is begun while an older one is in doubt, and a refused
batch is bisected before the next ones leave.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from pipeline.batcher import Batch, Envelope
from pipeline.delivery.destination import Destination, Response, ResponseKind
from pipeline.delivery.lanes import Lanes, first_ready
from pipeline.delivery.outcome import SendLimits
from pipeline.delivery.recorder import FinishedBatch, Recorder
from pipeline.delivery.retry import SendResult, send_with_retries
from pipeline.delivery.size import KeyedBatch, RequestSize, cut, halve
from pipeline.delivery.stopping import StopSignal
from pipeline.delivery.throttle import TICK, Throttle
from pipeline.delivery.undecided import Undecided
from pipeline.ledger import BatchKey

AHEAD = 3
"""This many batches are queued for each connection: some wait for their lane, and the next one whose lane is free may
be this far back in the queue."""


class Senders:
    """Sender threads, as many as there may be requests in flight at most; the throttle decides how many may be now.

    A thread keeps its batch until the batch is finished: a batch that waits for its next try counts as in
    flight. While `in_order` is set, batches and the pieces of split ones are sent one after the other.
    """

    def __init__(
        self,
        destination: Destination,
        throttle: Throttle,
        send_limits: SendLimits,
        envelope: Envelope,
        size: RequestSize,
        recorder: Recorder,
        stop: StopSignal,
    ) -> None:
        self.in_order = False
        self.lanes = Lanes(throttle.now, ordered=send_limits.ordered, per_id=send_limits.per_id)
        self._destination = destination
        self._throttle = throttle
        self._send_limits = send_limits
        self._envelope = envelope
        self._size = size
        self._recorder = recorder
        self._stop = stop
        lock = threading.Lock()
        self._queued = threading.Condition(lock)
        self._changed = threading.Condition(lock)
        self._in_doubt: deque[KeyedBatch] = deque()
        self._pieces: deque[KeyedBatch] = deque()
        self._others: deque[KeyedBatch] = deque()
        self._taken_at: dict[BatchKey, float] = {}
        self._threads: list[threading.Thread] = []
        self._closing = False

    # -- for the main thread ---------------------------------------------------------------

    def put(self, batch: KeyedBatch, *, first: bool = False) -> None:
        """Queue a batch: before all others if it is in doubt (`first`), else after those that are queued."""
        with self._queued:
            self.lanes.add(batch.key, batch.lane, batch.hot)
            (self._in_doubt if first else self._others).append(batch)
            if len(self._threads) < self._send_limits.concurrency:
                thread = threading.Thread(target=self._run, name="sender", daemon=True)
                thread.start()
                self._threads.append(thread)
            self._queued.notify_all()

    def full(self) -> bool:
        """Whether enough batches are queued to use every connection, even if some wait for their lane."""
        ahead = AHEAD if self._send_limits.ordered else 1
        return len(self._in_doubt) + len(self._others) >= ahead * self._throttle.controller.limit

    def idle(self) -> bool:
        """Whether nothing is in flight, and nothing is queued or may be begun any more."""
        empty = not (self._in_doubt or self._pieces or self._others)
        return not self._taken_at and (empty or self._stop.event.is_set())

    def wait(self, state: Callable[[], bool], *, reached: bool) -> bool:
        """Whether `state()` is `reached`; if not, returns False after a change, or after TICK seconds."""
        with self._changed:
            if state() is reached:
                return True
            self._changed.wait(TICK)
        return False

    def oldest(self) -> float:
        """When the batch that is longest in flight was taken; now if none is in flight."""
        with self._queued:
            return min(self._taken_at.values(), default=self._throttle.now())

    def close(self) -> None:
        """Begin nothing more, and wait for what is in flight."""
        self.stop_taking()
        for thread in self._threads:
            thread.join()

    def stop_taking(self) -> None:
        """Begin nothing more, and wait for nothing."""
        with self._queued:
            self._closing = True
            self._queued.notify_all()

    # -- a sender ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            key, batch, recorded, *_ = taken
            try:
                if not recorded and self._size.is_over(batch):
                    key, batch = self._cut(key, batch)
                finished = self._send(key, batch)
            except BaseException as defect:  # otherwise the run would wait for this thread for ever
                finished = FinishedBatch(key, batch, _UNKNOWN, defect, ends=False)
            try:
                self._end(key, finished)
            except BaseException as defect:  # the ledger says that the batch was begun, so it is in doubt
                self._stop.fail(defect)
                self._taken_at.pop(key, None)

    def _take(self) -> KeyedBatch | None:
        """The next batch, once it may be sent; None at the end."""
        with self._queued:
            while not (self._closing or self._stop.event.is_set()):
                taken = None if self.in_order and self._taken_at else self._pop()
                if taken is not None:
                    self._taken_at[taken.key] = self._throttle.now()
                    self.lanes.begin(taken.key)
                    self._changed.notify_all()
                    return taken
                self._queued.wait(TICK)
        return None

    def _pop(self) -> KeyedBatch | None:
        for queue in [self._in_doubt] if self._in_doubt else [self._pieces, self._others]:
            number = first_ready(self.lanes, (batch.key for batch in queue))
            if number is not None:
                taken = queue[number]
                del queue[number]
                return taken
        return None

    def _cut(self, key: BatchKey, batch: Batch) -> tuple[BatchKey, Batch]:
        """Cut a batch to the size that the service accepts. Returns the first piece; the others are sent next."""
        first, *others = pieces = cut(key, batch, self._size.learned_bytes or batch.bytes, self._envelope)
        self._recorder.cut(key, batch, pieces)
        with self._queued:
            self.lanes.end(key, [piece.key for piece in pieces])
            self._others.extendleft(reversed(others))
            self._queued.notify_all()
            self._taken_at[first.key] = self._taken_at.pop(key)
        return first.key, first.batch

    def _send(self, key: BatchKey, batch: Batch) -> FinishedBatch:
        """Send one batch, and return the result."""
        self._stop.check()
        left = Undecided(key, batch, self._envelope)

        def divide(response: Response) -> Batch:
            uuids = left.batch.uuids
            self._recorder.divided(left.divide(response.verdicts), response, uuids)
            return left.batch

        sent = send_with_retries(
            self._destination.send, batch, self._send_limits.retry, self._throttle, self._stop.event,
            lambda tried: self._recorder.tried(left.rows, tried), lambda: self._recorder.begin(left.rows), divide,
        )  # fmt: skip
        answer = sent.response.kind
        is_open = answer in _OPEN or sent.response.asks_again
        ends = answer is ResponseKind.STOP or (is_open and not self._stop.check())
        if ends:
            self._stop.event.set()  # here, so that no other batch leaves
        rows = None
        if left.divided:
            rows = [row for row, _ in left.rows]
            single = left.single()
            key, batch = (key, left.batch) if single is None else (single.key, single.batch)
        splits = answer in (ResponseKind.POISON, ResponseKind.TOO_LARGE)
        pieces: list[KeyedBatch] = []
        if splits and rows is not None and len(rows) > 1:
            pieces = left.one_by_one()
        elif splits and key.events > 1:
            pieces = halve(key, batch, self._envelope)
        return FinishedBatch(key, batch, sent, None, ends, pieces, rows=rows)

    def _end(self, taken: BatchKey, finished: FinishedBatch) -> None:
        """Report a result to the recorder before its pieces are queued, so that the ledger has it first."""
        with self._queued:
            self._recorder.finished(finished._replace(learned=self._learn(finished)))
            self.lanes.end(taken, [piece.key for piece in finished.pieces])
            # Take the newest pieces first: search one half down to the bad event before the other, so few halves are
            # open.
            self._pieces.extendleft(reversed(finished.pieces))
            del self._taken_at[taken]
            self._queued.notify_all()
            self._changed.notify_all()

    def _learn(self, finished: FinishedBatch) -> int | None:
        """The request size limit that a response shows, if any."""
        key, answer = finished.key, finished.sent.response.kind
        if finished.rows is not None:
            self._size.ended(key)
        elif answer is ResponseKind.SETTLED:
            return self._size.settled(key, finished.batch.bytes)
        elif answer in (ResponseKind.POISON, ResponseKind.TOO_LARGE):
            self._size.ended(key)
        if answer is ResponseKind.TOO_LARGE and finished.pieces and finished.rows is None:
            self._size.refused(finished.batch.bytes, finished.pieces)
        return None


_OPEN = (ResponseKind.RETRY, ResponseKind.DOUBT, ResponseKind.UNREACHABLE)
_UNKNOWN = SendResult(Response(ResponseKind.DOUBT, 0, "sending failed"), 1, True, True)
"""The result of a batch if sending it raised an exception."""
