"""Updates of properties of persons and groups, and how the rows of a block are condensed where their order matters.

Where no row removes a property, only the last `$set` or the first `$set_once` counts, and `IdentityAggregator` retains
just that. Where rows may remove a property (`$unset`, or `$set` to null), the first `$set_once` after the last removal
counts, so all that follow the last other update are kept until everything is read (`condense`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pipeline.models import Note

EXISTS, NULL_ONCE, SHOWN_ONCE, SET_ONCE, SHOWN, SET, UNSET = range(7)
"""The kinds of updates, in the order in which those of one instant count. EXISTS only records that the owner exists,
and has no name of a property. NULL_ONCE is a null that is set once: any value counts more, because the service takes a
stored null for absent (docs/know/service.md#persons). SHOWN and SHOWN_ONCE are what the service itself copies from
events (`pipeline.identity.promotion`)."""
NULL = b"null"
SEPARATES = b"\0"
"""Between a value that is set once and the further moments at which rows repeat it."""
ABSENT = -(2**62)
"""Means "no receive time"."""
_encode = msgspec.json.encode
_Moment = tuple[int, int]
"""The time and the receive time of a row."""
_Last = tuple[_Moment, int, Any]
"""The moment, kind and value of an update."""


class PropertyUpdate(NamedTuple):
    """An update of one property. `value` is JSON, byte for byte; `moments_of` reads that of several rows.

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


def once_kind(value: bytes) -> int:
    """The kind of an update that sets this JSON once."""
    return NULL_ONCE if value == NULL else SET_ONCE


def condense(notes: Iterable[PersonNote]) -> list[PropertyUpdate]:
    """The updates of persons in some rows, in any order, without those that cannot count, whatever other rows have.

    Rows that set once the same values one after the other are one update; `moments_of` finds the times of all.
    """
    ordered = sorted(notes, key=lambda one: (one.time, one.received))
    last: dict[tuple[str, str], _Last] = {}
    for owner, note, moments in _runs(ordered, lambda note: (note.set, note.unset)):
        for name in note.unset:
            _put(last, (owner, name), moments[-1], UNSET, b"")
        for name, value in (note.set or {}).items():
            _put(last, (owner, name), moments[-1], SET, value)
    updates = [
        PropertyUpdate(owner, name, kind, *moment, moment[0], json_of(value))
        for (owner, name), (moment, kind, value) in last.items()
    ]
    for owner, note, moments in _runs(ordered, lambda note: (note.set_once,)):
        for name, value in (note.set_once or {}).items():
            other = last.get((owner, name))
            after = 0 if other is None else bisect_left(moments, other[0])
            if after < len(moments):
                text = json_of(value)
                more = array("q", chain.from_iterable(moments[after + 1 :])).tobytes()
                whole = text + SEPARATES + more if more else text
                updates.append(PropertyUpdate(owner, name, once_kind(text), *moments[after], moments[-1][0], whole))
    return updates


def moments_of(time: int, received: int, value: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(time, received, value) of each of the rows that one update that sets once stands for, in order."""
    text, _, more = value.partition(SEPARATES)
    yield time, received, text
    numbers = array("q", more)
    yield from zip(numbers[::2], numbers[1::2], repeat(text))


def _runs(
    ordered: Iterable[PersonNote], part: Callable[[Note], tuple[Any, ...]]
) -> Iterator[tuple[str, Note, list[_Moment]]]:
    """The notes of each owner that have something in a part, where it differs from the one before, with the moments of
    all that are alike: most rows repeat the one before. A run ends with the last moment of its owner before another."""
    last: dict[str, tuple[Note, list[_Moment]]] = {}
    for owner, note, time, received in ordered:
        if not any(part(note)):
            continue
        before = last.get(owner)
        if before is not None and part(before[0]) == part(note):
            before[1].append((time, received))
            continue
        if before is not None:
            yield owner, *before
        last[owner] = note, [(time, received)]
    for owner, before in last.items():
        yield owner, *before


def _put(last: dict[tuple[str, str], _Last], key: tuple[str, str], moment: _Moment, kind: int, value: Any) -> None:
    """Keep the later of two updates; of one moment, the greater kind and value."""
    current = last.get(key)
    if (
        current is None
        or current[0] < moment
        or (current[0] == moment and (current[1], json_of(current[2])) < (kind, json_of(value)))
    ):
        last[key] = moment, kind, value
