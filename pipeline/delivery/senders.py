"""The threads that send: each takes a batch as soon as a connection may send it, sends it, and says what came of it.

What earlier runs left in doubt is taken first, then the pieces of what was split, then all others in their order. So
no batch is begun while an older doubt waits, and a batch that is refused is looked into before the next ones.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pipeline.batcher import Batch, Envelope
from pipeline.delivery.destination import Destination, Response, ResponseKind
from pipeline.delivery.outcome import SendLimits
from pipeline.delivery.recorder import BatchResult, Recorder
from pipeline.delivery.retry import SendResult, send_with_retries
from pipeline.delivery.size import Piece, RequestSize, cut, halve
from pipeline.delivery.throttle import TICK, Throttle
from pipeline.ledger import BatchKey


class _Next(NamedTuple):
    """A batch to send. `known`: the ledger has a row of it, so it is sent as it stands."""

    key: BatchKey
    batch: Batch
    known: bool


class Senders:
    """As many threads as requests may be in flight at most; the throttle says how many may be now.

    A batch keeps its thread until it ends: one that waits for its next try is begun, and counts.
    `halting` says whether nothing new may begin any more.

    `in_order`: one batch after the other, its pieces too, as long as it is set.
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

    # -- for the thread that makes batches ---------------------------------------------------------------

    def put(self, pieces: Iterable[tuple[BatchKey, Batch]], *, known: bool = False, first: bool = False) -> None:
        """Have batches sent after those that wait already, or before all others where they are in doubt (`first`)."""
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
        """Whether enough batches wait to keep all connections busy."""
        return len(self._again) + len(self._ready) >= self._throttle.limit

    def idle(self) -> bool:
        """Whether nothing is in flight, and nothing waits or may be begun any more."""
        return not self._active and (self._stop.is_set() or not (self._again or self._pieces or self._ready))

    def wait(self, state: Callable[[], bool], *, reached: bool) -> bool:
        """Whether a state is reached, or left; where it is not, after a moment or a change."""
        with self._changed:
            if state() is reached:
                return True
            self._changed.wait(TICK)
        return False

    def oldest(self) -> float:
        """When the batch in flight that waits for its answer longest was taken; now where there is none."""
        with self._free:
            return min(self._since.values(), default=self._throttle.now())

    def close(self) -> None:
        """Wait for what is in flight; nothing else is begun."""
        self.let_go()
        for thread in self._threads:
            thread.join()

    def let_go(self) -> None:
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
                landed = self._send(key, batch)
            except BaseException as defect:  # a thread that ends in silence would be waited for for ever
                landed = BatchResult(key, batch, _UNKNOWN, defect, ends=False)
            self._end(landed)

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
        """Cut a batch to what the service was found to take: the first piece; the others are sent next."""
        pieces = cut(key, batch, self._size.learned_bytes or batch.bytes, self._envelope)
        self._recorder.cut(key, batch, pieces)
        with self._free:
            self._ready.extendleft(_Next(*piece, known=True) for piece in reversed(pieces[1:]))
            self._since[pieces[0][0]] = self._since.pop(key)
            self._free.notify_all()
        return pieces[0]

    def _send(self, key: BatchKey, batch: Batch) -> BatchResult:
        """Send one batch; what came of it."""
        self._halting()
        sent = send_with_retries(
            self._destination, batch, self._send_limits.retry, self._throttle, self._stop,
            lambda tried: self._recorder.tried(key, tried), lambda: self._recorder.begin(key, batch),
        )  # fmt: skip
        answer = sent.response.answer
        ends = answer is ResponseKind.STOP or (
            answer in (ResponseKind.RETRY, ResponseKind.DOUBT, ResponseKind.UNREACHABLE) and not self._halting()
        )
        if ends:
            self._stop.set()  # here, so that no other batch leaves
        splits = answer in (ResponseKind.POISON, ResponseKind.TOO_LARGE) and key.events > 1
        return BatchResult(key, batch, sent, None, ends, halve(key, batch, self._envelope) if splits else [])

    def _end(self, landed: BatchResult) -> None:
        """Report what came of a batch, before its pieces or its place in flight may be taken: so the ledger knows."""
        with self._free:
            self._recorder.landed(landed._replace(learned=self._learn(landed)))
            # The last one is taken first: one way down to the poison before the next, so few halves are open.
            self._pieces.extend(_Next(*piece, known=True) for piece in reversed(landed.pieces))
            self._active -= 1
            self._since.pop(landed.key, None)
            self._free.notify_all()
            self._changed.notify_all()

    def _learn(self, landed: BatchResult) -> int | None:
        """The size of request that an answer teaches, if any."""
        key, answer = landed.key, landed.sent.response.answer
        if answer is ResponseKind.SETTLED:
            return self._size.settled(key, landed.batch.bytes)
        if answer in (ResponseKind.POISON, ResponseKind.TOO_LARGE):
            self._size.ended(key)
        if answer is ResponseKind.TOO_LARGE and landed.pieces:
            self._size.refused(landed.batch.bytes, landed.pieces)
        return None


_UNKNOWN = SendResult(Response(ResponseKind.DOUBT, 0, "sending failed"), 1, True, True)
"""What is known of a batch whose sending broke off by a defect."""
