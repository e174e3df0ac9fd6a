"""Ids that went through a floating-point number: `42.0`, another person than `42`, and `1e17`, which may have been
several ids (docs/know/exports.md#integers-as-floats).

Workers add a record to the ids of events for each: SPLIT for the integer that `42.0` was, without an event of its own,
and ROUNDED for an id whose digits a double does not hold. If an event, a profile or a merge has that integer, both are
found together.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.id_hash import hash_id
from pipeline.identity.accumulators import NEVER
from pipeline.identity.columns import IdColumns, PairColumns, PropertyColumns, TextColumn, pack_numbers

USER, SPLIT, ROUNDED = 1, 2, 4
"""Flags of an id: an event names it as a user's, `ID.0` is an id too, and it has lost digits."""
_MARKS = np.frombuffer(b"+eE.", np.uint8)
_ENDS = frozenset("+eE.")
_FLOAT = re.compile(r"(-?[0-9]+)\.0|-?[0-9](?:\.[0-9]+)?[eE]\+?([0-9]{2})")
_EXACT = 1 << 53
_DIGITS = 16
"""A double tells all integers of fewer digits apart."""


class FloatIds(NamedTuple):
    """Ids that are written with `.0`; those of them that are written as integers too; those that have lost digits; and
    the place of the first of each (PLACE_SHIFT of `aggregator`), NEVER if only profiles have them."""

    written: int
    split: int
    rounded: int
    places: tuple[int, ...]


def float_columns(ids: Sequence[str], places: bytes, pairs: PairColumns, persons: PropertyColumns) -> IdColumns:
    """The records of the ids of events, pairs and profiles that look like floats."""
    place = array("q", places)
    some = [(one, place[row]) for row, one in enumerate(ids) if not _ENDS.isdisjoint(one[-3:-1])]
    for column in (pairs.anonymous, pairs.user):
        some += _candidates(column, pairs.places)
    some += _candidates(persons.owner, pack_numbers([NEVER] * (len(persons.kind) // 8)))
    records = list(_records(some))
    count = len(records)
    hashed, flags, at = zip(*records, strict=True) if records else ((), (), ())
    numbers = ([NEVER] * count, [0] * count, at, flags, [-NEVER] * count)
    return IdColumns(array("Q", hashed).tobytes(), *map(pack_numbers, numbers))


def _records(ids: Iterable[tuple[str, int]]) -> Iterator[tuple[int, int, int]]:
    for one, place in ids:
        match = _FLOAT.fullmatch(one)
        if match is None:
            continue
        if match[1] is not None and abs(int(match[1])) < _EXACT:
            yield hash_id(match[1]), SPLIT, place
        elif match[1] is not None or int(match[2]) >= _DIGITS:
            yield hash_id(one), ROUNDED, place


def _candidates(column: TextColumn, places: bytes) -> Iterator[tuple[str, int]]:
    """The texts that end as floats do, with their places."""
    ends, text = np.frombuffer(column.offsets, np.int32), np.frombuffer(column.text, np.uint8)
    if len(text) < 3:
        return
    rows = np.flatnonzero(np.isin(text[ends[1:] - 3], _MARKS) | np.isin(text[ends[1:] - 2], _MARKS))
    for row in rows.tolist():
        yield column.text[ends[row] : ends[row + 1]].decode(), int(np.frombuffer(places, np.int64)[row])


def count_floats(chunks: Iterable[NDArray[np.void]], sent: Iterable[NDArray[np.void]]) -> FloatIds | None:
    """The ids that went through floats, None without one. `chunks` are records of ids, those without events too, and
    `sent` are those of them that a profile or a merge is sent for."""
    counts, places = np.zeros(3, np.int64), np.full(3, NEVER)
    for some, of_events in chain(zip(chunks, repeat(True)), zip(sent, repeat(False))):
        split, rounded = some["user"] & SPLIT != 0, some["user"] & ROUNDED != 0
        in_both = split & ((some["events"] > 0) == of_events)
        for number, found in enumerate((split & of_events, in_both, rounded & of_events)):
            if found.any():
                counts[number] += found.sum()
                places[number] = min(places[number], int(some["place"][found].min()))
    written, split, rounded = counts.tolist()
    return FloatIds(written, split, rounded, tuple(places.tolist())) if counts.any() else None
