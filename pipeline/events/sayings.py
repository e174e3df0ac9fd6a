"""What the rows of a block say beside their events, folded to the little that a plan needs of it.

Of each pair of ids stays one entry a block, of each property of a person the sayings that can still count, whatever
other blocks say. So a plan carries what people are, and not what every row repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pipeline.schema import GroupUpdate, Link, Note

SEEN, SET_ONCE, SET, UNSET = 0, 1, 2, 3
"""What is said of a property. SEEN says nothing but that its owner exists, and names no property."""
ABSENT = -(2**62)
"""Stands for "no receive time"."""
_encode = msgspec.json.encode
_open = msgspec.json.Decoder(dict[str, Raw]).decode
_text = msgspec.json.Decoder(str).decode


class Noted(msgspec.Struct, gc=False):
    """A row's note. `event` is the index of its event in the block, -1 where it has none. Times are µs UTC."""

    event: int
    row: int
    distinct_id: str
    time: int | None
    received: int | None
    note: Note


class Paired(NamedTuple):
    """Rows of a block that say that two ids are one person. `row` is the earliest of them, from 0.

    `kind` is row, or that of a link; `first` and `last` are µs UTC, None where no row has a time.
    """

    anonymous: str
    user: str
    kind: str
    first: int | None
    last: int | None
    events: int
    row: int


class Said(NamedTuple):
    """One row says something of one property. `value` is JSON, as it stood; times are µs UTC, None where unknown."""

    owner: str
    name: str
    kind: int
    time: int | None
    received: int | None
    value: bytes


class GroupSaid(NamedTuple):
    """Rows say that a group exists (`name` empty), or something of one of its properties.

    `kind` is that of Said; `events` counts the rows; times are µs UTC.
    """

    type: str
    key: str
    time: int | None
    events: int = 1
    name: str = ""
    kind: int = SEEN
    received: int | None = None
    value: bytes = b""


def pairs_of(
    noted: Iterable[Noted], links: Iterable[tuple[int, Link]], excluded: frozenset[str] = frozenset()
) -> list[Paired]:
    """Each pair once; none of an id that asked to be forgotten."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    for one in noted:
        note = one.note
        if note.anonymous is not None and note.user is not None:
            _add_pair(found, (note.anonymous, note.user, "row"), one.row, one.time)
    for row, link in links:
        _add_pair(found, (link.other, link.distinct_id, link.kind), row, link.time)
    return [Paired(*key, *told) for key, told in found.items() if excluded.isdisjoint(key[:2])]


def _add_pair(found: dict[tuple[str, str, str], list[Any]], key: tuple[str, str, str], row: int, at: Any) -> None:
    told = found.get(key)
    if told is None:
        found[key] = [at, at, 1, row]
        return
    told[2] += 1
    if at is None:
        return
    if told[0] is None or (at, row) < (told[0], told[3]):
        told[0], told[3] = at, row
    if told[1] is None or at > told[1]:
        told[1] = at


class Folding:
    """Folds what is said of owners. A row without a time counts as said at `undated`; rows come in order of time."""

    def __init__(self, undated: int) -> None:
        self._undated = undated
        self._last: dict[tuple[str, str], tuple[int, int, int, Any, int | None, int | None]] = {}
        self._once: dict[tuple[str, str], list[tuple[int, int, Any, int | None, int | None]]] = {}

    def add(self, owner: str, note: Note, time: int | None, received: int | None) -> None:
        """Add what one row says."""
        at = self._undated if time is None else time
        got = ABSENT if received is None else received
        if note.set:
            for name, value in note.set.items():
                self._put(owner, name, SET, at, got, value, time, received)
        for name in note.unset:
            self._put(owner, name, UNSET, at, got, b"", time, received)
        if note.set_once:
            for name, value in note.set_once.items():
                self._put_once(owner, name, at, got, value, time, received)

    def _put(
        self, owner: str, name: str, kind: int, at: int, got: int, value: Any, time: int | None, received: int | None
    ) -> None:
        key = (owner, name)
        known = self._last.get(key)
        if known is not None and known[:2] >= (at, got):
            if known[:2] > (at, got) or (known[2], _json(known[3])) >= (kind, _json(value)):
                return
        elif self._once:
            self._once.pop(key, None)
        self._last[key] = (at, got, kind, value, time, received)

    def _put_once(
        self, owner: str, name: str, at: int, got: int, value: Any, time: int | None, received: int | None
    ) -> None:
        said = self._once.setdefault((owner, name), [])
        if len(said) > 1 and said[-1][2] == value == said[-2][2] and said[-1][:2] <= (at, got):
            said.pop()  # in the midst of a run: its first and its last say all
        said.append((at, got, value, time, received))

    def said(self) -> list[Said]:
        """What is left."""
        kept = [
            Said(owner, name, kind, time, received, _json(value))
            for (owner, name), (_, _, kind, value, time, received) in self._last.items()
        ]
        for (owner, name), said in self._once.items():
            kept += (Said(owner, name, SET_ONCE, time, got, _json(value)) for _, _, value, time, got in said)
        return kept


def persons_of(noted: Iterable[Noted], undated: int) -> list[Said]:
    """What a block says of persons."""
    said = [one for one in noted if one.note.set or one.note.set_once or one.note.unset]
    said.sort(key=lambda one: (undated if one.time is None else one.time, one.received or ABSENT))
    folding = Folding(undated)
    for one in _runs(said):
        folding.add(one.distinct_id, one.note, one.time, one.received)
    return folding.said()


def _runs(said: Iterable[Noted]) -> Iterator[Noted]:
    """The first and the last of each run in which an owner's rows say the same: most rows repeat the one before."""
    last: dict[str, tuple[Noted, bool]] = {}
    for one in said:
        before, told = last.get(one.distinct_id, (None, True))
        if before is not None and _alike(before.note, one.note):
            last[one.distinct_id] = one, False
            continue
        if before is not None and not told:
            yield before
        yield one
        last[one.distinct_id] = one, True
    for before, told in last.values():
        if not told:
            yield before


