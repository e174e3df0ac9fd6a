"""The distinct_ids of events, each once: the time of its first event, its number of events, whether it is a user's id.

Ids are represented by 64-bit hashes. They are aggregated by a query over the facts of all events, so memory does not
grow with the people of an export (docs/know/promises.md#constant-memory).

The table answers: the first event of each id that a pair names (`find_activity`), which ids have more events than the
service takes for one id in a minute (`hot_ids`), which ids belong to identified persons (`write_identified`), which
people are seen on only one day (`count_people`), who has no event (`count_without_events`), and which ids went
through a floating-point number (`EventIds.floats`): `42.0`, a different person from `42`, and `1e17`, which may have
been several ids (docs/know/exports.md#integers-as-floats). For these the table has further records: SPLIT for the
integer that `42.0` was, without any event, and ROUNDED for an id whose digits do not fit a double. If an event, a
profile or a merge has that integer, both records are found together. A further record without an event has USER for an
id that a row of another kind names as a user's, such as a profile: it may be the only row that does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.id_hash import hash_id
from pipeline.identity.kinds import NEVER
from pipeline.timestamps import DAY

USER, SPLIT, ROUNDED = 1, 2, 4
"""Flags of an id: a row names it as a user's; `ID.0` is an id too; it has lost digits."""
_ENDS = frozenset("+eE.")
_FLOAT = re.compile(r"(-?[0-9]+)\.0|-?[0-9](?:\.[0-9]+)?[eE]\+?([0-9]{2})")
_EXACT = 1 << 53
_DIGITS = 16
"""A double distinguishes all integers with fewer digits."""
SIGHTING = np.dtype([("person", "<u8"), ("time", "<i8"), ("user", "<u4")])
"""One id: its xxh3-64, the time of its first event in µs UTC, NEVER if it has none, and whether a row names it as a
user's (not 0)."""
EVENTS_PER_MINUTE = 5_000
"""Above roughly this many events of one distinct_id per minute the service still takes events, but no longer updates
the person and does not keep the order (docs/know/service.md#answers). Sending is much faster than the history was, so
all events of an id can arrive within a minute; `apply --rate` slows it down."""
_TWINS_AT_ONCE = 200_000


class FloatIds(NamedTuple):
    """How many ids are written with `.0`; how many of these are written as integers too; how many have lost digits; and
    the place of the first of each kind (PLACE_SHIFT of `kinds`), NEVER if only profiles have them."""

    written: int
    split: int
    rounded: int
    places: tuple[int, ...]


_IDS = """
CREATE TABLE ids AS
SELECT person, min(time) AS time, sum(events)::BIGINT AS events, min(place) AS place, bit_or("user") AS "user",
    max(last) AS last
FROM ({events}) GROUP BY person
"""
"""One id: its xxh3-64 hash, µs UTC of its first event, its number of events (duplicates count), the place of its first
event in the source (`pipeline.identity.kinds.PLACE_SHIFT`), its flags, and µs UTC of its last event."""
_SIGHTINGS = f"""
SELECT person, time, ("user" & {USER})::UINTEGER AS "user" FROM ids
WHERE events > 0 OR "user" & {USER} != 0 ORDER BY person
"""
_HOT = f"""
SELECT person, events, place FROM ids WHERE events > {EVENTS_PER_MINUTE} ORDER BY events DESC, place
"""
_IDENTIFIED = f"""
SELECT person FROM ids WHERE "user" & {USER} != 0 UNION SELECT person FROM joined ORDER BY person
"""
_PROFILES = f"""
SELECT count(*) FILTER (identified), count(*) FILTER (NOT identified), coalesce(sum(events) FILTER (identified), 0),
    coalesce(sum(events) FILTER (NOT identified), 0), count(*) FILTER (once), coalesce(sum(events) FILTER (once), 0)
FROM (
    SELECT events, "user" & {USER} != 0 OR joined.person IS NOT NULL AS identified,
        NOT identified AND time // {DAY} = last // {DAY} AS once
    FROM ids LEFT JOIN joined USING (person) WHERE events > 0
)
"""
_WHO = "coalesce(number::HUGEINT, -1 - person::HUGEINT) AS who"
_NUMBERED = (
    "LEFT JOIN (SELECT person, min(number) AS number, max(known) AS known FROM numbered GROUP BY person) USING (person)"
)
_PEOPLE = f"""
CREATE TABLE people AS
SELECT {_WHO}, min(time // {DAY}) AS first, max(last // {DAY}) AS last, sum(events)::BIGINT AS events,
    bool_or("user" & {USER} != 0 OR known != 0) AS known
FROM ids {_NUMBERED} WHERE events > 0 GROUP BY who
"""
"""Who has events: all ids that identity resolution joins are one person."""
_ONE_DAY = """
SELECT count(*), count(*) FILTER (first = last), coalesce(sum(events) FILTER (first = last), 0)::BIGINT,
    coalesce(sum(events) FILTER (known), 0)::BIGINT FROM people
"""
_WITHOUT = f"SELECT count(*) FROM (SELECT DISTINCT {_WHO} FROM sent_ids {_NUMBERED}) ANTI JOIN people USING (who)"
_FLOATS = f"""
SELECT count(*) FILTER (written), count(*) FILTER (split), count(*) FILTER (rounded), min(place) FILTER (written),
    min(place) FILTER (split), min(place) FILTER (rounded)
FROM (
    SELECT place, "user" & {SPLIT} != 0 AS written, "user" & {ROUNDED} != 0 AS rounded,
        written AND (events > 0 OR person IN (SELECT person FROM sent_ids)) AS split
    FROM ids WHERE "user" & {SPLIT | ROUNDED} != 0
)
"""


