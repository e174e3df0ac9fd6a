"""From events to request bodies: by count and by encoded bytes, never across blocks.

The same events and limits give the same bodies, so a batch is named by the block and the first and last event in it.
"""

from __future__ import annotations

import builtins
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.models import Limits

try:
    from isal import isal_zlib as _deflate
except ImportError:  # pragma: no cover - a platform without isa-l
    _deflate = zlib  # type: ignore[misc]

_GZIP_WINDOW = 31
_LEVEL = 1
"""ISA-L's level 1 packs ten times faster than zlib's default, for 14 % more bytes (docs/know/performance.md#codecs)."""

HARD_LIMIT = 9 * 1024 * 1024
"""No request is larger, whatever the options: the service's edge refuses 10 MiB
(docs/know/service.md#encodings-and-sizes)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One request: events `first` to `last` (both inclusive, counted from 0 in their block), gzipped.

    `bytes` is the size before gzip.
    """

    first: int
    last: int
    bytes: int
    body: builtins.bytes

    @property
    def events(self) -> int:
        return self.last - self.first + 1


ENVELOPE_ROOM = 256
"""Bytes that every batch leaves for its envelope, whatever the key: cuts must not move when a key is changed."""


class Envelope:
    """What stands around the events of a request. Holds the project key, and never shows it."""

    __slots__ = ("_head", "_tail")

    def __init__(self, project_key: str) -> None:
        key = msgspec.json.encode(project_key)
        self._head = b'{"api_key":' + key + b',"historical_migration":true,"batch":['
        self._tail = b"]}"

    def __repr__(self) -> str:
        return "Envelope(***)"

    def seal(self, events: Sequence[bytes]) -> bytes:
        """The whole JSON body of a request."""
        return b"".join((self._head, b",".join(events), self._tail))

    def gzip_body(self, runs: Sequence[bytes | memoryview]) -> bytes:
        """`seal` and `gzip_body` in one, of events that are each followed by a comma."""
        stream = _deflate.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
        parts = [stream.compress(self._head)]
        parts += [stream.compress(run) for run in runs[:-1]]
        parts += [stream.compress(runs[-1][:-1]), stream.compress(self._tail), stream.flush()]
        return b"".join(parts)

    @property
    def length(self) -> int:
        """Bytes that a body has beside its events."""
        return len(self._head) + len(self._tail)


def pack(
    events: Sequence[bytes],
    envelope: Envelope,
    limits: Limits,
    ended: Sequence[tuple[int, int]] = (),
    doubtful: Sequence[tuple[int, int]] = (),
    *,
    most: int | None = None,
) -> Iterator[Batch]:
    """Cut events into batches, each within `limits`; a single event larger than that goes alone.

    Ranges that `ended` are left out; `doubtful` ones are made again just as they were begun
    (docs/know/promises.md#write-ahead), whatever the limits are now. `most` is the largest request that the service was
    found to take, in bytes.
    """
    sizes = [len(event) for event in events]
    ranges = list(doubtful)
    for first, last in _gaps(len(events), [*ended, *doubtful]):
        cut = _cuts_within(sizes[first : last + 1], envelope, limits, most)
        ranges += [(first + begin, first + end) for begin, end in cut]
    for first, last in sorted(ranges):
        yield seal_batch(events[first : last + 1], first, envelope)


def _gaps(count: int, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The ranges of so many events that none of these holds; they may overlap, as a split batch and its pieces do."""
    begin = 0
    for first, last in sorted(ranges):
        if first > begin:
            yield begin, first - 1
        begin = max(begin, last + 1)
    if begin < count:
        yield begin, count - 1


def pack_runs(
    runs: Sequence[bytes], sizes: NDArray[np.int64], envelope: Envelope, limits: Limits, *, most: int | None = None
) -> Iterator[Batch]:
    """`pack` of events that stand in runs, each followed by a comma; nothing is cut apart or copied for it."""
    length = sum(map(len, runs))
    if 0 < len(sizes) <= limits.batch_events and length <= most_bytes(_within(limits, envelope, most)):
        last = len(sizes) - 1
        yield Batch(0, last, length - 1 + envelope.length, envelope.gzip_body(runs))
        return
    whole = memoryview(b"".join(runs))
    ends = np.cumsum(sizes + 1).tolist()
    for first, last in _cuts_within(sizes.tolist(), envelope, limits, most):
        events = whole[ends[first - 1] if first else 0 : ends[last]]
        yield Batch(first, last, len(events) - 1 + envelope.length, envelope.gzip_body([events]))


def seal_batch(events: Sequence[bytes], first: int, envelope: Envelope) -> Batch:
    """One request of these events, the first of which has the number `first` in its block."""
    body = envelope.seal(events)
    return Batch(first, first + len(events) - 1, len(body), gzip_body(body))


def unpack(body: bytes) -> list[bytes]:
    """The events of a gzipped request, byte for byte."""
    return [bytes(event) for event in msgspec.json.decode(_deflate.decompress(body, _GZIP_WINDOW), type=_Request).batch]


class _Request(msgspec.Struct):
    batch: list[msgspec.Raw]


def most_bytes(limits: Limits) -> int:
    """How many bytes of events, each with its comma, a batch may hold."""
    return min(limits.batch_bytes, HARD_LIMIT) - ENVELOPE_ROOM


def cuts(sizes: Sequence[int], limits: Limits) -> Iterator[tuple[int, int]]:
    """Where batches begin and end: (first, last) of each, both inclusive, covering all events in order."""
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


def even_cuts(sizes: Sequence[int], envelope: Envelope, limits: Limits, most: int) -> list[tuple[int, int]]:
    """`cuts` into requests of at most `most` bytes: as few as can be, and of nearly equal bytes.

    Requests as large as can be would each time leave a small one over.
    """
    limits = _within(limits, envelope, most)
    found = list(cuts(sizes, limits))
    low, high = max([sum(sizes) // len(found), *sizes]) if found else 0, most_bytes(limits)
    near = max(1, high // 100)
    while len(found) > 1 and high - low > near:
        middle = (low + high) // 2
        tried = list(cuts(sizes, replace(limits, batch_bytes=middle + ENVELOPE_ROOM)))
        if len(tried) > len(found):
            low = middle
        else:
            found, high = tried, middle
    return found


def _cuts_within(
    sizes: Sequence[int], envelope: Envelope, limits: Limits, most: int | None
) -> Iterable[tuple[int, int]]:
    return cuts(sizes, limits) if most is None else even_cuts(sizes, envelope, limits, most)


def _within(limits: Limits, envelope: Envelope, most: int | None) -> Limits:
    """Limits whose requests are of at most `most` bytes, envelope and all."""
    if most is None:
        return limits
    # `cuts` counts a comma after the last event too, and leaves the same room for every envelope.
    return replace(limits, batch_bytes=min(limits.batch_bytes, most + 1 - envelope.length + ENVELOPE_ROOM))


def gzip_body(body: bytes) -> bytes:
    """gzip, with no time in its header."""
    return bytes(_deflate.compress(body, _LEVEL, _GZIP_WINDOW))
