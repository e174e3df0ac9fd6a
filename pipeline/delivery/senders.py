"""The sender threads: each takes a batch, waits until the throttle admits a request, sends it, and reports the result.

Batches that earlier runs left in doubt are taken first, then the pieces of split batches, then all others in their
order. So no batch is begun while an older one is in doubt, and a refused batch is bisected before the next ones leave.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pipeline.batcher import Batch, Envelope
from pipeline.delivery.destination import Destination, Response, ResponseKind
from pipeline.delivery.outcome import SendLimits
from pipeline.delivery.recorder import FinishedBatch, Recorder
from pipeline.delivery.retry import SendResult, send_with_retries
from pipeline.delivery.size import Piece, RequestSize, cut, halve
from pipeline.delivery.throttle import TICK, Throttle
from pipeline.ledger import BatchKey


class _Next(NamedTuple):
    """A batch to send. `known`: the ledger has a row for it, so it is sent unchanged."""

    key: BatchKey
    batch: Batch
    known: bool


class Senders:
    """Sender threads, as many as requests may be in flight at most; the throttle decides how many may be now.

    A thread keeps its batch until the batch is finished: one that waits for its next try is begun, and counts as in
    flight. `halting` returns whether nothing new may begin. While `in_order` is set, batches and the pieces of split
    ones are sent one after the other.
    """

    def __init__(
        self,
        destination: Destination,
        throttle: Throttle,
        send_limits: SendLimits,
        envelope: Envelope,
        size: RequestSize,
        recorder: Recorder,
        *,
        halting: Callable[[], bool],
        stop: threading.Event,
    ) -> None:
        self.in_order = False
        self._destination = destination
        self._throttle = throttle
        self._send_limits = send_limits
        self._envelope = envelope
        self._size = size
        self._recorder = recorder
        self._halting = halting
        self._stop = stop
        lock = threading.Lock()
        self._free = threading.Condition(lock)
        self._changed = threading.Condition(lock)
        self._again: deque[_Next] = deque()
        self._pieces: list[_Next] = []
        self._ready: deque[_Next] = deque()
        self._since: dict[BatchKey, float] = {}
        self._active = 0
        self._threads: list[threading.Thread] = []
        self._closing = False

    # -- for the main thread ---------------------------------------------------------------

    def put(self, pieces: Iterable[tuple[BatchKey, Batch]], *, known: bool = False, first: bool = False) -> None:
        """Queue batches: before all others where they are in doubt (`first`), else after those that wait already."""
        queue = self._again if first else self._ready
        with self._free:
            for key, batch in pieces:
                queue.append(_Next(key, batch, known))
                if len(self._threads) < self._send_limits.concurrency:
                    thread = threading.Thread(target=self._run, name="sender", daemon=True)
                    self._threads.append(thread)
                    thread.start()
            self._free.notify_all()

    def full(self) -> bool:
        """Whether enough batches are queued to keep all connections busy."""
        return len(self._again) + len(self._ready) >= self._throttle.limit

    def idle(self) -> bool:
        """Whether nothing is in flight, and nothing is queued or may be begun any more."""
        return not self._active and (self._stop.is_set() or not (self._again or self._pieces or self._ready))

    def wait(self, state: Callable[[], bool], *, reached: bool) -> bool:
        """Whether `state()` is `reached`; where it is not, returns False after a change, or after TICK seconds."""
        with self._changed:
            if state() is reached:
                return True
            self._changed.wait(TICK)
        return False

    def oldest(self) -> float:
        """When the batch that is in flight longest was taken; now where there is none."""
        with self._free:
            return min(self._since.values(), default=self._throttle.now())

    def close(self) -> None:
        """Begin nothing else, and wait for what is in flight."""
        self.stop_taking()
        for thread in self._threads:
            thread.join()

    def stop_taking(self) -> None:
        """Begin nothing else, and wait for nothing."""
        with self._free:
            self._closing = True
            self._free.notify_all()

    # -- a sender ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (found := self._take()) is not None:
            key, batch, known = found
            try:
                if not known and self._size.is_over(batch):
                    key, batch = self._cut(key, batch)
                finished = self._send(key, batch)
            except BaseException as defect:  # otherwise the run would wait for this thread for ever
                finished = FinishedBatch(key, batch, _UNKNOWN, defect, ends=False)
            self._end(finished)

    def _take(self) -> _Next | None:
        """The next batch once it may be sent; None at the end."""
        with self._free:
            while not (self._closing or self._stop.is_set()):
                found = None if self.in_order and self._active else self._pop()
                if found is not None:
                    self._active += 1
                    self._since[found.key] = self._throttle.now()
                    self._changed.notify_all()
                    return found
                self._free.wait(TICK)
        return None

    def _pop(self) -> _Next | None:
        if self._again:
            return self._again.popleft()
        if self._pieces:
            return self._pieces.pop()
        return self._ready.popleft() if self._ready else None

    def _cut(self, key: BatchKey, batch: Batch) -> Piece:
        """Cut a batch to the size that the service accepts. Returns the first piece; the others are sent next."""
        pieces = cut(key, batch, self._size.learned_bytes or batch.bytes, self._envelope)
        self._recorder.cut(key, batch, pieces)
        with self._free:
            self._ready.extendleft(_Next(*piece, known=True) for piece in reversed(pieces[1:]))
            self._since[pieces[0][0]] = self._since.pop(key)
            self._free.notify_all()
        return pieces[0]

    def _send(self, key: BatchKey, batch: Batch) -> FinishedBatch:
        """Send one batch, and return the result."""
        self._halting()
        sent = send_with_retries(
            self._destination, batch, self._send_limits.retry, self._throttle, self._stop,
            lambda tried: self._recorder.tried(key, tried), lambda: self._recorder.begin(key, batch),
        )  # fmt: skip
        answer = sent.response.kind
        ends = answer is ResponseKind.STOP or (
            answer in (ResponseKind.RETRY, ResponseKind.DOUBT, ResponseKind.UNREACHABLE) and not self._halting()
        )
        if ends:
            self._stop.set()  # here, so that no other batch leaves
        splits = answer in (ResponseKind.POISON, ResponseKind.TOO_LARGE) and key.events > 1
        return FinishedBatch(key, batch, sent, None, ends, halve(key, batch, self._envelope) if splits else [])

    def _end(self, finished: FinishedBatch) -> None:
        """Report a result to the recorder before its pieces are queued, so that the ledger has it first."""
        with self._free:
            self._recorder.finished(finished._replace(learned=self._learn(finished)))
            # The last one is taken first: one way down to the poison before the next, so few halves are open.
            self._pieces.extend(_Next(*piece, known=True) for piece in reversed(finished.pieces))
            self._active -= 1
            self._since.pop(finished.key, None)
            self._free.notify_all()
            self._changed.notify_all()

    def _learn(self, finished: FinishedBatch) -> int | None:
        """The request size limit that is learned from a response, if any."""
        key, answer = finished.key, finished.sent.response.kind
        if answer is ResponseKind.SETTLED:
            return self._size.settled(key, finished.batch.bytes)
        if answer in (ResponseKind.POISON, ResponseKind.TOO_LARGE):
            self._size.ended(key)
        if answer is ResponseKind.TOO_LARGE and finished.pieces:
            self._size.refused(finished.batch.bytes, finished.pieces)
        return None


_UNKNOWN = SendResult(Response(ResponseKind.DOUBT, 0, "sending failed"), 1, True, True)
"""The result of a batch whose sending failed by an exception."""
