"""Which of the queued batches may be sent now: one after the other for each person, and no id too fast.

The service makes of a person what its events set in the order in which they come (docs/know/service.md#persons), so
requests with events of one person must not overtake each other. And it updates no person of an id that has more than
about 5,000 events a minute, so a batch that would exceed that waits, while batches without that id go on
(docs/know/service.md#answers).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pipeline.batcher import People
from pipeline.ledger import BatchKey

WINDOW = 60.0
COUNTED = 10
"""An id with fewer events in a batch is not counted: to exceed 5,000 a minute by such batches takes over 500 requests a
minute."""
_MOST_IDS = 10_000


class Lanes:
    """The batches that are queued or in flight, and what each waits for. Not thread-safe: `Senders` is.

    `ordered`: a batch waits for every earlier one with an event of one of its people. `per_id`: the most events of one
    id in any minute, None for no limit; a batch that has more by itself goes once no other was sent for a minute.
    """

    def __init__(self, now: Callable[[], float], *, ordered: bool = False, per_id: int | None = None) -> None:
        self._now = now
        self._ordered = ordered
        self._per_id = per_id
        self._people: dict[BatchKey, People] = {}
        self._waits: dict[BatchKey, set[BatchKey]] = {}
        self._hot: dict[BatchKey, list[tuple[int, int]]] = {}
        self._sent: dict[int, deque[tuple[float, int]]] = {}
        self.wait_until = 0.0
        """When the batch that waits for the rate of an id may be sent, by the clock; in the past where none waits."""

    def add(self, key: BatchKey, people: People | None) -> None:
        """A batch was queued behind all others."""
        if people is None:
            return
        if self._ordered:
            self._waits[key] = {other for other, theirs in self._people.items() if _share(people, theirs)}
            self._people[key] = people
        if self._per_id is not None:
            many = np.flatnonzero(people.events >= COUNTED)
            self._hot[key] = list(zip(people.ids[many].tolist(), people.events[many].tolist(), strict=True))

    def may_begin(self, key: BatchKey) -> bool:
        """Whether nothing that the batch waits for is still queued or in flight, and its ids are slow enough."""
        if self._waits.get(key):
            return False
        until = max((self._until(*one) for one in self._hot.get(key, ())), default=0.0)
        if until > self._now():
            self.wait_until = until
            return False
        return True

    def _until(self, id: int, events: int) -> float:
        """When so many more events of an id may be sent."""
        sent = self._sent.get(id)
        if sent is None or self._per_id is None:
            return 0.0
        total, since = 0, self._now() - WINDOW
        for at, count in reversed(sent):
            total += count
            if at > since and total + events > self._per_id:
                return at + WINDOW
        return 0.0

    def begin(self, key: BatchKey) -> None:
        """The batch is sent. Its tries and its pieces are of the same events, and are not counted again."""
        now = self._now()
        for id, events in self._hot.pop(key, ()):
            sent = self._sent.setdefault(id, deque())
            while sent and sent[0][0] <= now - WINDOW:
                sent.popleft()
            sent.append((now, events))
        if len(self._sent) > _MOST_IDS:
            self._sent = {id: sent for id, sent in self._sent.items() if sent[-1][0] > now - WINDOW}

    def end(self, key: BatchKey, pieces: Sequence[BatchKey] = ()) -> None:
        """The batch is finished, or is sent in pieces, one after the other in its place."""
        people = self._people.pop(key, None)
        self._waits.pop(key, None)
        self._hot.pop(key, None)
        if people is None:
            return
        for waits in self._waits.values():
            if key in waits:
                waits.remove(key)
                waits.update(pieces)
        for number, piece in enumerate(pieces):
            self._people[piece] = people
            self._waits[piece] = set(pieces[:number])


def _share(people: People, others: People) -> bool:
    """Whether two batches have events of one person."""
    few, many = (people.ids, others.ids) if len(people.ids) < len(others.ids) else (others.ids, people.ids)
    if not len(few):
        return False
    places = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return bool((many[places] == few).any())


def first_ready(lanes: Lanes, keys: Iterable[BatchKey]) -> int | None:
    """The number of the first batch that may be sent, None where none may."""
    return next((number for number, key in enumerate(keys) if lanes.may_begin(key)), None)
