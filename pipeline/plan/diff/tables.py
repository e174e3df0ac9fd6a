"""The events of two plans, joined in a database by what identifies them.

Events are matched by uuid and compared by the digest of their content; merges, groups and profile updates by their ids
and the digest of their event. Requests are read only if an event differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.encoder.encoded import decode_event
from pipeline.encoder.marks import unmarked
from pipeline.encoder.updates import SealedLink
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database, file_at, numbers, numbers_of
from pipeline.plan.requests.query import add_facts
from pipeline.plan.requests.store import read_events
from pipeline.plan.requests.values import EventValues
from pipeline.plan.sealed.directory import EVENTS, Directory, read_lines
from pipeline.plan.sealed.manifest import PartSeal, Plan

SIDES = ("a", "b")
PAIRS_AT_ONCE = 100_000
BYTES_AT_ONCE = 64 * 1024 * 1024
"""At most this many bytes of events of one plan are read at a time."""
_IDS = ("distinct_id", "$anon_distinct_id", "alias", "$group_type")
_COLUMNS = ("key_hi", "key_lo", "content_hi", "content_lo", "number", "place", "bytes")
_OF_EVENTS = (
    "(SELECT hi AS key_hi, lo AS key_lo, 0 AS nth, content_hi, content_lo, number, place, bytes FROM {side}"
    " WHERE code IS NULL)"
)
_OF_UPDATES = (
    "(SELECT *, row_number() OVER (PARTITION BY key_hi, key_lo ORDER BY number, place) AS nth FROM updates_{side})"
)
_DIFFERING = """
CREATE OR REPLACE TABLE differing AS
SELECT coalesce(a.key_hi, b.key_hi) AS hi, coalesce(a.key_lo, b.key_lo) AS lo,
    a.number AS a_number, a.place::BIGINT AS a_place, b.number AS b_number, b.place::BIGINT AS b_place,
    greatest(a.bytes, b.bytes)::BIGINT AS bytes, 0 AS alike,
    CASE WHEN b.number IS NULL THEN 'only_a' WHEN a.number IS NULL THEN 'only_b' ELSE 'changed' END AS kind
FROM {a} AS a FULL JOIN {b} AS b
ON a.key_hi = b.key_hi AND a.key_lo = b.key_lo AND a.nth = b.nth
WHERE a.number IS NULL OR b.number IS NULL OR a.content_hi != b.content_hi OR a.content_lo != b.content_lo OR {always}
"""
_WITH_FACTS = """
CREATE OR REPLACE TABLE differing AS
SELECT differing.* REPLACE ((a.name = b.name AND a.distinct_id = b.distinct_id AND a.time = b.time)::BIGINT AS alike),
    a.name AS a_name, a.distinct_id AS a_id, a.time AS a_time, a.part AS a_part, a.row AS a_row,
    a.position AS a_position, b.name AS b_name, b.distinct_id AS b_id, b.time AS b_time, b.part AS b_part,
    b.row AS b_row, b.position AS b_position
