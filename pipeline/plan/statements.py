"""What the blocks of a source state about people and groups, as queries over the tables that workers wrote.

What grows with the number of people is on disk: what does not fit into memory spills next to the tables
(docs/know/promises.md#constant-memory).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.id_hash import hash_id
from pipeline.identity.database import Database, files_in, texts
from pipeline.identity.event_ids import add_event_ids, float_records
from pipeline.identity.kinds import (
    ABSENT,
    FLOAT,
    GROUP,
    GROUPS,
    KNOWN,
    NEVER,
    PLACE_SHIFT,
    SET,
    SET_ONCE,
    SHOWN_ONCE,
    UNSET,
    USER,
)
from pipeline.identity.last_values import OwnerLookup, Row, rows_by_owner
from pipeline.identity.observed_pairs import ObservedPairs
from pipeline.transform.facts import encode_table, facts_file, keep
from pipeline.transform.statements import groups_named, left_of
from pipeline.uuids import SEPARATOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIECE_BYTES = 1024 * 1024
"""Updates are handed out in pieces of about this size."""
_PLACE = f"(block::BIGINT << {PLACE_SHIFT} | row)"
_COLUMNS = "owner VARCHAR, kind INTEGER, time BIGINT, received BIGINT, value BLOB, latest BIGINT"
_HALF = 1 << 62
_MOMENT = f"((time + {_HALF})::HUGEINT * {1 << 64}::HUGEINT + (received + {_HALF}))"
"""Orders updates by time and receive time; _HALF keeps both from being negative."""
_REMOVES = f"kind = {UNSET} OR (kind = {SET} AND contains(decode(value), 'null'))"
_LIKE_FLOAT = r"ends_with(id, '.0') OR regexp_full_match(id, '.*[eE]\+?[0-9]{2}')"


class Statements:
    """The tables next to `facts`, the folder with the facts of blocks. `blocks` has, for each block, the number of its
    part and of its first row in the part, from 1."""

    def __init__(self, database: Database, facts: Path) -> None:
        self.database = database
        self._facts = facts
        self._leaves_out = False

    def stated(self, name: str) -> bool:
        """Whether any block has a table of this name."""
        folder = self._facts.with_name(name)
        return folder.is_dir() and any(folder.glob("*.parquet"))

    def leave_out(self, copies: Iterable[tuple[int, NDArray[np.uint32], NDArray[np.uint16]]]) -> None:
        """Ignore the events at these rows and positions of blocks, as well as what their rows state."""
        self._leaves_out = True
        self.database.run("CREATE TABLE left_out (block BIGINT, row BIGINT, position BIGINT)")
        for number, rows, positions in copies:
            self.database.append("left_out", {"block": np.full(len(rows), number), "row": rows, "position": positions})
            for name in ("pairs", "updates"):
                folder = self._facts.with_name(name)
                file = facts_file(folder, number)
                if file.exists():
                    remaining = left_of(pq.read_table(file, partitioning=None), rows, positions)
                    keep(encode_table(remaining), folder, number)

    def _events(self) -> str:
        facts = files_in(self._facts)
        out = " ANTI JOIN left_out USING (block, row, position)" if self._leaves_out else ""
        return f"(SELECT block, row, position, person, distinct_id, time, flags FROM {facts} WHERE bytes > 0){out}"

    # -- ids ---------------------------------------------------------------------------------------------

    def add_pairs(self, observed: ObservedPairs, blocks: Iterable[tuple[int, int]]) -> None:
        """Add the pairs that rows show. `blocks` has the part of each block and the number of its first row there, from
        1."""
        self.database.run("CREATE TABLE blocks (block BIGINT, part BIGINT, first_row BIGINT)")
        self.database.insert("blocks", ((number, *block) for number, block in enumerate(blocks)))
        observed.add_rows(files_in(self._facts.with_name("pairs")))

    def add_event_ids(self, *, pairs: bool) -> None:
        """Make the table of the ids of events. `pairs`: pairs were added. Nothing can be left out afterwards."""
        self._find_further(pairs=pairs)
        events = (
            f'SELECT person, time, 1::BIGINT AS events, {_PLACE} AS place, (flags & {USER})::UINTEGER AS "user",'
            f" time AS last FROM {self._events()}"
        )
        events += f" UNION ALL SELECT person, {NEVER}, 0, place, flag::UINTEGER, -{NEVER} FROM further"
        add_event_ids(self.database, events)

    def _find_further(self, *, pairs: bool) -> None:
        """Fill the table `further` with the ids of events, pairs and profiles that went through floats, and with the
        users' ids that rows without an event name."""
        of = [f"SELECT distinct_id AS id, {_PLACE} AS place FROM {self._events()} WHERE flags & {FLOAT} <> 0"]
        if pairs:
            of += [f"SELECT {side}, place FROM paired" for side in ("anonymous", "owner")]
        self.database.run("CREATE TABLE further (person UBIGINT, flag BIGINT, place BIGINT)")
        if self.stated("updates"):
            updates = files_in(self._facts.with_name("updates"))
            of.append(f"SELECT owner, {NEVER} FROM {updates} WHERE kind <= {UNSET}")
            known = self.database.tuples(f"SELECT DISTINCT owner FROM {updates} WHERE kind = {KNOWN}")
            self.database.insert("further", ((hash_id(owner), USER, NEVER) for (owner,) in known))
        sql = f"SELECT id, min(place) AS place FROM ({' UNION ALL '.join(of)}) WHERE {_LIKE_FLOAT} GROUP BY id"
        self.database.insert("further", float_records(self.database.tuples(sql)))
        if pairs:
            self.database.drop("paired")

    # -- updates -----------------------------------------------------------------------------------------

    def person_updates(self, moves: OwnerLookup | None, *, promoted: bool) -> Iterator[pa.RecordBatch]:
        """The updates of persons that can count, ordered by owner, as `last_values.rows_by_owner` takes them.
        `moves` gives the owner that receives the properties; `promoted` adds those that events promote."""
        tables = [name for name in ("updates", "promoted" if promoted else "updates") if self.stated(name)]
        if not tables:
            return
        sources = dict.fromkeys(f"SELECT * FROM {files_in(self._facts.with_name(name))}" for name in tables)
        source = f"({' UNION ALL '.join(sources)}) WHERE kind <= {UNSET}"
        # Among values that are set once the first counts, unless a removal came in between.
        removes = self.database.number(f"SELECT 1 FROM {source} AND ({_REMOVES}) LIMIT 1")
        counting = _counting(source, one_by_one=f"CASE WHEN kind = {SET_ONCE} THEN {_MOMENT} END" if removes else "")
        if moves is None:
            yield from self.database.stream(f"{counting} ORDER BY owner, time, received")
            return
        self.database.run(f"CREATE OR REPLACE TABLE moved ({_COLUMNS})")
        for batch in self.database.stream(counting):
            owners = moves(batch.column("owner").to_pylist())
            columns = {name: batch.column(name) for name in batch.schema.names}
            self.database.append("moved", columns | {"owner": texts(owners)})
        yield from self.database.stream("SELECT * FROM moved ORDER BY owner, time, received")
        self.database.drop("moved")

    def groups(self) -> StatedGroups:
        """The updates of groups."""
        return StatedGroups(self.database, self._facts.with_name("updates") if self.stated("updates") else None)


