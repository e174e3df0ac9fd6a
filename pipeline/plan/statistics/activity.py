"""Events of one person that follow each other faster than a person acts, and events that were recorded twice.

The plan keeps a record of each event that is sent, sorted by person, day and time; what is too much for memory is on
disk (`pipeline.plan.key_records`). Every count is exact, but for two people whose ids share a hash of 64 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.engines import Engine
from pipeline.plan.key_records import PIECE, SPREAD_BITS, KeyRange, KeyRecords, without_large
from pipeline.plan.statistics.spilled_counts import SpilledCounts
from pipeline.timestamps import DAY, MINUTE, SECOND
from pipeline.transform.block import BlockTransformer
from pipeline.transform.event_keys import NAME

ACT = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("same", "<u8"), ("block", "<u4"), ("row", "<u4"), ("name", "<u4")])
"""One event of a person. `hi`: a hash of the person and the UTC day, `lo`: µs UTC. `same` is equal for events that are
equal but for time and uuid; `block`, `row` and `name` are those of `pipeline.transform.event_keys.KEY`."""
UNITS = {"second": SECOND, "minute": MINUTE, "day": DAY}
MOST_BUSY, MOST_REPEATS = 20, 20
"""So many are examples."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_APART = 5 * SECOND
"""Repeated events stand alone: no equal event lies so near to them."""
_MOST_TIMES = 3
"""Something recorded more often within a second is a stream of equal events, not an event recorded twice."""


class BusyPeriod(NamedTuple):
    """The most events of one person within a `unit` of time, which begins at `time` (µs UTC).

    `block` and `row` are those of the first of these events, from 0.
    """

    events: int
    unit: str
    time: int
    block: int
    row: int


_Rank = tuple[float, int, int, int]


def _rank_of(busy: BusyPeriod, limits: Mapping[str, int]) -> _Rank:
    """Those who exceed a limit most are first, then the first in the source."""
    return (-busy.events / limits[busy.unit], busy.block, busy.row, busy.time)


class Repeat(NamedTuple):
    """Two events of one person that are equal but for their uuid, within a second: (block, row), name and time."""

    row: tuple[int, int]
    other: tuple[int, int]
    name: int
    time: int


class Activity(NamedTuple):
    """What the events of people show.

    `fast_ids` have more events within a unit of time than a limit, and `busy` are those that exceed one most.
    `repeated` counts the events that equal an earlier one of the same second, by the number of their name, and
    `repeats` are the first of them in the source. `late` counts events that stand in the source behind a later event of
    the same person and UTC day; `late_rows` are the (block, row) of the first of them.
    """

    fast_ids: int = 0
    busy: tuple[BusyPeriod, ...] = ()
    repeated: Mapping[int, int] = {}
    repeats: tuple[Repeat, ...] = ()
    late: int = 0
    late_rows: tuple[tuple[int, int], ...] = ()


def acts_of(sent: NDArray[np.void], ordinals: NDArray[np.uint32]) -> NDArray[np.void]:
    """The ACT records of key records. Identical rows without a key, which have ordinals, are no repeats."""
    acts = np.empty(len(sent), ACT)
    acts["hi"] = sent["person"] ^ _hash_of_days(sent["time"])
    acts["lo"] = sent["time"]
    acts["same"] = sent["same"] + ordinals * _ODD
    acts["name"] = sent["name"] & NAME
    for name in ("block", "row"):
        acts[name] = sent[name]
    return acts.take(np.argsort(acts["hi"] >> np.uint64(64 - SPREAD_BITS), kind="stable"))


class ActivityRecords:
    """The records of the events that are sent, added as duplicates are decided. Those of a person's day are looked at
    together, in any process of the engine."""

    def __init__(self, directory: Path, most: int = PIECE) -> None:
        self._directory = directory
        self._records = KeyRecords(directory / "activity", most, ACT)

    def add(self, acts: NDArray[np.void]) -> None:
        """Add what `acts_of` returned."""
        self._records.add(acts)

    def finish(self, limits: Mapping[str, int], engine: Engine) -> Activity:
        """Look through all records; `limits` are the most events of a person by the names of UNITS."""
        found = _FoundActivity(self._directory, limits)
        large: list[KeyRange] = []  # the events of a person's day, where they are too many for memory
        pieces = without_large(self._records.pieces(of_halves=True), large)
        for piece, some in engine.walk(partial(observe_acts, limits=limits), pieces):
            found.add(some)
            piece.delete()
        for piece in large:
            found.add(_observed(self._records.chunks(piece), limits))
        self._records.remove()
        return found.result()

    def close(self) -> None:
        self._records.close()


