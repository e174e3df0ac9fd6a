"""Hashes of each encoded event: its digest, and those of its person and of all that it has but a time and a uuid.

The digest is xxh3-128. The other two group events within one plan: the native part and Python have hashes of their own.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.encoder.buffer import ENDING
from pipeline.encoder.encoded import match_head
from pipeline.native import AVAILABLE, native

_TAIL = len(ENDING[20]) - 20
_NO_TIME = b'},"timestamp":"1970-01-01T00:00:00Z","uuid":"00000000-0000-0000-0000-000000000000"}'
_encode = msgspec.json.Encoder().encode


def fingerprints(runs: list[bytes], sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The hashes of the events of runs (`EventBuffer`), of shape (events, 2). `sizes` are those of the events."""
    ends = np.cumsum(sizes + 1)
    hashes, start, first = [], 0, 0
    hash_run = native.fingerprints if AVAILABLE else _fingerprints
    for run in runs:
        last = int(np.searchsorted(ends, start + len(run), side="right"))
        hashes.append(hash_run(run, (ends[first:last] - start).tobytes()))
        start, first = start + len(run), last
    return np.frombuffer(b"".join(hashes), np.uint64).reshape(-1, 2)


def person_hashes(ids: list[str]) -> NDArray[np.uint64]:
    """The first of the two hashes of an event with each of these ids."""
    events = [b'{"event":"","properties":{"distinct_id":%b%b,' % (_encode(one), _NO_TIME) for one in ids]
    sizes = np.array([len(one) - 1 for one in events], np.int64)
    return fingerprints([b"".join(events)], sizes)[:, 0]


def hash_events(run: bytes, ends: NDArray[np.int64]) -> bytes:
    """Four uint64 of each event of a run: the halves of its digest, and its fingerprints. `ends` are those of the
    events, commas included."""
    return native.event_hashes(run, ends.tobytes()) if AVAILABLE else _hash_events(run, ends.tobytes())


def _hash_events(run: bytes, ends: bytes) -> bytes:
    """`pipeline.native` has the same, but for the fingerprints."""
    whole, digest = memoryview(run), xxhash.xxh3_128_digest
    of_events = pairwise([0, *np.frombuffer(ends, np.int64).tolist()])
    digests = b"".join([digest(whole[start : end - 1]) for start, end in of_events])
    halves = np.frombuffer(digests, np.uint64).reshape(-1, 2)
    return np.hstack((halves, np.frombuffer(_fingerprints(run, ends), np.uint64).reshape(-1, 2))).tobytes()


def _fingerprints(run: bytes, ends: bytes) -> bytes:
    """`pipeline.native` has the same."""
    digest = xxhash.xxh3_64_intdigest
    hashes: list[int] = []
    for start, end in pairwise([0, *np.frombuffer(ends, np.int64).tolist()]):
        head = match_head(run, start)
        if head is None:
            raise ValueError(f"no event ends at {end}")
        hashes += (digest(head[3]), digest(run[start : run.rindex(b'"', head.end(3) - 1, end - _TAIL)]))
    return np.array(hashes, np.uint64).tobytes()
