"""Updates of properties of persons and groups, and how the rows of a block are condensed where their order matters.

Where no row removes a property, only the last `$set` or the first `$set_once` counts, and `IdentityAggregator` retains
just that. Where rows may remove a property (`$unset`), the first `$set_once` after the last removal counts, so more has
to be kept until everything is read: `condense` leaves out what surely does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pipeline.models import Note

EXISTS, SET_ONCE, SET, UNSET = 0, 1, 2, 3
"""The kinds of updates. EXISTS only records that the owner exists, and has no name of a property."""
ABSENT = -(2**62)
"""Means "no receive time"."""
_encode = msgspec.json.encode


class PropertyUpdate(NamedTuple):
    """An update of one property. `value` is JSON, byte for byte.

    `time` and `received` are those of the row, in µs UTC, `received` ABSENT without a receive time; `latest` is the
    time of the last update of the property, those that were left out for this one included.
    """

    owner: str
    name: str
    kind: int
    time: int
    received: int
    latest: int
    value: bytes


class PersonNote(NamedTuple):
    """What one row contains about its person. Times are in µs UTC."""

    owner: str
    note: Note
    time: int
    received: int


def json_of(value: Any) -> bytes:
    """A value of a note as JSON, a copy of its own."""
    return bytes(value) if value.__class__ is Raw else value if value.__class__ is bytes else _encode(value)


def condense(notes: Iterable[PersonNote]) -> list[PropertyUpdate]:
    """The updates of persons in some rows, in any order, without those that cannot count.

    Of a run of rows that set once the same value only the first and the last are retained. A row of another file with a
    time between the two is treated as coming after them, which makes no difference in an export that is cut by time.
    """
    condensing = _Condensing()
    for one in _runs(sorted(notes, key=lambda one: (one.time, one.received))):
        condensing.add(one)
    return condensing.updates()


def _runs(notes: Iterable[PersonNote]) -> Iterator[PersonNote]:
    """The first and the last of each run of equal notes of an owner: most rows repeat the one before."""
    last: dict[str, tuple[PersonNote, bool]] = {}
    for one in notes:
        before, yielded = last.get(one.owner, (None, True))
        if before is not None and _alike(before.note, one.note):
            last[one.owner] = one, False
            continue
        if before is not None and not yielded:
            yield before
        yield one
        last[one.owner] = one, True
    for before, yielded in last.values():
        if not yielded:
            yield before


def _alike(one: Note, other: Note) -> bool:
    return one.set_once == other.set_once and one.set == other.set and one.unset == other.unset


class _Condensing:
    """Rows come in order of time."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[int, int, int, Any]] = {}
        self._once: dict[tuple[str, str], list[tuple[int, int, Any]]] = {}

    def add(self, notes: PersonNote) -> None:
        owner, note, at, got = notes
        for name, value in (note.set or {}).items():
            self._put(owner, name, SET, at, got, value)
        for name in note.unset:
            self._put(owner, name, UNSET, at, got, b"")
        for name, value in (note.set_once or {}).items():
            values = self._once.setdefault((owner, name), [])
            if len(values) > 1 and values[-1][2] == value == values[-2][2] and values[-1][:2] <= (at, got):
                values.pop()  # inside a run: its first and its last are enough
            values.append((at, got, value))

    def _put(self, owner: str, name: str, kind: int, at: int, got: int, value: Any) -> None:
        key = (owner, name)
        current = self._last.get(key)
        if current is not None and current[:2] >= (at, got):
            if current[:2] > (at, got) or (current[2], json_of(current[3])) >= (kind, json_of(value)):
                return
        elif self._once:
            self._once.pop(key, None)
        self._last[key] = (at, got, kind, value)

    def updates(self) -> list[PropertyUpdate]:
        updates = [
            PropertyUpdate(owner, name, kind, at, got, at, json_of(value))
            for (owner, name), (at, got, kind, value) in self._last.items()
        ]
        for (owner, name), values in self._once.items():
            updates += (PropertyUpdate(owner, name, SET_ONCE, at, got, at, json_of(value)) for at, got, value in values)
        return updates