class _SomeActivity(NamedTuple):
    """What the events of some days of people show: `fast` are the people with more events than a limit, `busy` those
    that exceed one most; the rest as in Activity."""

    fast: NDArray[np.uint64]
    busy: dict[int, BusyPeriod]
    repeated: Mapping[int, int]
    repeats: tuple[Repeat, ...]
    late: int
    late_rows: tuple[tuple[int, int], ...]


def observe_acts(_: BlockTransformer, piece: KeyRange, limits: Mapping[str, int]) -> _SomeActivity:
    """Look through a piece of ACT records."""
    return _observed([piece.sorted_as(ACT)], limits)


def _observed(runs: Iterable[NDArray[np.void]], limits: Mapping[str, int]) -> _SomeActivity:
    """Look through sorted records that have all events of a person's day."""
    busy, repeats, late = _BusyPeople(limits), _Repeats(), _Late()
    for acts in runs:
        late.add(acts)
        busy.add(acts)
        repeats.add(acts)
    return _SomeActivity(*busy.result(), *repeats.result(), late.count, tuple(late.rows))


class _FoundActivity:
    """Adds up what was found among the days of people."""

    def __init__(self, directory: Path, limits: Mapping[str, int]) -> None:
        self._limits = limits
        self._people = SpilledCounts(directory, "fast-people", int)
        self._busy: dict[int, BusyPeriod] = {}
        self._repeated: Counter[int] = Counter()
        self._repeats: list[Repeat] = []
        self._late = 0
        self._late_rows: list[tuple[int, int]] = []

    def add(self, some: _SomeActivity) -> None:
        self._people.add(dict.fromkeys(some.fast.tolist(), 1))
        for person, busy in some.busy.items():
            known = self._busy.get(person, busy)
            self._busy[person] = min(known, busy, key=self._rank)
        self._busy = dict(sorted(self._busy.items(), key=lambda one: self._rank(one[1]))[:MOST_BUSY])
        self._repeated.update(some.repeated)
        self._repeats = sorted([*self._repeats, *some.repeats])[:MOST_REPEATS]
        self._late += some.late
        self._late_rows = sorted([*self._late_rows, *some.late_rows])[:MOST_REPEATS]

    def result(self) -> Activity:
        people = sum(1 for _ in self._people.items())
        busy = tuple(sorted(self._busy.values(), key=self._rank))
        return Activity(people, busy, dict(self._repeated), tuple(self._repeats), self._late, tuple(self._late_rows))

    def _rank(self, busy: BusyPeriod) -> _Rank:
        return _rank_of(busy, self._limits)


