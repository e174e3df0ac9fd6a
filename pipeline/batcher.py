"""Cuts events into requests by count and by bytes, and makes the bodies of requests that are not sent as packed.

A plan has its requests already packed (`pipeline.plan.requests`). A smaller request, or one in the form of the
per-event endpoint, is made here from their events.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from pipeline.encoder.encoded import UUID_LENGTH, spell_per_event, uuid_of
from pipeline.fragment import LEVEL, Fragment, codec, frame
from pipeline.options import Limits

_GZIP_WINDOW = 31

HARD_LIMIT = 9 * 1024 * 1024
"""No request is larger, whatever the options: the service's edge refuses 10 MiB
(docs/know/service.md#encodings-and-sizes)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one HTTP request carries: events `first` to `last` (both inclusive) of a request of the plan, gzipped.

    `bytes` is the size before gzip. The per-event endpoint alone uses two fields: `uuids` are those of its events, one
    after the other, so that an answer can be compared without unpacking the body, and `attempt` counts the requests for
    it from 1. A batch of what a request left open for several events has the `request` id of that request, and may have
    gaps between `first` and `last`.
    """

    first: int
    last: int
    bytes: int
    body: builtins.bytes
    uuids: str = ""
    request: str = ""
    attempt: int = 1

    @property
    def events(self) -> int:
        return len(self.uuids) // UUID_LENGTH or self.last - self.first + 1


ENVELOPE_ROOM = 256
"""Every batch leaves this many bytes for its envelope, whatever the key: a new key must not move the ranges."""


class Envelope:
    """The part of a request to `/batch/` around its events. It contains the capture key, but never shows it.

    `per_event`: the events are written in a different form from the sealed one, and a batch has their `uuids`.
    """

    __slots__ = ("_head", "_tail")
    per_event = False

    def __init__(self, project_key: str) -> None:
        key = msgspec.json.encode(project_key)
        self._head = b'{"api_key":' + key + b',"historical_migration":true,"batch":['
        self._tail = b"]}"

    def __repr__(self) -> str:
        return "Envelope(***)"

    def seal(self, events: Sequence[bytes]) -> bytes:
        """The whole JSON body of a request."""
        return b"".join((self._head, b",".join(events), self._tail))

    def frame(self, fragment: Fragment) -> bytes:
        """The gzipped body of a request around the fragment of its events."""
        return frame(fragment, self._head, self._tail)

    def spell(self, events: Sequence[bytes]) -> Sequence[bytes]:
        """Sealed events in the form that a request has."""
        return events

    @property
    def length(self) -> int:
        """The bytes of a body without events."""
        return len(self._head) + len(self._tail)


class PerEventEnvelope(Envelope):
    """The envelope for the per-event endpoint, which takes the key in a header
    (docs/know/service.md#per-event-endpoint).

    `created_at` is RFC 3339: the plan's own instant, so that the same plan gives the same bytes on any day.
    """

    __slots__ = ()
    per_event = True

    def __init__(self, created_at: str) -> None:
        self._head = b'{"created_at":' + msgspec.json.encode(created_at) + b',"historical_migration":true,"batch":['
        self._tail = b"]}"

    def spell(self, events: Sequence[bytes]) -> Sequence[bytes]:
        return spell_per_event(events)


def pack(
    events: Sequence[bytes],
    envelope: Envelope,
    limits: Limits,
    ended: Sequence[tuple[int, int]] = (),
    doubtful: Sequence[tuple[int, int]] = (),
    *,
    most: int | None = None,
) -> Iterator[Batch]:
    """Pack events into batches, each within `limits`; a single event larger than that goes alone.

    Ranges of events that have `ended` are left out. Ranges in doubt (`doubtful`) become batches exactly as they were
    sent before, whatever the limits are now (docs/know/promises.md#write-ahead). `most` is the largest request in bytes
    that the service is known to accept, None if it never refused one for its size.
    """
    events = envelope.spell(events)
    sizes = [len(event) for event in events]
    ranges = list(doubtful)
    for first, last in gaps(len(events), [*ended, *doubtful]):
        own = sizes[first : last + 1]
        cut = batch_ranges(own, limits) if most is None else even_ranges(own, envelope, limits, most)
        ranges += [(first + begin, first + end) for begin, end in cut]
    for first, last in sorted(ranges):
        yield seal_batch(events[first : last + 1], first, envelope)


def gaps(count: int, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The ranges of events outside all of `ranges`, which may overlap, as a split batch and its parts do."""
    begin = 0
    for first, last in sorted(ranges):
        if first > begin:
            yield begin, first - 1
        begin = max(begin, last + 1)
    if begin < count:
        yield begin, count - 1


def seal_batch(events: Sequence[bytes], first: int, envelope: Envelope) -> Batch:
    """One request of these events, as `Envelope.spell` gives them; the first has the number `first` in its block."""
    body = envelope.seal(events)
    uuids = "".join(map(uuid_of, events)) if envelope.per_event else ""
    return Batch(first, first + len(events) - 1, len(body), gzip_body(body), uuids)


def unpack(body: bytes) -> list[bytes]:
    """The events of a gzipped request, byte for byte."""
    return [bytes(event) for event in msgspec.json.decode(codec.decompress(body, _GZIP_WINDOW), type=_Request).batch]


class _Request(msgspec.Struct):
    batch: list[msgspec.Raw]


def most_bytes(limits: Limits) -> int:
    """The most bytes of events, each with its comma, in one batch."""
    return min(limits.batch_bytes, HARD_LIMIT) - ENVELOPE_ROOM


def batch_ranges(sizes: Sequence[int], limits: Limits) -> Iterator[tuple[int, int]]:
    """(first, last) of each batch, both inclusive, covering all events in order."""
    most = most_bytes(limits)
    if sizes and len(sizes) <= limits.batch_events and sum(sizes) + len(sizes) <= most:
        yield 0, len(sizes) - 1
        return
    first = 0
    size = 0
    for index, own in enumerate(sizes):
        if index > first and (size + own + 1 > most or index - first >= limits.batch_events):
            yield first, index - 1
            first, size = index, 0
        size += own + 1
    if sizes:
        yield first, len(sizes) - 1


def even_ranges(sizes: Sequence[int], envelope: Envelope, limits: Limits, most: int) -> list[tuple[int, int]]:
    """`batch_ranges` into requests of at most `most` bytes, envelope included: as few as possible, of nearly equal
    size.

    Filling each request to the limit would leave a small one over for every block.
    """
    # `batch_ranges` also counts a comma after the last event, and leaves the same room for every envelope.
    limits = replace(limits, batch_bytes=min(limits.batch_bytes, most + 1 - envelope.length + ENVELOPE_ROOM))
    found = list(batch_ranges(sizes, limits))
    low, high = max([sum(sizes) // len(found), *sizes]) if found else 0, most_bytes(limits)
    near = max(1, high // 100)
    while len(found) > 1 and high - low > near:
        middle = (low + high) // 2
        tried = list(batch_ranges(sizes, replace(limits, batch_bytes=middle + ENVELOPE_ROOM)))
        if len(tried) > len(found):
            low = middle
        else:
            found, high = tried, middle
    return found


def gzip_body(body: bytes) -> bytes:
    """The gzipped body, without a time in the header, so that it depends only on its bytes."""
    return bytes(codec.compress(body, LEVEL, _GZIP_WINDOW))
