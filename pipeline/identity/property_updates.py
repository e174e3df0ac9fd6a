"""What rows say of a property of a person or group, and how the rows of a block are condensed where order matters.

Where nothing is ever taken away, the last word of `$set` or the first of `$set_once` is all that counts, and
`IdentityAggregator` keeps just that. Where rows may also unset a property, the first `$set_once` after the last of them
counts, so more has to be kept until everything is read: `condense` leaves out what surely cannot matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pipeline.models import Note

EXISTS, SET_ONCE, SET, UNSET = 0, 1, 2, 3
"""What is said of a property. SEEN says nothing but that its owner exists, and names no property."""
ABSENT = -(2**62)
"""Stands for "no receive time"."""
_encode = msgspec.json.encode


class PropertyUpdate(NamedTuple):
    """Something said of one property. `value` is JSON, as it stood.

    `time` and `received` are those of the row that says it, µs UTC, ABSENT where it was not received; `latest` is when
    the same property was last spoken of, by whatever was left out for this.
    """

    owner: str
    name: str
    kind: int
    time: int
    received: int
    latest: int
    value: bytes


class PersonNote(NamedTuple):
    """One row's note of a person, its times µs UTC."""

    owner: str
    note: Note
    time: int
    received: int


def json_of(value: Any) -> bytes:
    """A value of a note as JSON, a copy of its own."""
    return bytes(value) if value.__class__ is Raw else value if value.__class__ is bytes else _encode(value)


def condense(heard: Iterable[PersonNote]) -> list[PropertyUpdate]:
    """What some rows, in any order, say of persons, less what cannot matter.

    Of a run in which one value is set once again and again only the first and the last are kept; a row of other files
    that falls between the two is taken to come after them, which no export that is cut by time can show.
    """
    condensing = _Condensing()
    for one in _runs(sorted(heard, key=lambda one: (one.time, one.received))):
        condensing.add(one)
    return condensing.said()


def _runs(heard: Iterable[PersonNote]) -> Iterator[PersonNote]:
    """The first and the last of each run in which an owner's rows say the same: most rows repeat the one before."""
    last: dict[str, tuple[PersonNote, bool]] = {}
    for one in heard:
        before, told = last.get(one.owner, (None, True))
        if before is not None and _alike(before.note, one.note):
            last[one.owner] = one, False
            continue
        if before is not None and not told:
            yield before
        yield one
        last[one.owner] = one, True
    for before, told in last.values():
        if not told:
            yield before


def _alike(one: Note, other: Note) -> bool:
    return one.set_once == other.set_once and one.set == other.set and one.unset == other.unset


class _Condensing:
    """Rows come in order of time."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[int, int, int, Any]] = {}
        self._once: dict[tuple[str, str], list[tuple[int, int, Any]]] = {}

    def add(self, heard: PersonNote) -> None:
        owner, note, at, got = heard
        for name, value in (note.set or {}).items():
            self._put(owner, name, SET, at, got, value)
        for name in note.unset:
            self._put(owner, name, UNSET, at, got, b"")
        for name, value in (note.set_once or {}).items():
            said = self._once.setdefault((owner, name), [])
            if len(said) > 1 and said[-1][2] == value == said[-2][2] and said[-1][:2] <= (at, got):
                said.pop()  # in the midst of a run: its first and its last say all
            said.append((at, got, value))

    def _put(self, owner: str, name: str, kind: int, at: int, got: int, value: Any) -> None:
        key = (owner, name)
        known = self._last.get(key)
        if known is not None and known[:2] >= (at, got):
            if known[:2] > (at, got) or (known[2], json_of(known[3])) >= (kind, json_of(value)):
                return
        elif self._once:
            self._once.pop(key, None)
        self._last[key] = (at, got, kind, value)

    def said(self) -> list[PropertyUpdate]:
        kept = [
            PropertyUpdate(owner, name, kind, at, got, at, json_of(value))
            for (owner, name), (at, got, kind, value) in self._last.items()
        ]
        for (owner, name), said in self._once.items():
            kept += (PropertyUpdate(owner, name, SET_ONCE, at, got, at, json_of(value)) for at, got, value in said)
        return kept
