"""The distinct_ids of events, each once: the time of its first event, its number of events, whether it is a user's id.

Ids are represented by 64-bit hashes. They are aggregated by a query over the facts of all events, so memory does not
grow with the people of an export (docs/know/promises.md#constant-memory).

The table answers: the first event of each id that a pair names (`find_activity`), which ids have more events than the
service takes for one id in a minute (`hot_ids`), which ids belong to identified persons (`write_identified`), which
people are seen on only one day (`count_one_day_people`), who has no event (`count_without_events`), and which ids went
through a floating-point number (`EventIds.floats`): `42.0`, a different person from `42`, and `1e17`, which may have
been several ids (docs/know/exports.md#integers-as-floats). For these the table has further records: SPLIT for the
integer that `42.0` was, without any event, and ROUNDED for an id whose digits do not fit a double. If an event, a
profile or a merge has that integer, both records are found together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.id_hash import hash_id
from pipeline.identity.kinds import NEVER, PLACE_SHIFT
from pipeline.timestamps import DAY

USER, SPLIT, ROUNDED = 1, 2, 4
"""Flags of an id: an event names it as a user's; `ID.0` is an id too; it has lost digits."""
_ENDS = frozenset("+eE.")
_FLOAT = re.compile(r"(-?[0-9]+)\.0|-?[0-9](?:\.[0-9]+)?[eE]\+?([0-9]{2})")
_EXACT = 1 << 53
_DIGITS = 16
"""A double distinguishes all integers with fewer digits."""
ID = np.dtype(
    [("person", "<u8"), ("time", "<i8"), ("events", "<u8"), ("place", "<i8"), ("user", "<u4"), ("last", "<i8")]
)
"""One id: its xxh3-64 hash, µs UTC of its first event, its number of events (duplicates count), the place of its first
event in the source (`pipeline.identity.kinds.PLACE_SHIFT`), the flags of `pipeline.identity.event_ids`, and µs UTC of
its last event."""
EVENTS_PER_MINUTE = 5_000
"""Above roughly this many events of one distinct_id per minute the service still takes events, but no longer updates
the person and does not keep the order (docs/know/service.md#answers). Sending is much faster than the history was, so
all events of an id can arrive within a minute; `apply --rate` slows it down."""
AT_ONCE = 150_000
_TWINS_AT_ONCE = 200_000


class FloatIds(NamedTuple):
    """How many ids are written with `.0`; how many of these are written as integers too; how many have lost digits; and
    the place of the first of each kind (PLACE_SHIFT of `kinds`), NEVER if only profiles have them."""

    written: int
    split: int
    rounded: int
    places: tuple[int, ...]


class EventIds:
    """The ids in a file at `path`, sorted by hash."""

    def __init__(self, path: Path, at_once: int = AT_ONCE, floats: bool = False) -> None:
        self._path = path
        self._at_once = at_once
        self._floats = floats

    def chunks(self) -> Iterator[NDArray[np.void]]:
        """The ID records that have events, sorted, in arrays of at most `at_once`; `user` is 1 for a user's id."""
        for chunk in self._records():
            if self._floats:
                chunk = chunk[chunk["events"] > 0]
                chunk["user"] &= USER
            if len(chunk):
                yield chunk

    def floats(self, sent: EventIds) -> FloatIds | None:
        """The ids that went through floats, or None. `sent` are the ids of profiles and merges."""
        return count_floats(self._records(), _common(self._records(), sent.chunks())) if self._floats else None

    def _records(self) -> Iterator[NDArray[np.void]]:
        with self._path.open("rb") as file:
            while len(chunk := np.fromfile(file, ID, self._at_once)):
                yield chunk


def write_event_ids(database: Database, events: str, path: Path, *, floats: bool = False) -> EventIds:
    """Write the table of ids to a file at `path`. `events` is a query with the columns of ID, each id any number of
    times. `floats`: some records are about ids that went through floats."""
    sql = (
        "SELECT person, min(time) AS time, CAST(sum(events) AS UBIGINT) AS events, min(place) AS place,"
        f' bit_or("user") AS "user", max(last) AS last FROM ({events}) GROUP BY person ORDER BY person'
    )
    _write(database, sql, path)
    return EventIds(path, floats=floats)


def write_sent_ids(database: Database, hashes: Iterable[NDArray[np.uint64]], path: Path) -> EventIds:
    """Write ids without events, given by their hashes, each any number of times."""
    database.run("CREATE TABLE sent_ids (person UBIGINT)")
    for some in hashes:
        database.append("sent_ids", {"person": some})
    _write(database, "SELECT DISTINCT person FROM sent_ids ORDER BY person", path)
    database.drop("sent_ids")
    return EventIds(path)


