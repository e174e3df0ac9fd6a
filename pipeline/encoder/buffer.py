"""The encoded events of a block, written into one buffer a few hundred at a time.

An event is written with room for its time and uuid, which are filled in for all events of a run at once: vector passes
over the run cost half as much as doing it event by event. A run is no larger than the processor's cache, so it is still
there when it is hashed.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.timestamps import DAY, SECOND, format_utc
from pipeline.uuids import Hasher, uuid_digits

RUN_BYTES = 1 << 19
"""A run is closed when it has this many bytes."""

_AFTER_TIME = b'","uuid":"'
_END = b'"},'
_UUID_ROOM = b"00000000-0000-0000-0000-000000000000"
ENDING = {length: b"?" * length + _AFTER_TIME + _UUID_ROOM + _END for length in (20, 24, 27)}
"""Room for the rest of an event, by the precision of its time: whole seconds, milliseconds, microseconds."""
SECONDS, MILLISECONDS, MICROSECONDS = ENDING[20], ENDING[24], ENDING[27]


class EventBuffer:
    """Events as JSON text, each followed by a comma, in runs.

    The events of the open run are in `open`, up to their time and with one of the ENDINGs as room for what follows;
    `ends`, `times` and `keys` have an entry for each. `own` are uuids from the source, by position in the run,
    ascending; keys at these positions are not used.
    """

    def __init__(self, hasher: Hasher) -> None:
        self._hasher = hasher
        self._seal = xxhash.xxh3_128()
        self._uuids: list[NDArray[np.uint8]] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._hashes: list[NDArray[np.uint64]] = []
        self.runs: list[bytes] = []
        self.count = 0
        self.open = bytearray()
        self.ends: list[int] = []
        self.times: list[int] = []
        self.keys: list[str] = []
        self.own: dict[int, str] = {}

    def cut_back(self, count: int) -> None:
        """Removes the last events, so that `count` remain in the open run."""
        del self.open[self.ends[count - 1] if count else 0 :]
        for series in (self.ends, self.times, self.keys):
            del series[count:]
        for position in [position for position in self.own if position >= count]:
            del self.own[position]

    def close_run(self) -> None:
        """Fill in times and uuids, and start the next run."""
        count = len(self.ends)
        if not count:
            return
        raw = self._uuids_of_run()
        ends, times = np.array(self.ends, np.int64), np.array(self.times, np.int64)
        _fill(self.open, ends, times, raw)
        run = bytes(self.open)
        self._seal.update(run)
        self._hashes.append(hash_events(run, ends, times))
        self.runs.append(run)
        self._uuids.append(raw)
        self._sizes.append(np.diff(ends, prepend=0) - 1)
        self.count += count
        self.open = bytearray()
        self.ends.clear()
        self.times.clear()
        self.keys.clear()
        self.own.clear()

    @property
    def seal(self) -> str:
        """xxh3-128 of all closed runs, or "".

        It detects accidental changes (of a file, a mapping, a library), not forgery; the plan's own digest over all
        seals is sha256.
        """
        return self._seal.hexdigest() if self.runs else ""

    @property
    def uuids(self) -> NDArray[np.uint8]:
        """The uuids of all closed runs, of shape (events, 16)."""
        return np.concatenate(self._uuids) if self._uuids else np.empty((0, 16), np.uint8)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The bytes of each event of all closed runs, without its comma."""
        return np.concatenate(self._sizes) if self._sizes else np.empty(0, np.int64)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """`hash_events` of all closed runs, of shape (events, 3)."""
        return np.concatenate(self._hashes) if self._hashes else np.empty((0, 3), np.uint64)

    def _uuids_of_run(self) -> NDArray[np.uint8]:
        if not self.own:
            return self._hasher.uuids(self.keys)
        digits = "".join(self.own.values()).replace("-", "")
        own = np.frombuffer(bytes.fromhex(digits), np.uint8).reshape(-1, 16)
        if len(own) == len(self.keys):
            return own
        raw = np.zeros((len(self.keys), 16), np.uint8)
        keyed = [position for position in range(len(self.keys)) if position not in self.own]
        raw[keyed] = self._hasher.uuids([self.keys[position] for position in keyed])
        raw[list(self.own)] = own
        return raw


