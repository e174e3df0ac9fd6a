"""The largest request that the service accepts, learned from responses of 413.

A 413 can mean that the request is too large or that one event in it is (docs/know/service.md#answers). Only where both
halves then settle unsplit was it the request; from then on larger batches are cut before they are sent. The limit is in
bytes before gzip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.batcher import HARD_LIMIT, Batch, Envelope, even_ranges, seal_batch, unpack
from pipeline.ledger import BatchKey
from pipeline.options import Limits

Piece = tuple[BatchKey, Batch]


class _OversizedRequest:
    """A request that was too large, until both halves are finished."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._settled = 0

    def is_proved(self) -> bool:
        """Count a half that settled unsplit. Returns whether both did: then its size was the reason."""
        self._settled += 1
        return self._settled == 2


class RequestSize:
    """The limit learned so far: `learned_bytes`, None while every request was small enough."""

    def __init__(self, learned_bytes: int | None) -> None:
        self.learned_bytes = learned_bytes
        self._largest = 0
        self._refused = math.inf
        self._halves: dict[BatchKey, _OversizedRequest] = {}

    def refused(self, size: int, halves: Sequence[Piece]) -> None:
        """Record that a request of `size` bytes was too large; its halves are sent next."""
        whole = _OversizedRequest(size)
        for key, _ in halves:
            self._halves[key] = whole

    def settled(self, key: BatchKey, size: int) -> int | None:
        """Record an accepted request. Returns the limit where that taught one, else None.

        What settled may be larger than the halves, and than what was learned before, but never as large as what was
        refused for its size.
        """
        self._largest = max(self._largest, size)
        whole = self._halves.pop(key, None)
        found = size
        if whole is not None and whole.is_proved():
            self._refused = min(self._refused, whole.size)
            found = self._largest if self._largest < self._refused else size
            proved = self.learned_bytes is None or self.learned_bytes >= self._refused
        else:
            proved = False
        if proved or (self.learned_bytes is not None and self.learned_bytes < found < self._refused):
            self.learned_bytes = found
            return found
        return None

    def ended(self, key: BatchKey) -> None:
        """Record that a request was refused or split: its sibling alone proves nothing."""
        self._halves.pop(key, None)

    def is_over(self, batch: Batch) -> bool:
        """Whether a batch is larger than the service accepts, and can be cut."""
        return self.learned_bytes is not None and batch.bytes > self.learned_bytes and batch.events > 1


def halve(key: BatchKey, batch: Batch, envelope: Envelope) -> list[Piece]:
    """A batch in two, each with the very events that it had."""
    events = unpack(batch.body)
    middle = len(events) // 2
    return _pieces(key, events, [(0, middle - 1), (middle, len(events) - 1)], envelope)


def cut(key: BatchKey, batch: Batch, most: int, envelope: Envelope) -> list[Piece]:
    """A batch in as few pieces of at most `most` bytes as its events allow, all of about the same size."""
    events = unpack(batch.body)
    ranges = even_ranges([len(event) for event in events], envelope, Limits(len(events), HARD_LIMIT), most)
    return _pieces(key, events, ranges, envelope)


def _pieces(key: BatchKey, events: list[bytes], ranges: list[tuple[int, int]], envelope: Envelope) -> list[Piece]:
    batches = [seal_batch(events[first : last + 1], key.first + first, envelope) for first, last in ranges]
    return [(BatchKey(key.phase, key.block, one.first, one.last), one) for one in batches]
