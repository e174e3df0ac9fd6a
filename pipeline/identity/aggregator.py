"""What rows contain about ids, persons and groups beside their events, aggregated over the blocks of one worker.

One entry remains of each id and of each pair of ids, and of each property of a person or group the update that can
still count, whatever other processes have. The rules (least, greatest, sum) know no order, so the result is the same
however blocks are spread over processes. Before the entries grow large, they are returned to the parent as columns.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.id_hash import hash_id
from pipeline.identity.accumulators import new_id_accumulator, new_pair_accumulator, new_property_accumulator
from pipeline.identity.columns import (
    IdColumns,
    IdentityColumns,
    PairColumns,
    PropertyColumns,
    TextColumn,
    property_columns,
)
from pipeline.identity.float_ids import float_columns
from pipeline.identity.property_updates import ABSENT, EXISTS, PersonNote, PropertyUpdate, condense, json_of
from pipeline.models import GroupUpdate, Link, Note
from pipeline.uuids import SEPARATOR
from pipeline.values import key_text

KINDS = {"row": 1, "identify": 2, "alias": 4, "user": 6, "merge": 8, "service": 128, "seen": 256, "person": 512}
"""The kinds of rows that pair two ids, as bits; `pipeline.identity.observed_pairs` describes them."""
PLACE_SHIFT = 32
"""A place in the source is the number of a block, shifted left by this, plus a row in the block, from 0."""
MAX_ENTRIES = 125_000
MAX_BYTES = 16 * 1024 * 1024
"""So many entries, or so many bytes of text, are kept before they are returned."""
_MAX_OPENED = 10_000
_open = msgspec.json.Decoder(dict[str, Raw]).decode
_text = msgspec.json.Decoder(str).decode


class IdentityAggregator:
    """Aggregates rows, block by block.

    `undated` is used as the time of a row that has none (µs UTC). `persons`: properties of persons are wanted.
    `unsets`: rows may remove a property. No pair with an `excluded` id is kept. `place` is that of the block's first
    row.
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
        self._named: dict[bytes, tuple[int, int]] = {}
        self._notes: list[PersonNote] = []
        self._clear()

    def _clear(self) -> None:
        self._ids = new_id_accumulator()
        self._pairs = new_pair_accumulator()
        self._persons = new_property_accumulator()
        self._groups = new_property_accumulator()
        self._group_times: dict[str, int] = {}
        self._condensed: list[PropertyUpdate] = []
        self._condensed_bytes = 0

    def start_block(self, number: int) -> None:
        """Begin a block; the rows that follow are in it."""
        self.place = number << PLACE_SHIFT

    def finish_block(self) -> Counter[str]:
        """End the block. Returns the number of its rows that name a group, by group type."""
        for text, (events, latest) in self._named.items():
            for type_, key in self._groups_of(text):
                self._group(type_, key, latest, events)
        self._named.clear()
        if self._notes:
            updates = condense(self._notes)
            self._notes.clear()
            self._condensed += updates
            self._condensed_bytes += sum(len(one.value) for one in updates)
        types, self._types = self._types, Counter()
        return types

    @property
    def full(self) -> bool:
        """Whether it is time to return the entries (`take`)."""
        accumulators = (self._ids, self._pairs, self._persons, self._groups)
        return (
            sum(map(len, (*accumulators, self._group_times, self._condensed))) > MAX_ENTRIES
            or sum(one.bytes for one in accumulators) + self._condensed_bytes > MAX_BYTES
        )

    @property
    def accumulators(self) -> tuple[Any, Any, Any]:
        """The accumulators of ids, pairs and properties of persons that the caller may add to by itself, else None."""
        if self._excluded or self._unsets:
            return self._ids, None, None
        return self._ids, self._pairs, self._persons if self._wanted else None

    def take(self) -> IdentityColumns:
        """All entries since the last call."""
        groups = (PropertyUpdate(owner, "", EXISTS, at, ABSENT, at, b"") for owner, at in self._group_times.items())
        ids, *numbers_of_ids = self._ids.columns()
        anonymous, user, *numbers_of_pairs = self._pairs.columns()
        pairs = PairColumns(TextColumn(*anonymous), TextColumn(*user), *numbers_of_pairs)
        persons = PropertyColumns.of(property_columns(self._condensed) if self._unsets else self._persons.columns())
        columns = IdentityColumns(
            IdColumns(array("Q", map(hash_id, ids)).tobytes(), *numbers_of_ids),
            float_columns(ids, numbers_of_ids[2], pairs, persons),
            pairs,
            persons,
            PropertyColumns.of(property_columns([*groups, *self._groups.rows()])),
        )
        self._clear()
        return columns

    def add_id(self, row: int, distinct_id: str, time: int, user: bool) -> None:
        """Add an event with this id. `user`: the event names it as a user's id. `time` is in µs UTC."""
        self._ids.add_id(distinct_id, time, user, self.place + row)

    def add_note(self, row: int, distinct_id: str, time: int | None, received: int | None, note: Note) -> None:
        """Add what a row contains about its ids and its person. Times are in µs UTC, `row` counts from 0."""
        if note.anonymous is not None and note.user is not None:
            self._pair(note.anonymous, note.user, KINDS["row"], time, row)
        if not self._wanted:
            return
        at = self._undated if time is None else time
        got = ABSENT if received is None else received
        if self._unsets:
            if note.set or note.set_once or note.unset:
                self._notes.append(PersonNote(distinct_id, note, at, got))
            return
        if note.set:
            self._persons.set(distinct_id, note.set, at, got)
        if note.set_once:
            self._persons.set_once(distinct_id, note.set_once, at, got)

    def add_link(self, row: int, link: Link) -> None:
        """Add a merge that a row states."""
        self._pair(link.other, link.distinct_id, KINDS[link.kind], link.time, row)

    def add_groups(self, named: Any, time: int) -> None:
        """Add the groups that an event names in `$groups`. Equal texts of a block are opened once, at its end."""
        text = json_of(named)
        events, latest = self._named.get(text, (0, time))
        self._named[text] = events + 1, max(time, latest)

    def add_group(self, update: GroupUpdate) -> None:
        """Add an update of a group."""
        at = update.time if type(update.time) is int else self._undated
        owner = self._group(update.type, update.key, at)
        self._groups.set(owner, update.set, at, ABSENT if update.received is None else update.received)

    def _pair(self, anonymous: str, user: str, kind: int, time: int | None, row: int) -> None:
        if not self._excluded or self._excluded.isdisjoint((anonymous, user)):
            self._pairs.add_pair(anonymous, user, kind, time, self.place + row)

    def _groups_of(self, text: bytes) -> tuple[tuple[str, str], ...]:
        groups = self._opened.get(text)
        if groups is None:
            if len(self._opened) == _MAX_OPENED:
                self._opened.clear()
            groups = self._opened[text] = _groups_named(text)
        return groups

    def _group(self, type_: str, key: str, at: int, rows: int = 1) -> str:
        self._types[type_] += rows
        owner = f"{type_}{SEPARATOR}{key}"
        self._group_times[owner] = max(at, self._group_times.get(owner, at))
        return owner


def _groups_named(text: bytes) -> tuple[tuple[str, str], ...]:
    """(type, key) of the groups in a `$groups` object. The service accepts texts and numbers as keys."""
    try:
        members: Mapping[str, Raw] = _open(text)
    except msgspec.MsgspecError:
        return ()
    named = []
    for kind, value in members.items():
        key = bytes(value)
        if key[:1] == b'"':
            named.append((kind, _text(key)))
        elif key[:1] not in b"[{tfn":
            named.append((kind, key_text(value) or ""))
    return tuple(named)