def _alike(one: Note, other: Note) -> bool:
    return one.set_once == other.set_once and one.set == other.set and one.unset == other.unset


def groups_of(grouped: Iterable[tuple[Any, int]], updates: Iterable[GroupUpdate], undated: int) -> list[GroupSaid]:
    """What a block says of groups: those that its events name in `$groups`, and what updates set."""
    opened: dict[bytes, tuple[tuple[str, str], ...]] = {}
    seen: dict[tuple[str, str], list[Any]] = {}
    for groups, time in grouped:
        text = _json(groups)
        named = opened.get(text)
        if named is None:
            named = opened[text] = _groups(text)
        for one in named:
            told = seen.setdefault(one, [time, 0])
            told[0] = time if told[0] is None else max(told[0], time)
            told[1] += 1
    foldings: dict[tuple[str, str], Folding] = {}
    for update in sorted(updates, key=lambda one: _moment(one, undated)):
        group = (update.type, update.key)
        at = update.time if type(update.time) is int else None
        told = seen.setdefault(group, [at, 0])
        told[0] = at if told[0] is None else told[0] if at is None else max(told[0], at)
        told[1] += 1
        foldings.setdefault(group, Folding(undated)).add("", Note(set=update.set), at, update.received)
    made = [GroupSaid(*one, time, count) for one, (time, count) in seen.items()]
    for one, folding in foldings.items():
        made += (GroupSaid(*one, time, 0, name, kind, got, value) for _, name, kind, time, got, value in folding.said())
    return made


def _moment(update: GroupUpdate, undated: int) -> tuple[int, int]:
    return update.time if type(update.time) is int else undated, update.received or ABSENT


def _groups(text: bytes) -> tuple[tuple[str, str], ...]:
    """The groups in a `$groups` object as the service reads it: texts and numbers, of anything else none."""
    try:
        members: Mapping[str, Raw] = _open(text)
    except msgspec.MsgspecError:
        return ()
    named = []
    for kind, held in members.items():
        key = bytes(held)
        if key[:1] == b'"':
            named.append((kind, _text(key)))
        elif key[:1] not in b"[{tfn":
            named.append((kind, key.decode()))
    return tuple(named)


def _json(value: Any) -> bytes:
    return bytes(value) if value.__class__ is Raw else value if value.__class__ is bytes else _encode(value)