def _write(database: Database, sql: str, path: Path) -> None:
    """Write a query's columns of ID; columns that the query lacks are 0."""
    from pipeline.identity.database import numbers_of  # loads Arrow

    with path.open("wb") as table:
        for batch in database.stream(sql):
            records = np.zeros(len(batch), ID)
            for name in batch.schema.names:
                records[name] = numbers_of(batch, name)
            records.tofile(table)


class IdActivity(NamedTuple):
    """By the number of an id: µs UTC of its first event, NEVER if it has none; and whether it is a user's id."""

    earliest: NDArray[np.int64]
    users: NDArray[np.bool_]


def find_activity(
    hashed: NDArray[np.uint64],
    order: NDArray[np.int32],
    chunks: Iterable[NDArray[np.void]],
) -> IdActivity:
    """Find the first event of ids, given by their hashes, in one pass over the ids of events. `order` sorts `hashed`.

    `chunks` are arrays with the fields `person`, `time` and `user` (not 0 for a user's id), in any order and number;
    if windows follow each other, those of earlier plans are among them.

    Two ids can share a 64-bit hash, once in a million plans with five million ids. Both then get the earlier date, and
    both count as a user's id if one does. A merge that is dated too early still comes before the events it joins, and
    in doubt a merge is left out: a collision never merges two persons.
    """
    earliest = np.full(len(hashed), NEVER, np.int64)
    users = np.zeros(len(hashed), bool)
    for chunk in chunks:
        if not len(chunk) or not len(hashed):
            continue
        by = np.argsort(chunk["person"], kind="stable")  # most chunks are sorted
        person = chunk["person"][by]
        starts = np.flatnonzero(np.concatenate(([True], person[1:] != person[:-1])))
        person = person[starts]
        where = np.searchsorted(hashed, person, sorter=order)
        where[where == len(hashed)] = 0
        number = order[where]
        hit = hashed[number] == person
        number = number[hit]
        earliest[number] = np.minimum(earliest[number], np.minimum.reduceat(chunk["time"][by], starts)[hit])
        users[number] |= np.bitwise_or.reduceat(chunk["user"][by], starts)[hit] != 0
    for start in range(0, len(hashed) - 1, _TWINS_AT_ONCE):
        some = order[start : start + _TWINS_AT_ONCE + 1]
        ascending = hashed[some]
        for twin in np.flatnonzero(ascending[1:] == ascending[:-1]).tolist():
            earliest[some[twin + 1]], users[some[twin + 1]] = earliest[some[twin]], users[some[twin]]
    return IdActivity(earliest, users)


