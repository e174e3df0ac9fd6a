"""How large a request the service takes, learned from its 413s and from nothing else.

A 413 can mean that the request is too large or that one event in it is (service-behaviour 1.5). Only where both halves
then settle unsplit was it the request; then later batches are cut before they are sent. The limit is in bytes before
gzip.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.batch import ENVELOPE_ROOM, Batch, Envelope, cuts, seal_batch, unpack
from pipeline.ledger import Place
from pipeline.schema import Limits

Piece = tuple[Place, Batch]


class _Refused:
    """A request that was too large, until its halves have ended."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.settled = 0


class RequestSize:
    """What is known of it. `learned` is None while every request was small enough."""

    def __init__(self, learned: int | None) -> None:
        self.learned = learned
        self._largest = 0
        self._halves: dict[Place, _Refused] = {}

    def refused(self, size: int, halves: Sequence[Piece]) -> None:
        """A request of `size` bytes was too large; its halves are sent next."""
        whole = _Refused(size)
        for place, _ in halves:
            self._halves[place] = whole

    def settled(self, place: Place, size: int) -> int | None:
        """A request was taken. The limit where one was learned by that, else None."""
        self._largest = max(self._largest, size)
        whole = self._halves.pop(place, None)
        if whole is None:
            return None
        whole.settled += 1
        if whole.settled < 2:
            return None
        # What settled may be larger than the halves, but never as large as what was refused.
        largest = self._largest if self._largest < whole.size else size
        if self.learned is not None and self.learned <= largest:
            return None
        self.learned = largest
        return largest

    def ended(self, place: Place) -> None:
        """A request was refused or split: its sibling alone proves nothing."""
        self._halves.pop(place, None)

    def is_over(self, batch: Batch) -> bool:
        """Whether a batch is larger than the service takes, and can be made smaller."""
        return self.learned is not None and batch.bytes > self.learned and batch.events > 1


def halve(place: Place, batch: Batch, envelope: Envelope) -> list[Piece]:
    """A batch in two, each with the very events that it had."""
    events = unpack(batch.body)
    middle = len(events) // 2
    return _pieces(place, events, [(0, middle - 1), (middle, len(events) - 1)], envelope)


def cut(place: Place, batch: Batch, most: int, envelope: Envelope) -> list[Piece]:
    """A batch in pieces of at most `most` bytes each, where its events allow it."""
    events = unpack(batch.body)
    # `cuts` counts a comma after the last event too, and leaves the same room for every envelope.
    limits = Limits(len(events), most + 1 - envelope.length + ENVELOPE_ROOM)
    return _pieces(place, events, list(cuts([len(event) for event in events], limits)), envelope)


def _pieces(place: Place, events: list[bytes], ranges: list[tuple[int, int]], envelope: Envelope) -> list[Piece]:
    made = [seal_batch(events[first : last + 1], place.first + first, envelope) for first, last in ranges]
    return [(Place(place.phase, place.block, one.first, one.last), one) for one in made]