FROM differing LEFT JOIN a ON a.number = a_number AND a.place = a_place
LEFT JOIN b ON b.number = b_number AND b.place = b_place
"""
_PAIRS = """
SELECT rowid AS id, a_number, a_place, b_number, b_place, alike::BIGINT AS alike, bytes
FROM differing WHERE kind = 'changed' ORDER BY a_number, a_place
"""
_REKEYED = """
SELECT count(*) FROM (
    SELECT a_part, a_row, a_position FROM differing WHERE kind = 'only_a'
    INTERSECT SELECT parts.a, b_row, b_position FROM differing JOIN parts ON b_part = parts.b WHERE kind = 'only_b'
)
"""


class Opened(NamedTuple):
    """A plan, its directory, and the name that a person gave for it."""

    plan: Plan
    directory: Directory
    name: str


class Pairs(NamedTuple):
    """Some events that both plans have: their rows in `differing`, the events of each plan, and whether they are
    `alike` in name, distinct_id and time."""

    at: NDArray[np.int64]
    a: list[bytes]
    b: list[bytes]
    alike: NDArray[np.int64]


class Joined:
    """Two plans in a database. `join` fills the table `differing` for one phase; for events, with their facts."""

    def __init__(self, database: Database, a: Opened, b: Opened) -> None:
        self.database = database
        self._sides = dict(zip(SIDES, (a, b), strict=True))
        self._always = _identified(a.plan) != _identified(b.plan)
        for side, opened in self._sides.items():
            add_facts(database, opened.directory, side)

    def join(self, phase: str) -> None:
        """Find what may differ in a phase."""
        sources = {}
        for side, opened in self._sides.items():
            sources[side] = (_OF_EVENTS if phase == EVENTS else _OF_UPDATES).format(side=side)
            if phase != EVENTS:
                self._add_updates(side, opened, phase)
        self.database.run("CREATE OR REPLACE TABLE same (id BIGINT)")
        self.database.run(_DIFFERING.format(**sources, always=self._always and phase == EVENTS))
        if phase == EVENTS:
            self.database.run(_WITH_FACTS)

    def _add_updates(self, side: str, opened: Opened, phase: str) -> None:
        """Fill a table with the keys and digests of the updates of a phase."""
        columns = ", ".join(f"{name} BIGINT" for name in _COLUMNS)
        self.database.run(f"CREATE OR REPLACE TABLE updates_{side} ({columns})")
        for request, sent in read_events(opened.directory, phase):
            events = _as_mapped(sent, opened, phase)
            digests = b"".join(_key_of_update(one) + xxhash.xxh3_128_digest(one) for one in events)
            halves = np.frombuffer(digests, np.int64).reshape(-1, 4)
            found = [*halves.T, np.full(len(events), request.number), np.arange(len(events)), [*map(len, events)]]
            self.database.append(f"updates_{side}", {str(n): numbers(one) for n, one in enumerate(found)})

    def count(self, kind: str) -> int:
        """How many events of a kind may differ."""
        return self.database.number(f"SELECT count(*) FROM differing WHERE kind = '{kind}'")

    def pairs(self, phase: str) -> Iterator[Pairs]:
        """The differing events that both sides have, in chunks. Raises StalePlan."""
        first, second = self._sides.values()
        a, b = (EventValues(one.directory, phase, one.plan.files) for one in (first, second))
        with a, b:
            for batch in self.database.stream(_PAIRS, PAIRS_AT_ONCE):
                columns = [numbers_of(batch, name) for name in batch.schema.names]
                pieces = np.cumsum(columns.pop()) // BYTES_AT_ONCE
                starts = np.flatnonzero(np.diff(pieces)) + 1
                for some in zip(*(np.split(column, starts) for column in columns), strict=True):
                    events = _as_mapped(a.at(*some[1:3]), first, phase)
                    yield Pairs(some[0], events, _as_mapped(b.at(*some[3:5]), second, phase), some[5])
        self.database.run("DELETE FROM differing WHERE rowid IN (SELECT id FROM same)")

    def leave_out(self, same: list[int]) -> None:
        """Once all pairs are read, remove the rows from `differing` whose events turned out to be the same."""
        if same:
            self.database.insert("same", zip(same, strict=True))

    def merged(self) -> int:
        """How many merges only A has because an earlier plan sent them, so B leaves them out."""
        b = self._sides["b"]
        if not any(one.reason == "settled" for one in b.plan.people.identities.decisions):
            return 0
        for side, opened in self._sides.items():
            self.database.run(f"CREATE TABLE links_{side} (link UBIGINT)")
            links = ((one.other, one.distinct_id) for one in read_lines(opened.directory.identities, SealedLink))
            self.database.insert(f"links_{side}", map(_hash_of_pair, links))
        self.database.run("CREATE TABLE settled (link UBIGINT)")
        query = f"SELECT anonymous_id, user_id FROM read_parquet({file_at(b.directory.pairs)}) WHERE reason = 'settled'"
        self.database.insert("settled", map(_hash_of_pair, self.database.tuples(query)))
        return self.database.number(
            "SELECT count(*) FROM links_a ANTI JOIN links_b USING (link) SEMI JOIN settled USING (link)"
        )

    def rekeyed(self) -> int:
        """How many rows of files that both exports have became an event with another uuid."""
        self.database.run("CREATE TABLE parts (a BIGINT, b BIGINT)")
        self.database.insert("parts", _same_files(*(one.plan for one in self._sides.values())))
        return self.database.number(_REKEYED)


def _as_mapped(events: list[bytes], of: Opened, phase: str) -> list[bytes]:
    """Events without the marks of their plan, which are no content of theirs."""
    marks = [mark for mark in of.plan.options.marks if phase == EVENTS or mark == "plan"]
    return [unmarked(event, marks) for event in events] if marks else events


def _hash_of_pair(pair: tuple[str, str]) -> tuple[int]:
    """The row for a merge: an anonymous id and the id that absorbs it."""
    return (hash_id("\0".join(pair)),)


def _key_of_update(event: bytes) -> bytes:
    """16 bytes that are equal for merges of the same ids, and for updates of the same group or profile."""
    one = decode_event(event)
    ids = [one.properties.get(name, msgspec.Raw()) for name in _IDS]
    return xxhash.xxh3_128_digest(b"\x1f".join(map(bytes, ids)))


def _identified(plan: Plan) -> object:
    """The table of the ids that get a profile, which decides what is sent for each event; None if all do."""
    return plan.files.get("identified.bin") if plan.options.persons == "identified" else None


def _same_files(a: Plan, b: Plan) -> Iterator[tuple[int, int]]:
    """The numbers of the files that are the same in both plans."""
    places: dict[tuple[object, ...], list[int]] = {}
    for index, part in enumerate(b.parts):
        places.setdefault(_content(part), []).append(index)
    for index, part in enumerate(a.parts):
        if waiting := places.get(_content(part)):
            yield index, waiting.pop(0)


def _content(part: PartSeal) -> tuple[object, ...]:
    """What two files must share to give the same rows."""
    return part.digest, part.bytes, part.codecs, part.format, part.dialect, part.member, part.table