class HotIds(NamedTuple):
    """How many ids have more than EVENTS_PER_MINUTE events; and, for the id with the most, its number of events and the
    block and row of its first event, from 0."""

    ids: int
    events: int
    block: int
    row: int

    @property
    def minutes(self) -> int:
        """The fewest minutes that the events of the largest id take at EVENTS_PER_MINUTE."""
        return -(-self.events // EVENTS_PER_MINUTE)


def hot_ids(ids: EventIds) -> HotIds | None:
    """The ids with more than EVENTS_PER_MINUTE events, or None. Duplicates count, too."""
    count, most, place = 0, 0, 0
    for some in ids.chunks():
        hot = some[some["events"] > EVENTS_PER_MINUTE]
        if not len(hot):
            continue
        count += len(hot)
        first = hot[np.lexsort((hot["place"], -hot["events"].astype(np.int64)))[0]]
        hottest = int(first["events"]), int(first["place"])
        if (-hottest[0], hottest[1]) < (-most, place):
            most, place = hottest
    return HotIds(count, most, place >> PLACE_SHIFT, place & ((1 << PLACE_SHIFT) - 1)) if count else None


class ProfileCounts(NamedTuple):
    """Distinct ids of events, and events, of identified persons, of anonymous persons, and of those anonymous persons
    who have events on only one UTC day. Duplicates count, too."""

    identified_ids: int
    anonymous_ids: int
    identified_events: int
    anonymous_events: int
    one_day_ids: int
    one_day_events: int


def write_identified(path: Path, ids: EventIds, joined: NDArray[np.uint64]) -> ProfileCounts:
    """Write the table of identified ids (`pipeline.encoder.identified_ids.IdentifiedIds`), sorted, and count.

    An id is identified if an event names it as a user's, or if it is in `joined`: the hashes of the ids that identity
    resolution joins to another (`Identities.identified`). `joined` is sorted in place.
    """
    joined.sort()
    if (joined[1:] == joined[:-1]).any():
        joined = np.unique(joined)
    totals = np.zeros(6, np.int64)
    with path.open("wb") as table:
        for some in ids.chunks():
            upto = int(np.searchsorted(joined, some["person"][-1], side="right"))
            near, joined = joined[:upto], joined[upto:]
            identified = (some["user"] != 0) | np.isin(some["person"], near)
            np.union1d(some["person"][identified], near).tofile(table)
            events = some["events"].astype(np.int64)
            anonymous = ~identified
            once = anonymous & (some["time"] // DAY == some["last"] // DAY)
            for place, of in enumerate((identified, anonymous)):
                totals[[place, place + 2]] += (of.sum(), events[of].sum())
            totals[4:] += (once.sum(), events[once].sum())
        joined.tofile(table)
    return ProfileCounts(*totals.tolist())


def count_without_events(ids: EventIds, sent: EventIds, person_of: PersonNumbers, size: int) -> int:
    """How many persons of the `sent` ids have no event. The numbers of joined ids are below `size`."""
    joined, alone = np.zeros(size, bool), 0
    for some in sent.chunks():
        number = person_of(some["person"])
        joined[number[number >= 0]] = True
        alone += int((number < 0).sum())
    for some in _common(ids.chunks(), sent.chunks()):
        alone -= int((person_of(some["person"]) < 0).sum())
    for some in ids.chunks() if joined.any() else ():
        number = person_of(some["person"])
        joined[number[number >= 0]] = False
    return int(joined.sum()) + alone


def _common(one: Iterator[NDArray[np.void]], other: Iterator[NDArray[np.void]]) -> Iterator[NDArray[np.void]]:
    """The records of one table whose ids are also in another. Both are sorted."""
    some, others = next(one, None), next(other, None)
    while some is not None and others is not None:
        yield some[np.isin(some["person"], others["person"], assume_unique=True)]
        if some["person"][-1] <= others["person"][-1]:
            some = next(one, None)
        else:
            others = next(other, None)


PersonNumbers = Callable[[NDArray[np.uint64]], NDArray[np.int32]]
"""Maps the hash of each id to the number of its person, -1 for an id that is joined to no other."""


class OneDayPeople(NamedTuple):
    """How many people have events; how many have events on only one UTC day; and these people's events. Duplicates
    count, too."""

    people: int
    one_day_people: int
    one_day_people_events: int


def count_one_day_people(ids: EventIds, person_of: PersonNumbers, size: int) -> OneDayPeople:
    """Count who never returns. All ids that identity resolution joins are one person; their numbers are below
    `size`."""
    first, last = np.full(size, np.iinfo(np.int32).max, np.int32), np.full(size, -1, np.int32)
    events = np.zeros(size, np.int64)
    people = once = events_once = 0
    for some in ids.chunks():
        person = person_of(some["person"])
        days = [(some[name] // DAY).astype(np.int32) for name in ("time", "last")]
        alone = person < 0
        one_day = alone & (days[0] == days[1])
        people += int(alone.sum())
        once += int(one_day.sum())
        events_once += int(some["events"][one_day].sum())
        joined = person[~alone]
        np.minimum.at(first, joined, days[0][~alone])
        np.maximum.at(last, joined, days[1][~alone])
        np.add.at(events, joined, some["events"][~alone].astype(np.int64))
    one_day = first == last
    return OneDayPeople(
        people + int(np.count_nonzero(events)),
        once + int(np.count_nonzero(one_day)),
        events_once + int(events[one_day].sum()),
    )


def looks_like_float(id_: str) -> bool:
    """Whether an id ends as a floating-point number does."""
    return not _ENDS.isdisjoint(id_[-3:-1])


def float_records(ids: Iterable[tuple[str, int]]) -> Iterator[tuple[int, int, int]]:
    """(hash, flag, place) of the ids that went through floats; `ids` have their places."""
    for one, place in ids:
        match = _FLOAT.fullmatch(one)
        if match is None:
            continue
        if match[1] is not None and abs(int(match[1])) < _EXACT:
            yield hash_id(match[1]), SPLIT, place
        elif match[1] is not None or int(match[2]) >= _DIGITS:
            yield hash_id(one), ROUNDED, place


def count_floats(chunks: Iterable[NDArray[np.void]], sent: Iterable[NDArray[np.void]]) -> FloatIds | None:
    """Count the ids that went through floats, or None. `chunks` are records of ids, including those
    without events; `sent` are the records of ids for which a profile or a merge is sent."""
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


if TYPE_CHECKING:
    from pipeline.identity.database import Database
