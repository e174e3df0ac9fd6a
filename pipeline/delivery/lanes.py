"""The order of requests, and the pace of ids.

If order decides what the service keeps of a person, the plan has its events in lanes, and each person in one lane
(`pipeline.plan.requests.pack`). The requests of a lane are sent one after the other, different lanes in parallel: the
service takes the properties that events set in the order of arrival (docs/know/service.md#persons). And the service
does not update the person of an id that has more than about 5,000 events a minute. So a request that would exceed that
waits, while requests without that id go on (docs/know/service.md#answers).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from pipeline.batcher import Batch, unpack
from pipeline.encoder.encoded import id_of
from pipeline.id_hash import hash_id
from pipeline.ledger import BatchKey
from pipeline.plan.requests.store import NO_LANE

Hot = Sequence[tuple[int, int]]
"""Hashes of ids, and how many events of each a request has."""
WINDOW = 60.0
_MOST_IDS = 10_000


class Lanes:
    """The batches that are queued or in flight, and what each waits for. Not thread-safe: `Senders` is.

    `ordered`: a batch waits for every earlier one of its lane. `per_id`: the most events of one id in any minute, None
    for no limit; a batch that alone has more goes once no other batch was sent for a minute.
    """

    def __init__(self, now: Callable[[], float], *, ordered: bool = False, per_id: int | None = None) -> None:
        self._now = now
        self._ordered = ordered
        self._per_id = per_id
        self._lanes: dict[int, deque[BatchKey]] = {}
        self._lane_of: dict[BatchKey, int] = {}
        self._hot: dict[BatchKey, Hot] = {}
        self._sent: dict[int, deque[tuple[float, int]]] = {}
        self.wait_until = 0.0
        """When the batch that waits for the rate of an id may be sent, by the clock; in the past if none waits."""

    def add(self, key: BatchKey, lane: int, hot: Hot) -> None:
        """Record that a batch was queued behind all others."""
        if self._ordered and lane != NO_LANE:
            self._lane_of[key] = lane
            self._lanes.setdefault(lane, deque()).append(key)
        if self._per_id is not None and hot:
            self._hot[key] = hot

    def may_begin(self, key: BatchKey) -> bool:
        """Whether everything that the batch waits for is finished, and its ids are slow enough."""
        lane = self._lane_of.get(key)
        if lane is not None and self._lanes[lane][0] != key:
            return False
        until = max((self._until(*one) for one in self._hot.get(key, ())), default=0.0)
        if until > self._now():
            self.wait_until = until
            return False
        return True

    def _until(self, id: int, events: int) -> float:
        """When this many more events of an id may be sent."""
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
        """Record that the batch is sent. Its tries and its pieces have the same events, and are not counted again."""
        now = self._now()
        for id, events in self._hot.pop(key, ()):
            sent = self._sent.setdefault(id, deque())
            while sent and sent[0][0] <= now - WINDOW:
                sent.popleft()
            sent.append((now, events))
        if len(self._sent) > _MOST_IDS:
            self._sent = {id: sent for id, sent in self._sent.items() if sent[-1][0] > now - WINDOW}

    def end(self, key: BatchKey, pieces: Sequence[BatchKey] = ()) -> None:
        """Record that the batch is finished, or is sent in pieces, one after the other in its place."""
        self._hot.pop(key, None)
        lane = self._lane_of.pop(key, None)
        if lane is None:
            return
        waiting = self._lanes[lane]
        place = waiting.index(key)
        del waiting[place]
        for piece in reversed(pieces):
            waiting.insert(place, piece)
            self._lane_of[piece] = lane


def hot_in(batch: Batch, hot: Hot) -> Hot:
    """How many events of the request's hot ids a piece of it has."""
    if not hot:
        return ()
    counts = Counter(hash_id(id_of(event)) for event in unpack(batch.body))
    return [(id, counts[id]) for id, _ in hot if counts[id]]


def first_ready(lanes: Lanes, keys: Iterable[BatchKey]) -> int | None:
    """The index of the first batch that may be sent, None if none may."""
    return next((number for number, key in enumerate(keys) if lanes.may_begin(key)), None)
