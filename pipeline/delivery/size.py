"""The largest request that the service accepts, learned from 413 responses; and splitting batches into smaller ones.

A 413 can mean that the request is too large or that one event in it is (docs/know/service.md#answers). It was the
request only if both halves then settle unsplit; from then on, larger batches are cut before they are sent. The limit is
in bytes before gzip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.batcher import HARD_LIMIT, Batch, Envelope, even_ranges, seal_batch, unpack
from pipeline.ledger import BatchKey
from pipeline.options import Limits
from pipeline.plan.requests.store import NO_LANE


class KeyedBatch(NamedTuple):
    """A batch and its name in the ledger. `recorded`: the ledger has a row for it, so it is sent unchanged. `lane` and
    `hot` are those of its request (`pipeline.plan.requests.store`)."""

    key: BatchKey
    batch: Batch
    recorded: bool = False
    lane: int = NO_LANE
    hot: Sequence[tuple[int, int]] = ()


class RequestSize:
    """The limit learned so far: `learned_bytes`, None as long as every request was small enough."""

    def __init__(self, learned_bytes: int | None) -> None:
        self.learned_bytes = learned_bytes
        self._largest_settled = 0
        self._smallest_refused = math.inf
        self._halves: dict[BatchKey, tuple[BatchKey, int]] = {}

    def refused(self, size: int, halves: Sequence[KeyedBatch]) -> None:
        """Record that a request of `size` bytes was too large; its two halves are sent next."""
        first, second = halves[0].key, halves[1].key
        self._halves |= {first: (second, size), second: (first, size)}

    def settled(self, key: BatchKey, size: int) -> int | None:
        """Record an accepted request. Returns the limit if this request changed it, else None.

        The accepted size may exceed the halves and the limit so far, but never a size that was refused.

        """
        self._largest_settled = max(self._largest_settled, size)
        other, whole = self._halves.pop(key, (None, 0))
        limit = size
        proved = False
        if other is not None and other not in self._halves:  # the other half settled before
            self._smallest_refused = min(self._smallest_refused, whole)
            limit = self._largest_settled if self._largest_settled < self._smallest_refused else size
            proved = self.learned_bytes is None or self.learned_bytes >= self._smallest_refused
        if proved or (self.learned_bytes is not None and self.learned_bytes < limit < self._smallest_refused):
            self.learned_bytes = limit
            return limit
        return None

    def ended(self, key: BatchKey) -> None:
        """Record that a request was refused or split: then its other half alone proves nothing."""
        if half := self._halves.pop(key, None):
            self._halves.pop(half[0], None)

    def is_over(self, batch: Batch) -> bool:
        """Whether a batch is larger than the service accepts, and can be cut."""
        return self.learned_bytes is not None and batch.bytes > self.learned_bytes and batch.events > 1


def halve(key: BatchKey, batch: Batch, envelope: Envelope) -> list[KeyedBatch]:
    """A batch in two halves, with exactly its events."""
    events = unpack(batch.body)
    middle = len(events) // 2
    return _pieces(key, events, [(0, middle - 1), (middle, len(events) - 1)], envelope)


def cut(key: BatchKey, batch: Batch, most: int, envelope: Envelope) -> list[KeyedBatch]:
    """A batch in as few pieces of at most `most` bytes as its events allow, all of about the same size."""
    events = unpack(batch.body)
    ranges = even_ranges([len(event) for event in events], envelope, Limits(len(events), HARD_LIMIT), most)
    return _pieces(key, events, ranges, envelope)


def _pieces(key: BatchKey, events: list[bytes], ranges: list[tuple[int, int]], envelope: Envelope) -> list[KeyedBatch]:
    batches = [seal_batch(events[first : last + 1], key.first + first, envelope) for first, last in ranges]
    return [KeyedBatch(key._replace(first=batch.first, last=batch.last), batch, recorded=True) for batch in batches]
