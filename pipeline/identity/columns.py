"""What workers return of the ids, persons and groups of rows, as columns: bytes, which pickle and travel fast.

An accumulator returns its columns as tuples (`Columns`), whether it is the one in C or in Python.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

Columns: TypeAlias = tuple[Any, ...]
"""Columns: bytes with an int64 for each row, or the two fields of a TextColumn."""


class TextColumn(NamedTuple):
    """Texts, or bytes, one after the other. `offsets` are int32: where each begins, and where the last ends."""

    offsets: bytes
    text: bytes


class IdColumns(NamedTuple):
    """Ids of events. Numbers are columns of int64, except `hashed`: uint64, the xxh3-64 of the id.

    `first` and `last` are in µs UTC, `events` are counts, `places` are those of the first events (see PLACE_SHIFT),
    `users` is 1 for a user's id.
    """

    hashed: bytes
    first: bytes
    events: bytes
    places: bytes
    users: bytes
    last: bytes


class PairColumns(NamedTuple):
    """Pairs of ids. Numbers are columns of int64.

    `kinds` are sums of KINDS; `first` and `last` are in µs UTC, NEVER and its negative where no row has a time;
    `events` counts the rows, and `places` are those of the earliest rows (see PLACE_SHIFT).
    """

    anonymous: TextColumn
    user: TextColumn
    kinds: bytes
    first: bytes
    last: bytes
    events: bytes
    places: bytes


class PropertyColumns(NamedTuple):
    """Property updates (`pipeline.identity.property_updates.PropertyUpdate`). Numbers are columns of int64."""

    owner: TextColumn
    name: TextColumn
    kind: bytes
    time: bytes
    received: bytes
    latest: bytes
    value: TextColumn

    @classmethod
    def of(cls, columns: Columns) -> PropertyColumns:
        """The columns of an accumulator of properties."""
        owner, name, kind, time, received, latest, value = columns
        return cls(TextColumn(*owner), TextColumn(*name), kind, time, received, latest, TextColumn(*value))


class IdentityColumns(NamedTuple):
    """What a worker returns. The owner of a group's property is the group's type and key, joined by SEPARATOR. `floats`
    are records of `pipeline.identity.float_ids`."""

    ids: IdColumns
    floats: IdColumns
    pairs: PairColumns
    persons: PropertyColumns
    groups: PropertyColumns


def pair_columns(rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Rows of (anonymous, user, kinds, first, last, events, place): the fields of PairColumns."""
    anonymous, user, *numbers = zip(*rows, strict=True) if rows else ((),) * 7
    return pack_texts(anonymous), pack_texts(user), *map(pack_numbers, numbers)


def property_columns(updates: Sequence[tuple[Any, ...]]) -> Columns:
    """Property updates: the fields of PropertyColumns."""
    owner, name, *numbers, value = zip(*updates, strict=True) if updates else ((),) * 7
    return pack_texts(owner), pack_texts(name), *map(pack_numbers, numbers), _pack(value)


def pack_texts(texts: Sequence[str]) -> TextColumn:
    """The texts in UTF-8."""
    whole = "".join(texts)
    if whole.isascii():
        return TextColumn(_ends(texts), whole.encode())
    return _pack([text.encode() for text in texts])


def pack_numbers(numbers: Iterable[int]) -> bytes:
    """The numbers as int64."""
    return array("q", numbers).tobytes()


def _pack(blobs: Sequence[bytes]) -> TextColumn:
    return TextColumn(_ends(blobs), b"".join(blobs))


def _ends(pieces: Sequence[str] | Sequence[bytes]) -> bytes:
    return array("i", accumulate(map(len, pieces), initial=0)).tobytes()