class StatedGroups:
    """The updates of groups in a folder of updates. `types` counts, by type, the rows that name a group."""

    def __init__(self, database: Database, updates: Path | None) -> None:
        self._database = database
        self.types: Counter[str] = Counter()
        database.run(f"CREATE TABLE named_groups ({_COLUMNS})")
        if updates is not None:
            source = files_in(updates)
            database.run("CREATE TABLE found_groups (owner VARCHAR, time BIGINT)")
            database.insert("found_groups", self._named_by_events(source))
            database.run(
                f"INSERT INTO named_groups SELECT owner, {GROUP}, time, {ABSENT}, '{{}}'::BLOB, time FROM found_groups"
            )
            database.drop("found_groups")
            database.run(f"INSERT INTO named_groups {_counting(f'{source} WHERE kind = {GROUP}')}")
            separated = f"split_part(owner, chr({ord(SEPARATOR)}), 1)"
            counts = f"SELECT {separated}, count(*) FROM {source} WHERE kind = {GROUP} GROUP BY 1 ORDER BY 1"
            self.types.update(dict(database.rows(counts)))
        database.run("CREATE TABLE groups AS SELECT * FROM named_groups ORDER BY owner, time, received")
        database.drop("named_groups")

    def _named_by_events(self, source: str) -> Iterator[tuple[str, int]]:
        """The groups that events name in `$groups`, each with the last time; `types` counts them."""
        sql = f"SELECT value, count(*) AS events, max(time) AS time FROM {source} WHERE kind = {GROUPS} GROUP BY value"
        for text, events, time in self._database.tuples(f"{sql} ORDER BY value"):
            for type_, key in groups_named(text):
                self.types[type_] += events
                yield f"{type_}{SEPARATOR}{key}", time

    def by_owner(self, among: tuple[str, str]) -> Generator[tuple[str, list[Row]], None, None]:
        """The sorted rows of each group, from the first key up to, but not including, the second."""
        sql = f"SELECT * FROM groups WHERE {_between(among)} ORDER BY owner"
        yield from rows_by_owner(self._database.stream(sql))

    def owners(self, among: tuple[str, str]) -> int:
        """How many groups lie between the two."""
        return self._database.number(f"SELECT count(DISTINCT owner) FROM groups WHERE {_between(among)}")


def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The batches, which are ordered by owner, in pieces of about PIECE_BYTES; a piece has all updates of each of its
    owners."""
    some: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        owners = batch.column("owner")
        last = bisect_left(range(len(owners)), owners[-1].as_py(), key=lambda place: owners[place].as_py())
        begins = bool(some) and some[-1].column("owner")[-1].as_py() != owners[0].as_py()
        if begins and size > PIECE_BYTES:
            yield some
            some, size = [], 0
        if last and size + batch.nbytes > PIECE_BYTES:
            yield [*some, batch.slice(0, last)]
            some, size = [], 0
            batch = batch.slice(last)
        some.append(batch)
        size += batch.nbytes
    if some:
        yield some


def _counting(source: str, one_by_one: str = "") -> str:
    """The update that counts among equal ones of one owner in `source`: the first if it is set once, else
    the last. Updates with different values of `one_by_one` are not equal."""
    first = f"kind IN ({SET_ONCE}, {SHOWN_ONCE})"
    return (
        f"SELECT owner, kind::INTEGER AS kind, (moment // {1 << 64}::HUGEINT - {_HALF})::BIGINT AS time,"
        f" (moment % {1 << 64}::HUGEINT - {_HALF})::BIGINT AS received, value, latest FROM ("
        f"SELECT owner, kind, value, max(time) AS latest,"
        f" CASE WHEN {first} THEN min({_MOMENT}) ELSE max({_MOMENT}) END AS moment"
        f" FROM {source} GROUP BY owner, kind, value{', ' + one_by_one if one_by_one else ''})"
    )


def _between(among: tuple[str, str]) -> str:
    first, end = (f"decode(from_hex('{text.encode().hex()}'))" for text in among)  # an id may have any character
    return f"owner >= {first} AND owner < {end}"