def _hash_of_days(times: NDArray[np.int64]) -> NDArray[np.uint64]:
    days = (times // DAY).astype(np.uint64) * _ODD
    return days ^ (days >> np.uint64(32))


class _BusyPeople:
    """Counts the events of each person in every second, minute and day.

    A day of a person may lie in several runs that follow each other; the last window of a run goes on in the next.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = limits
        self._most: dict[int, BusyPeriod] = {}
        self._last: dict[str, tuple[int, int, int, int, int]] = {}

    def add(self, acts: NDArray[np.void]) -> None:
        for unit, limit in self._limits.items():
            self._add_unit(acts, unit, limit)

    def _add_unit(self, acts: NDArray[np.void], unit: str, limit: int) -> None:
        hi, window = acts["hi"], acts["lo"] // np.uint64(UNITS[unit])
        starts = np.flatnonzero(np.concatenate(([True], (hi[1:] != hi[:-1]) | (window[1:] != window[:-1]))))
        counts = np.diff(starts, append=len(acts))
        first = acts[starts[0]]
        key = int(hi[0]), int(window[0])
        before = self._last.get(unit, (0, 0, 0, 0, 0))
        if before[:2] != key:
            before = (*key, 0, int(first["block"]), int(first["row"]))
        counts[0] += before[2]
        for place in np.flatnonzero(counts > limit).tolist():
            act = acts[starts[place]]
            at = before[3:] if place == 0 else (int(act["block"]), int(act["row"]))
            start = int(window[starts[place]]) * UNITS[unit]
            person = int(act["hi"] ^ _hash_of_days(np.array([start]))[0])
            self._add_busy(person, BusyPeriod(int(counts[place]), unit, start, *at))
        last = acts[starts[-1]]
        at = before[3:] if len(starts) == 1 else (int(last["block"]), int(last["row"]))
        self._last[unit] = (int(hi[-1]), int(window[-1]), int(counts[-1]), *at)

    def _add_busy(self, person: int, busy: BusyPeriod) -> None:
        known = self._most.get(person)
        if known is None or self._rank(busy) < self._rank(known):
            self._most[person] = busy

    def _rank(self, busy: BusyPeriod) -> _Rank:
        return _rank_of(busy, self._limits)

    def result(self) -> tuple[NDArray[np.uint64], dict[int, BusyPeriod]]:
        """All of them, and those who exceed a limit most."""
        most = sorted(self._most.items(), key=lambda one: self._rank(one[1]))[:MOST_BUSY]
        return np.fromiter(self._most, np.uint64, len(self._most)), dict(most)


class _Late:
    """Counts events behind a later one of the same person and day: of each time, the last one in the source, where an
    event of that person's next time stands before it."""

    def __init__(self) -> None:
        self.count = 0
        self.rows: list[tuple[int, int]] = []
        self._last = np.zeros(0, ACT)

    def add(self, acts: NDArray[np.void]) -> None:
        acts = np.concatenate((self._last, acts))
        hi, lo = acts["hi"], acts["lo"]
        place = acts["block"].astype(np.int64) << 32 | acts["row"]
        starts = np.flatnonzero(np.concatenate(([True], (hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1]))))
        lasts, firsts = np.maximum.reduceat(place, starts), np.minimum.reduceat(place, starts)
        person = hi[starts]
        late = np.sort(lasts[:-1][(person[1:] == person[:-1]) & (lasts[:-1] > firsts[1:])])
        self.count += len(late)
        self.rows = sorted([*self.rows, *(divmod(one, 1 << 32) for one in late[:MOST_REPEATS].tolist())])[:MOST_REPEATS]
        self._last = acts[starts[-1] + np.argmax(place[starts[-1] :]) :][:1]


class _Repeats:
    """Counts events that equal an earlier one of the same second."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._first: list[Repeat] = []

    def add(self, acts: NDArray[np.void]) -> None:
        time = acts["lo"].astype(np.int64)
        near = (acts["hi"][1:] == acts["hi"][:-1]) & (np.diff(time) < _APART)
        some = acts[np.concatenate((near, [False])) | np.concatenate(([False], near))]
        some = some.take(np.lexsort((some["row"], some["block"], some["lo"], some["same"])))
        time = some["lo"].astype(np.int64)
        follows = (some["same"][1:] == some["same"][:-1]) & (np.diff(time) < _APART)
        if not follows.any():
            return
        starts = np.flatnonzero(np.concatenate(([True], ~follows)))
        counts = np.diff(starts, append=len(some))
        lasts = starts + counts - 1
        twice = (counts > 1) & (counts <= _MOST_TIMES) & (time[lasts] - time[starts] < SECOND)
        names, number = np.unique(some["name"][starts[twice]], return_inverse=True)
        more = np.bincount(number, counts[twice] - 1, len(names)).astype(np.int64)
        self._counts.update(dict(zip(names.tolist(), more.tolist(), strict=True)))
        firsts = starts[twice]
        order = firsts[np.lexsort((some["row"][firsts], some["block"][firsts]))][:MOST_REPEATS]
        found = [self._repeat(some[place], some[place + 1]) for place in order.tolist()]
        self._first = sorted([*self._first, *found])[:MOST_REPEATS]

    @staticmethod
    def _repeat(first: np.void, other: np.void) -> Repeat:
        rows = sorted((int(one["block"]), int(one["row"])) for one in (first, other))
        return Repeat(rows[0], rows[1], int(first["name"]), int(first["lo"]))

    def result(self) -> tuple[Mapping[int, int], tuple[Repeat, ...]]:
        return dict(self._counts), tuple(self._first)