def split_events(runs: list[bytes], sizes: NDArray[np.int64]) -> list[bytes]:
    """The events, one by one."""
    whole = b"".join(runs)
    ends = np.cumsum(sizes + 1).tolist()
    return [whole[start : end - 1] for start, end in pairwise([0, *ends])]


def hash_events(text: bytes, ends: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The halves of each event's xxh3-128, and a hash of it without its time and uuid: shape (events, 3).

    `ends` are where the events end, commas included.
    """
    view, digest, short = memoryview(text), xxhash.xxh3_128_digest, xxhash.xxh3_64_digest
    hashes: list[bytes] = []
    start = 0
    for end, before_time in zip(ends.tolist(), (ends - _rooms(times)).tolist(), strict=True):
        hashes += (digest(view[start : end - 1]), short(view[start:before_time]))
        start = end
    return np.frombuffer(b"".join(hashes), np.uint64).reshape(-1, 3)


def _fill(text: bytearray, ends: NDArray[np.int64], times: NDArray[np.int64], raw: NDArray[np.uint8]) -> None:
    """Writes each event's time and uuid into the room for them."""
    digits = uuid_digits(raw)
    rooms = _rooms(times)
    for ending in (SECONDS, MILLISECONDS, MICROSECONDS):
        chosen = rooms == len(ending)
        if chosen.all():
            _fill_alike(text, ends, times, digits, ending)
        elif chosen.any():
            _fill_alike(text, ends[chosen], times[chosen], digits[chosen], ending)


def _rooms(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """The length of an event's ending, for each time."""
    exact = np.where(times % 1_000 == 0, len(MILLISECONDS), len(MICROSECONDS))
    return np.where(times % SECOND == 0, len(SECONDS), exact)


def _fill_alike(
    text: bytearray, ends: NDArray[np.int64], times: NDArray[np.int64], digits: NDArray[np.uint8], ending: bytes
) -> None:
    width = len(ending)
    rest = np.tile(np.frombuffer(ending, np.uint8), (len(ends), 1))
    length = ending.index(_AFTER_TIME)
    _write_times(rest[:, :length], times)
    rest[:, length + len(_AFTER_TIME) : -len(_END)] = digits
    # A view of the buffer as overlapping items, one per byte, each as wide as one ending.
    windows = np.ndarray((len(text) - width + 1,), f"V{width}", text, strides=(1,))
    windows[ends - width] = rest.view(f"V{width}")[:, 0]


def _write_times(room: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
    """Writes `timestamps.format_utc` of each time into a row of `room`; all must have fractions of the same length."""
    days, rest = np.divmod(times, DAY)
    room[:, :11] = _dates(days)
    seconds, fraction = np.divmod(rest, SECOND)
    minutes, seconds = np.divmod(seconds, 60)
    room[:, 11:17] = _MINUTES[minutes]
    room[:, 17:19] = _TWO[seconds]
    if room.shape[1] == 24:
        room[:, 19] = ord(".")
        room[:, 20:23] = _THREE[fraction // 1_000]
    elif room.shape[1] == 27:
        room[:, 19] = ord(".")
        room[:, 20:23] = _THREE[fraction // 1_000]
        room[:, 23:26] = _THREE[fraction % 1_000]
    room[:, -1] = ord("Z")


def _dates(days: NDArray[np.int64]) -> NDArray[np.uint8]:
    """`2020-12-30T` for each day."""
    different = days[:1] if (days == days[0]).all() else None
    positions: NDArray[np.int64] | int = 0
    if different is None:
        different, positions = np.unique(days, return_inverse=True)
    texts = "".join([format_utc(day * DAY)[:11] for day in different.tolist()])
    table = np.frombuffer(texts.encode(), np.uint8).reshape(-1, 11)
    return table[positions]


def _table(texts: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), -1)


_TWO = _table([f"{number:02d}" for number in range(60)])
_THREE = _table([f"{number:03d}" for number in range(1_000)])
_MINUTES = _table([f"{minute // 60:02d}:{minute % 60:02d}:" for minute in range(1_440)])
