"""Pairs of ids as they are met: what a row, a stated merge or the operator says of two ids.

Pairs go to the scratch database as they come, a block's worth at a time, and are folded there, so memory does not
grow with the people of an export (docs/know/promises.md#constant-memory).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.identity.accumulators import NEVER
from pipeline.identity.aggregator import KINDS, PLACE_SHIFT, PairColumns
from pipeline.identity.database import Database, number_column, numbers, text_column, texts, write_batches

ROW, IDENTIFY, ALIAS, MERGE, PERSON = (KINDS[kind] for kind in ("row", "identify", "alias", "merge", "person"))
NAMED, SETTLED, SETTLED_USER = 16, 32, 64
"""What says that two ids are one person; the kinds of a pair are added up.

ROW: an ordinary row bears a device's id and a user's. IDENTIFY: a record whose purpose is to say that `user` absorbs
`anonymous`. ALIAS: a record that says that `user` is kept and `anonymous` another id of the same person, whoever they
are. MERGE: a record that says that two ids are equal, without order. NAMED: the operator says so. SETTLED: an earlier
plan merged them already, SETTLED_USER beside it where `user` was a user's id. PERSON: `anonymous` is an id of the
person that `user` numbers (`schema.Link`); none is left once pairs are folded.
"""
EARLIER = SETTLED | SETTLED_USER
PART_SHIFT = 40
NAMED_PART = (1 << 22) - 1
"""The part number of the operator's file."""
PAIRS = pa.schema(
    [("anonymous", pa.string()), ("owner", pa.string())]
    + [(name, pa.int64()) for name in ("kinds", "first", "last", "events", "place")]
)
_AT_ONCE = 50_000


class ObservedPair(NamedTuple):
    """Some rows of one block say that `anonymous` and `user` are one person.

    `kind` is one of KINDS' values; `first` and `last` are µs UTC, None where the rows have no time; `events` counts
    the rows; `row` is the number of the earliest of them in its part, from 1.
    """

    anonymous: str
    user: str
    kind: int
    first: int | None
    last: int | None
    events: int
    row: int


class ObservedPairs:
    """The pairs of a plan being made. An id holds no lone surrogate; anything else is judged later."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.run(
            "CREATE TABLE observed (anonymous VARCHAR, owner VARCHAR, kinds BIGINT, first BIGINT, last BIGINT,"
            " events BIGINT, place BIGINT)"
        )
        self._held: list[tuple[str, str, int, int, int, int, int]] = []
        self._parts = array("q")
        self._first_rows = array("q")

    def block(self, number: int, part: int, first_row: int) -> None:
        """Say where the next block lies: its part, and the number of its first row in that, from 1."""
        assert number == len(self._parts)
        self._parts.append(part)
        self._first_rows.append(first_row)

    def add_columns(self, pairs: PairColumns) -> None:
        """Add what rows of known blocks show."""
        places = np.frombuffer(pairs.places, np.int64)
        block, row = places >> PLACE_SHIFT, places & ((1 << PLACE_SHIFT) - 1)
        part = np.frombuffer(self._parts, np.int64)[block]
        places = (part << PART_SHIFT) + np.frombuffer(self._first_rows, np.int64)[block] + row
        self.database.append(
            "observed",
            {
                "anonymous": text_column(pairs.anonymous),
                "owner": text_column(pairs.user),
                "kinds": number_column(pairs.kinds),
                "first": number_column(pairs.first),
                "last": number_column(pairs.last),
                "events": number_column(pairs.events),
                "place": numbers(places),
            },
        )

    def add(self, part: int, pairs: Iterable[ObservedPair]) -> None:
        """Add what one block of a part shows."""
        held, place = self._held, part << PART_SHIFT
        for anonymous, user, kind, first, last, events, row in pairs:
            earliest = NEVER if first is None else first
            latest = -NEVER if last is None else last
            held.append((anonymous, user, kind, earliest, latest, events, place + row))
        if len(held) > _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what is held to the database."""
        if not self._held:
            return
        anonymous, user, kinds, first, last, events, places = zip(*self._held, strict=True)
        self._held.clear()
        self.database.append(
            "observed",
            {
                "anonymous": texts(anonymous),
                "owner": texts(user),
                "kinds": numbers(kinds),
                "first": numbers(first),
                "last": numbers(last),
                "events": numbers(events),
                "place": numbers(places),
            },
        )

    def aggregate(self) -> None:
        """Make table `pairs`: each pair once, sorted, with where it is first told; `observed` is gone.

        The earliest place is the least of (time, part, row), packed into one number so that ties have one answer.
        """
        self.flush()
        self._join_by_persons()
        self.database.run(
            "CREATE TABLE pairs AS SELECT anonymous, owner, bit_or(kinds) AS kinds, min(first) AS first,"
            " max(last) AS last, CAST(sum(events) AS BIGINT) AS events,"
            " CAST(min(first::HUGEINT * 18446744073709551616::HUGEINT + place)"
            "  - min(first)::HUGEINT * 18446744073709551616::HUGEINT AS BIGINT) AS place"
            " FROM observed GROUP BY anonymous, owner ORDER BY anonymous, owner"
        )
        self.database.drop("observed")

    def _join_by_persons(self) -> None:
        """Make pairs of ids of what rows say of ids and numbered persons: a star around one id of each person.

        Of several rows about an id the one of the latest version counts. The middle is a user's id where one is known,
        so that two users of one person meet, else the least.
        """
        if not self.database.number(f"SELECT count(*) FROM observed WHERE kinds = {PERSON}"):
            return
        self.database.run(
            "INSERT INTO observed WITH told AS (SELECT *, CAST(split_part(owner, chr(31), 1) AS BIGINT) AS version"
            f" FROM observed WHERE kinds = {PERSON}),"
            " said AS (SELECT anonymous AS id, arg_max(substr(owner, strpos(owner, chr(31)) + 1), (version, owner))"
            "  AS person, min(first) AS first, max(last) AS last, CAST(sum(events) AS BIGINT) AS events,"
            "  min(place) AS place FROM told GROUP BY anonymous),"
            " users AS (SELECT DISTINCT owner AS id FROM observed"
            f"  WHERE kinds & {ROW | IDENTIFY | NAMED | SETTLED_USER} <> 0),"
            " near AS (SELECT said.*, first_value(said.id)"
            "  OVER (PARTITION BY person ORDER BY users.id IS NULL, said.id) AS middle"
            "  FROM said LEFT JOIN users ON users.id = said.id)"
            f" SELECT id, middle, {MERGE}, first, last, events, place FROM near WHERE id <> middle"
        )
        self.database.run(f"DELETE FROM observed WHERE kinds = {PERSON}")

    def move_to(self, path: Path) -> int:
        """Move table `pairs` to a file of PAIRS, out of the database's memory; how many there are."""
        count = self.database.number("SELECT count(*) FROM pairs")
        write_batches(self.database.stream("SELECT * FROM pairs"), PAIRS, path)
        self.database.drop("pairs")
        return count


class EarlierLink(NamedTuple):
    """A link that an earlier plan for the same target sealed: `distinct_id` absorbs `other`.

    `state` is `settled`, `in_doubt` (sent, the answer is not known) or `unsent`; `time` is its date, µs UTC.
    """

    distinct_id: str
    other: str
    kind: str
    time: int
    state: str
