"""The pairs of ids that a source shows: by an ordinary row, by a record that states a merge, or by the operator.

Pairs are appended to the scratch database and aggregated there, so memory does not grow with the people of an export
(docs/know/promises.md#constant-memory).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pipeline.identity.accumulators import NEVER
from pipeline.identity.aggregator import KINDS
from pipeline.identity.database import Database, numbers, texts, write_batches

ROW, IDENTIFY, ALIAS, MERGE, SERVICE, PERSON = (
    KINDS[kind] for kind in ("row", "identify", "alias", "merge", "service", "person")
)
NAMED, SETTLED, SETTLED_USER = 16, 32, 64
"""Why two ids are paired, as bits; the kinds of a pair are added up.

ROW: an ordinary row has the id of a device and that of a user. IDENTIFY: a record states that `user` absorbs the device
`anonymous`. ALIAS: a record states that `user` is kept and `anonymous` is another id of the same person, whether users
or not; with IDENTIFY, `user` is a user's id. MERGE: a record states that two ids are equal, without order. "seen": an
ordinary row has both, without order. SERVICE: a record of the service itself, which refused it if `anonymous` was
identified before. NAMED: the operator named the pair.
SETTLED: an earlier plan merged the ids, with SETTLED_USER if `user` was a user's id. PERSON: `anonymous` is an id of
the person with the tool's number `user` (`pipeline.models.Link`); these pairs are replaced when pairs are aggregated.
"""
EARLIER = SETTLED | SETTLED_USER
PART_SHIFT = 40
NAMED_PART = (1 << 22) - 1
"""The part number of the operator's file."""
PAIRS = pa.schema(
    [("anonymous", pa.string()), ("owner", pa.string())]
    + [(name, pa.int64()) for name in ("kinds", "first", "last", "events", "place")]
)
"""A pair of ids: its kinds, added up; µs UTC of its first and last row, NEVER and its negative where none has a time;
the number of its rows; and the place of the earliest, which is the number of its part shifted left by PART_SHIFT plus
that of the row in it, from 1."""
_AT_ONCE = 50_000


class ObservedPair(NamedTuple):
    """A pair of ids that some rows of one block show.

    `kind` is a value of KINDS; `first` and `last` are in µs UTC, None where the rows have no time; `events` counts the
    rows; `row` is the number of the earliest of them in its part, from 1.
    """

    anonymous: str
    user: str
    kind: int
    first: int | None
    last: int | None
    events: int
    row: int


class ObservedPairs:
    """Collects the pairs of a source. Ids have no lone surrogates; everything else is checked later, by the rules."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.run(
            "CREATE TABLE observed (anonymous VARCHAR, owner VARCHAR, kinds BIGINT, first BIGINT, last BIGINT,"
            " events BIGINT, place BIGINT)"
        )
        self._buffer: list[tuple[str, str, int, int, int, int, int]] = []

    def add_batch(self, pairs: pa.RecordBatch) -> None:
        """Add pairs of schema PAIRS."""
        self.database.append("observed", {name: pairs.column(name) for name in PAIRS.names})

    def add(self, part: int, pairs: Iterable[ObservedPair]) -> None:
        """Add pairs of one part."""
        buffer, place = self._buffer, part << PART_SHIFT
        for anonymous, user, kind, first, last, events, row in pairs:
            earliest = NEVER if first is None else first
            latest = -NEVER if last is None else last
            buffer.append((anonymous, user, kind, earliest, latest, events, place + row))
        if len(buffer) > _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write the buffered pairs to the database."""
        if not self._buffer:
            return
        anonymous, user, kinds, first, last, events, places = zip(*self._buffer, strict=True)
        self._buffer.clear()
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
        """Replace table `observed` by table `pairs`: each pair once, sorted, with the place of its earliest row.

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
        """Replace pairs of an id and a person's number by pairs of ids: a star around one id of each person.

        Of several rows about an id the one with the latest version counts. The centre is a user's id where one is
        known, so that two users of one person are joined, else the least id.
        """
        if not self.database.number(f"SELECT count(*) FROM observed WHERE kinds = {PERSON}"):
            return
        self.database.run(
            "INSERT INTO observed WITH stated AS (SELECT *, CAST(split_part(owner, chr(31), 1) AS BIGINT) AS version"
            f" FROM observed WHERE kinds = {PERSON}),"
            " latest AS (SELECT anonymous AS id, arg_max(substr(owner, strpos(owner, chr(31)) + 1), (version, owner))"
            "  AS person, min(first) AS first, max(last) AS last, CAST(sum(events) AS BIGINT) AS events,"
            "  min(place) AS place FROM stated GROUP BY anonymous),"
            " users AS (SELECT DISTINCT owner AS id FROM observed"
            f"  WHERE kinds & {ROW | IDENTIFY | SERVICE | NAMED | SETTLED_USER} <> 0),"
            " near AS (SELECT latest.*, first_value(latest.id)"
            "  OVER (PARTITION BY person ORDER BY users.id IS NULL, latest.id) AS middle"
            "  FROM latest LEFT JOIN users ON users.id = latest.id)"
            f" SELECT id, middle, {MERGE}, first, last, events, place FROM near WHERE id <> middle"
        )
        self.database.run(f"DELETE FROM observed WHERE kinds = {PERSON}")

    def move_to(self, path: Path) -> int:
        """Move table `pairs` to an Arrow file of schema PAIRS, out of the database's memory. Returns the number of
        pairs."""
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
