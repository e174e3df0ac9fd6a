"""What rows say beside their events, folded over all blocks that one process walks.

Of each id and each pair of ids stays one entry, of each property of a person or group the saying that can still count,
whatever other processes hear. It is folded by rules that no order can change (least, greatest, sum), so a plan carries
what people are, and not what every row repeats. What is held is handed over, as columns, before it grows large.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pipeline.id_hash import hash_id
from pipeline.identity.accumulators import new_id_accumulator, new_pair_accumulator, new_property_accumulator
from pipeline.identity.property_updates import ABSENT, EXISTS, PersonNote, PropertyUpdate, condense, json_of
from pipeline.models import GroupUpdate, Link, Note
from pipeline.uuids import SEPARATOR

KINDS = {"row": 1, "identify": 2, "alias": 4, "merge": 8, "person": 128}
"""What may say that two ids are one person; the kinds of a pair are added up."""
PLACE_SHIFT = 32
"""A place is the number of a block, shifted by so much, and a row in it, from 0."""
MAX_ENTRIES = 125_000
MAX_BYTES = 16 * 1024 * 1024
"""So many entries, or so much text, are held before they are handed over."""
_MOST_OPENED = 10_000
_open = msgspec.json.Decoder(dict[str, Raw]).decode
_text = msgspec.json.Decoder(str).decode


class TextColumn(NamedTuple):
    """Texts, or bytes, one after the other: where each begins and the last ends, as int32, and the text."""

    offsets: bytes
    text: bytes


class IdColumns(NamedTuple):
    """Ids that events have. Numbers are columns of int64, but `hashed`: uint64, xxh3-64 of the id.

    `first` is µs UTC, `events` counts them, `places` is the first (see PLACE_SHIFT), `users` is 1 for a user's id.
    """

    hashed: bytes
    first: bytes
    events: bytes
    places: bytes
    users: bytes


class PairColumns(NamedTuple):
    """Pairs of ids that rows say are one person. Numbers are columns of int64.

    `kinds` adds up KINDS; `first` and `last` are µs UTC, NEVER and its negative where no row has a time; `events`
    counts the rows, and `places` is that of the earliest (see PLACE_SHIFT).
    """

    anonymous: TextColumn
    user: TextColumn
    kinds: bytes
    first: bytes
    last: bytes
    events: bytes
    places: bytes


class PropertyColumns(NamedTuple):
    """Sayings (`PropertyUpdate`). Numbers are columns of int64."""

    owner: TextColumn
    name: TextColumn
    kind: bytes
    time: bytes
    received: bytes
    latest: bytes
    value: TextColumn


class IdentityColumns(NamedTuple):
    """What is handed over. The owner of what is said of a group is its type and its key, joined by SEPARATOR."""

    ids: IdColumns
    pairs: PairColumns
    persons: PropertyColumns
    groups: PropertyColumns


class IdentityAggregator:
    """Hears rows, block by block.

    `undated` stands for the time of a row that has none (µs UTC). `persons` says whether properties of persons are
    wanted, `unsets` whether rows may take one away. No pair of an `excluded` id is kept. `place` is where the block
    begins.
    """

    def __init__(
        self, undated: int, *, persons: bool = True, unsets: bool = True, excluded: frozenset[str] = frozenset()
    ) -> None:
        self._undated = undated
        self._wanted = persons
        self._unsets = unsets
        self._excluded = excluded
        self.place = 0
        self._types: Counter[str] = Counter()
        self._opened: dict[bytes, tuple[tuple[str, str], ...]] = {}
        self._heard: list[PersonNote] = []
        self._clear()

    def _clear(self) -> None:
        self._ids = new_id_accumulator()
        self._pairs = new_pair_accumulator()
        self._persons = new_property_accumulator()
        self._groups = new_property_accumulator()
        self._seen: dict[str, int] = {}
        self._condensed: list[PropertyUpdate] = []
        self._condensed_bytes = 0

    def start_block(self, number: int) -> None:
        """The rows that follow are those of this block."""
        self.place = number << PLACE_SHIFT

    def finish_block(self) -> Counter[str]:
        """The block is over; how many of its rows name a group, by type."""
        if self._heard:
            said = condense(self._heard)
            self._heard.clear()
            self._condensed += said
            self._condensed_bytes += sum(len(one.value) for one in said)
        types, self._types = self._types, Counter()
        return types

    @property
    def full(self) -> bool:
        """Whether it is time to hand over."""
        folds = (self._ids, self._pairs, self._persons, self._groups)
        return (
            sum(map(len, (*folds, self._seen, self._condensed))) > MAX_ENTRIES
            or sum(fold.bytes for fold in folds) + self._condensed_bytes > MAX_BYTES
        )

    @property
    def accumulators(self) -> tuple[Any, Any, Any]:
        """Where ids, pairs and properties of persons may be told by others than this; None where they may not."""
        if self._excluded or self._unsets:
            return self._ids, None, None
        return self._ids, self._pairs, self._persons if self._wanted else None

    def take(self) -> IdentityColumns:
        """All that was heard since the last time."""
        seen = (PropertyUpdate(owner, "", EXISTS, at, ABSENT, at, b"") for owner, at in self._seen.items())
        gathered = IdentityColumns(
            _id_columns(self._ids.rows()),
            _pair_columns(self._pairs.rows()),
            _saying_columns([*self._persons.rows(), *self._condensed]),
            _saying_columns([*seen, *self._groups.rows()]),
        )
        self._clear()
        return gathered

    def add_id(self, row: int, distinct_id: str, time: int, user: bool) -> None:
        """Hear that a row has an event of this id; `user` says that it is a user's."""
        self._ids.add_id(distinct_id, time, user, self.place + row)

    def add_note(self, row: int, distinct_id: str, time: int | None, received: int | None, note: Note) -> None:
        """Hear what a row says of its ids and its person. Times are µs UTC, `row` counts from 0."""
        if note.anonymous is not None and note.user is not None:
            self._pair(note.anonymous, note.user, KINDS["row"], time, row)
        if not self._wanted:
            return
        at = self._undated if time is None else time
        got = ABSENT if received is None else received
        if self._unsets:
            if note.set or note.set_once or note.unset:
                self._heard.append(PersonNote(distinct_id, note, at, got))
            return
        if note.set:
            self._persons.set(distinct_id, note.set, at, got)
        if note.set_once:
            self._persons.set_once(distinct_id, note.set_once, at, got)

    def add_link(self, row: int, link: Link) -> None:
        """Hear a merge that a row states."""
        self._pair(link.other, link.distinct_id, KINDS[link.kind], link.time, row)

    def add_groups(self, named: Any, time: int) -> None:
        """Hear an event's `$groups`."""
        text = json_of(named)
        groups = self._opened.get(text)
        if groups is None:
            if len(self._opened) == _MOST_OPENED:
                self._opened.clear()
            groups = self._opened[text] = _groups_named(text)
        for type_, key in groups:
            self._group(type_, key, time)

    def add_group(self, update: GroupUpdate) -> None:
        """Hear what a row says of a group."""
        at = update.time if type(update.time) is int else self._undated
        owner = self._group(update.type, update.key, at)
        self._groups.set(owner, update.set, at, ABSENT if update.received is None else update.received)

    def _pair(self, anonymous: str, user: str, kind: int, time: int | None, row: int) -> None:
        if not self._excluded or self._excluded.isdisjoint((anonymous, user)):
            self._pairs.add_pair(anonymous, user, kind, time, self.place + row)

    def _group(self, type_: str, key: str, at: int) -> str:
        self._types[type_] += 1
        owner = f"{type_}{SEPARATOR}{key}"
        self._seen[owner] = max(at, self._seen.get(owner, at))
        return owner


