"""Ids, pairs of them and properties of owners, folded as they are heard: each once, by what can still count.

Least, greatest and sum know no order, so it does not matter how rows are spread over processes. `pipeline.native` has
the same in C; tests/native/test_native.py holds one against the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.identity.property_updates import SET, SET_ONCE, json_of
from pipeline.native import AVAILABLE, native

NEVER = 2**62
"""Stands for "no time" where the earliest is looked for; the latest of nothing is its negative."""


class IdAccumulator:
    """Each id that events have, with its first event, how many they are, and whether one names it a user's.

    `bytes` is about how much text is held.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._ids: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add_id(self, id: str, time: int, user: bool, place: int) -> None:
        """One event, at `place` and `time` (µs UTC), has this id."""
        told = self._ids.get(id)
        if told is None:
            self._ids[id] = [time, 1, place, user]
            self.bytes += len(id)
            return
        told[0] = min(time, told[0])
        told[1] += 1
        told[2] = min(place, told[2])
        told[3] = told[3] or user

    def rows(self) -> list[tuple[str, int, int, int, bool]]:
        """(id, time of the first event, events, first place, whether it is a user's) of each id."""
        return [(id, *told) for id, told in self._ids.items()]


class PairAccumulator:
    """Each pair of ids with what says so, the first and last row that does, and how many do.

    `bytes` is about how much text is held.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._pairs: dict[tuple[str, str], list[int]] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def add_pair(self, anonymous: str, user: str, kind: int, time: int | None, place: int) -> None:
        """One row, at `place` and `time` (µs UTC), pairs two ids; `kind` is a bit, and is added to the others."""
        first, last = (NEVER, -NEVER) if time is None else (time, time)
        told = self._pairs.get((anonymous, user))
        if told is None:
            self._pairs[anonymous, user] = [kind, first, last, 1, place]
            self.bytes += len(anonymous) + len(user)
            return
        told[0] |= kind
        if first < told[1] or (first == told[1] and place < told[4]):
            told[1], told[4] = first, place
        told[2] = max(last, told[2])
        told[3] += 1

    def rows(self) -> list[tuple[str, str, int, int, int, int, int]]:
        """(anonymous, user, kinds, first, last, rows, place of the first) of each pair."""
        return [
            (*pair, kinds, first, last, rows, place) for pair, (kinds, first, last, rows, place) in self._pairs.items()
        ]


class PropertyAccumulator:
    """Of each property of each owner the saying that counts: the last that sets it, else the first that set it once.

    Of one instant the last received counts as the later, and then the greater value. `bytes` is about how much text is
    held.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._said: dict[tuple[str, str], tuple[int, int, int, int, bytes]] = {}

    def __len__(self) -> int:
        return len(self._said)

    def set(self, owner: str, values: Mapping[str, Any], at: int, got: int) -> None:
        """A row of the time `at`, received at `got`, sets these."""
        for name, value in values.items():
            self._say(SET, owner, name, json_of(value), at, got)

    def set_once(self, owner: str, values: Mapping[str, Any], at: int, got: int) -> None:
        """The same, where they were not set before."""
        for name, value in values.items():
            self._say(SET_ONCE, owner, name, json_of(value), at, got)

    def rows(self) -> list[tuple[str, str, int, int, int, int, bytes]]:
        """(owner, name, kind, time, received, latest, value) of each property: the fields of a `PropertyUpdate`."""
        return [(*key, *said) for key, said in self._said.items()]

    def _say(self, kind: int, owner: str, name: str, value: bytes, at: int, got: int) -> None:
        said = self._said.get((owner, name))
        if said is None:
            self._said[owner, name] = (kind, at, got, at, value)
            self.bytes += len(value)
            return
        known, time, received, latest, held = said
        moment, before = (at, got, value), (time, received, held)
        if kind > known or (kind == known and (moment > before if kind == SET else moment < before)):
            self._said[owner, name] = (kind, at, got, max(at, latest), value)
            self.bytes += len(value) - len(held)
        elif at > latest:
            self._said[owner, name] = (known, time, received, at, held)


def new_id_accumulator() -> Any:
    """An empty `IdAccumulator`, in C where there is any."""
    return native.IdAccumulator() if AVAILABLE else IdAccumulator()


def new_pair_accumulator() -> Any:
    """An empty `PairAccumulator`, in C where there is any."""
    return native.PairAccumulator() if AVAILABLE else PairAccumulator()


def new_property_accumulator() -> Any:
    """An empty `PropertyAccumulator`, in C where there is any."""
    return native.PropertyAccumulator(json_of) if AVAILABLE else PropertyAccumulator()