def add_event_ids(database: Database, events: str) -> None:
    """Make the table `ids`. `events` is a query with its columns, each id any number of times."""
    database.run(_IDS.format(events=events))


def sightings(database: Database) -> Iterator[NDArray[np.void]]:
    """The SIGHTING records of the ids that have events or are users', sorted by hash."""
    for batch in database.arrays(_SIGHTINGS):
        found = np.empty(len(batch["person"]), SIGHTING)
        for name, values in batch.items():
            found[name] = values
        yield found


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


class HotId(NamedTuple):
    """The hash of an id with more than EVENTS_PER_MINUTE events, its number of events, and the place of the first."""

    person: int
    events: int
    place: int

    @property
    def minutes(self) -> int:
        """The fewest minutes that its events take at EVENTS_PER_MINUTE."""
        return -(-self.events // EVENTS_PER_MINUTE)


def hot_ids(database: Database) -> list[HotId]:
    """The ids with more than EVENTS_PER_MINUTE events, those with the most first. Duplicates count, too."""
    return [HotId(*one) for one in database.rows(_HOT)]


class ProfileCounts(NamedTuple):
    """Distinct ids of events, and events, of identified persons, of anonymous persons, and of those anonymous persons
    who have events on only one UTC day. Duplicates count, too."""

    identified_ids: int
    anonymous_ids: int
    identified_events: int
    anonymous_events: int
    one_day_ids: int
    one_day_events: int


def write_identified(database: Database, path: Path, joined: NDArray[np.uint64]) -> ProfileCounts:
    """Write the table of identified ids (`pipeline.encoder.identified_ids.IdentifiedIds`), sorted, and count.

    An id is identified if a row names it as a user's, or if it is in `joined`: the hashes of the ids that identity
    resolution joins to another (`Identities.identified`).
    """
    database.run("CREATE TABLE joined (person UBIGINT)")
    database.append("joined", {"person": np.unique(joined)})
    with path.open("wb") as table:
        for batch in database.arrays(_IDENTIFIED):
            batch["person"].tofile(table)
    return ProfileCounts(*map(int, database.rows(_PROFILES)[0]))


PersonNumbers = Callable[[NDArray[np.uint64]], NDArray[np.int32]]
"""Maps the hash of each id to the number of its person, -1 for an id that is joined to no other."""


class PeopleCounts(NamedTuple):
    """How many people have events; how many have events on only one UTC day; these people's events; and the events of
    people with a user's id. Duplicates count, too."""

    people: int
    one_day_people: int
    one_day_people_events: int
    resolved_events: int


def count_people(database: Database, numbers: Iterable[Mapping[str, NDArray[Any]]]) -> PeopleCounts:
    """Count who never returns, and the events of users. All ids that identity resolution joins are one person
    (`Identities.numbers`)."""
    database.run("CREATE TABLE numbered (person UBIGINT, number INTEGER, known UTINYINT)")
    for some in numbers:
        database.append("numbered", some)
    database.run(_PEOPLE)
    return PeopleCounts(*database.rows(_ONE_DAY)[0])


def count_without_events(database: Database) -> int:
    """How many people of the ids in the table `sent_ids` have no event; after `count_people`."""
    return database.number(_WITHOUT)


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


def find_floats(database: Database) -> FloatIds | None:
    """The ids that went through floats, or None. The table `sent_ids` has those of profiles and merges."""
    written, split, rounded, *places = database.rows(_FLOATS)[0]
    found = FloatIds(written, split, rounded, tuple(NEVER if one is None else one for one in places))
    return found if written or rounded else None


if TYPE_CHECKING:
    from pipeline.identity.database import Database