def _groups_named(text: bytes) -> tuple[tuple[str, str], ...]:
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


def _id_columns(told: Sequence[tuple[Any, ...]]) -> IdColumns:
    seen, *numbers = zip(*told, strict=True) if told else ((),) * 5
    return IdColumns(array("Q", map(hash_id, seen)).tobytes(), *map(_numbers, numbers))


def _pair_columns(told: Sequence[tuple[Any, ...]]) -> PairColumns:
    anonymous, user, *numbers = zip(*told, strict=True) if told else ((),) * 7
    return PairColumns(_texts(anonymous), _texts(user), *map(_numbers, numbers))


def _saying_columns(said: Sequence[tuple[Any, ...]]) -> PropertyColumns:
    owner, name, *numbers, value = zip(*said, strict=True) if said else ((),) * 7
    kind, time, received, latest = map(_numbers, numbers)
    return PropertyColumns(_texts(owner), _texts(name), kind, time, received, latest, _blobs(value))


def _texts(texts: Sequence[str]) -> TextColumn:
    whole = "".join(texts)
    if whole.isascii():
        return TextColumn(_ends(texts), whole.encode())
    return _blobs([text.encode() for text in texts])


def _blobs(blobs: Sequence[bytes]) -> TextColumn:
    return TextColumn(_ends(blobs), b"".join(blobs))


def _ends(pieces: Sequence[str] | Sequence[bytes]) -> bytes:
    return array("i", accumulate(map(len, pieces), initial=0)).tobytes()


def _numbers(numbers: Iterable[int]) -> bytes:
    return array("q", numbers).tobytes()
