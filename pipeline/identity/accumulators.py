"""Accumulators of ids, of pairs of ids and of properties: each once, with what can still count.

They aggregate by least, greatest and sum, which know no order, so it does not matter how rows are spread over
processes. `pipeline.native` has the same classes in C; tests/native/test_native_accumulators.py compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.identity.columns import Columns, pack_numbers, pair_columns, property_columns
from pipeline.identity.property_updates import SET, json_of, once_kind
from pipeline.native import AVAILABLE, native

NEVER = 2**62
"""Means "no time" in a minimum of times, and its negative in a maximum."""


class IdAccumulator:
    """Each id of events: its first and last event, its number of events, and whether an event names it as a user's id.

    `bytes` is roughly the size of its texts.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._ids: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add_id(self, id: str, time: int, user: bool, place: int) -> None:
        """Add an event with this id, at `place` (see PLACE_SHIFT in `aggregator`) and `time` (µs UTC)."""
        entry = self._ids.get(id)
        if entry is None:
            self._ids[id] = [time, 1, place, user, time]
            self.bytes += len(id)
            return
        entry[0] = min(time, entry[0])
        entry[1] += 1
        entry[2] = min(place, entry[2])
        entry[3] = entry[3] or user
        entry[4] = max(time, entry[4])

    def columns(self) -> Columns:
        """The ids as a list, and the columns `first`, `events`, `places`, `users` and `last` of `IdColumns`."""
        numbers = zip(*self._ids.values(), strict=True) if self._ids else ((),) * 5
        return list(self._ids), *map(pack_numbers, numbers)


class PairAccumulator:
    """Each pair of ids: the kinds of rows that pair them, the first and last of these rows, and their number.

    `bytes` is roughly the size of its texts.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._pairs: dict[tuple[str, str], list[int]] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def add_pair(self, anonymous: str, user: str, kind: int, time: int | None, place: int) -> None:
        """Add a row, at `place` and `time` (µs UTC), that pairs two ids. `kind` is a bit (KINDS in `aggregator`)."""
        first, last = (NEVER, -NEVER) if time is None else (time, time)
        entry = self._pairs.get((anonymous, user))
        if entry is None:
            self._pairs[anonymous, user] = [kind, first, last, 1, place]
            self.bytes += len(anonymous) + len(user)
            return
        entry[0] |= kind
        if first < entry[1] or (first == entry[1] and place < entry[4]):
            entry[1], entry[4] = first, place
        entry[2] = max(last, entry[2])
        entry[3] += 1

    def columns(self) -> Columns:
        """The fields of `PairColumns`, in the order of the anonymous ids."""
        pairs = sorted(self._pairs.items(), key=lambda pair: pair[0][0])
        return pair_columns([(*pair, *entry) for pair, entry in pairs])


class PropertyAccumulator:
    """Of each property of each owner the update that counts: the last that sets it, else the first that sets it once.

    A null that is set once counts only if nothing else is. Of two updates of one instant the one received last counts
    as the later, and then the greater value. `bytes` is roughly the size of its values.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._updates: dict[tuple[str, str], tuple[int, int, int, int, bytes]] = {}

    def __len__(self) -> int:
        return len(self._updates)

    def set(self, owner: str, values: Mapping[str, Any], at: int, got: int) -> None:
        """Add a row of the time `at`, received at `got` (both µs UTC), that sets these properties."""
        for name, value in values.items():
            self._add(SET, owner, name, json_of(value), at, got)

    def set_once(self, owner: str, values: Mapping[str, Any], at: int, got: int) -> None:
        """Add a row that sets these properties where they were not set before."""
        for name, value in values.items():
            text = json_of(value)
            self._add(once_kind(text), owner, name, text, at, got)

    def rows(self) -> list[tuple[str, str, int, int, int, int, bytes]]:
        """(owner, name, kind, time, received, latest, value) of each property: the fields of a `PropertyUpdate`."""
        return [(*key, *update) for key, update in self._updates.items()]

    def columns(self) -> Columns:
        """The fields of `PropertyColumns`, of the same rows in the order of their owners."""
        return property_columns(sorted(self.rows(), key=lambda row: row[0]))

    def _add(self, kind: int, owner: str, name: str, value: bytes, at: int, got: int) -> None:
        update = self._updates.get((owner, name))
        if update is None:
            self._updates[owner, name] = (kind, at, got, at, value)
            self.bytes += len(value)
            return
        current_kind, time, received, latest, current = update
        moment, before = (at, got, value), (time, received, current)
        if kind > current_kind or (kind == current_kind and (moment > before if kind == SET else moment < before)):
            self._updates[owner, name] = (kind, at, got, max(at, latest), value)
            self.bytes += len(value) - len(current)
        elif at > latest:
            self._updates[owner, name] = (current_kind, time, received, at, current)


def new_id_accumulator() -> Any:
    """An empty accumulator, in C where the native part is available."""
    return native.IdAccumulator() if AVAILABLE else IdAccumulator()


def new_pair_accumulator() -> Any:
    """An empty accumulator, in C where the native part is available."""
    return native.PairAccumulator() if AVAILABLE else PairAccumulator()


def new_property_accumulator() -> Any:
    """An empty accumulator, in C where the native part is available."""
    return native.PropertyAccumulator(json_of) if AVAILABLE else PropertyAccumulator()
