"""What all windows of a job settled and showed: uuids, ids and groups, each a class that a plan asks.

They are tables of SQLite, so memory does not grow with them (docs/know/promises.md#constant-memory), and a window is
recorded and indexed in one transaction. Lost tables are rebuilt from the plans (`pipeline.plan.window_index`).
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import count, islice, repeat
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.identity.event_ids import SIGHTING
from pipeline.identity.groups import GroupState
from pipeline.identity.numbering import hashes
from pipeline.jobs.database import translated_errors
from pipeline.plan.settled import Found
from pipeline.plan.window_index import WindowIndex, WindowPair
from pipeline.uuids import SEPARATOR

INDEXES = (
    "create table settled (uuid blob primary key, content integer not null, person integer not null, cell integer not"
    " null, attempt integer not null) without rowid",
    "create table ids (hash integer primary key, first integer not null, user integer not null)",
    "create table pairs (one integer not null, other integer not null, anonymous text not null, owner text not null,"
    " kinds integer not null, first integer not null, owed integer not null,"
    " primary key (one, other, anonymous, owner)) without rowid",
    "create index pairs_by_owner on pairs (other)",
    "create index pairs_owed on pairs (one) where owed",
    "create table groups (owner text primary key, state blob not null) without rowid",
    "create table group_types (number integer primary key, type text not null unique)",
)
"""The tables. `hash` is the signed xxh3-64 of an id, `one` that of `anonymous`, `other` that of `owner`; `owed` marks
pairs whose merge was held back."""
AT_ONCE = 50_000
_DIRECTIONS = (("one", "other"), ("other", "one"))


class _Index:
    """`schemas` are the databases that have the tables, the latest first; `temporary` are tables for a question."""

    temporary: tuple[str, ...] = ()

    def __init__(self, path: Path, database: sqlite3.Connection, schemas: Sequence[str]) -> None:
        self._path = path
        self._database = database
        self._schemas = schemas
        for statement in self.temporary:
            database.execute(statement)


# -- uuids ---------------------------------------------------------------------------------------------


class SettledIndex(_Index):
    """All uuids that a job's windows settled. An event in it is never sent again (`pipeline.plan.settled.Settled`)."""

    temporary = ("create temp table requested (number integer primary key, uuid blob not null)",)

    def find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64], ordinals: NDArray[np.uint32] | None = None) -> Found:
        """Which of these uuids are settled.

        Windows cannot number copies together, so all copies of a row are settled once one is.
        """
        settled, values = np.zeros(len(hi), bool), np.zeros((3, len(hi)), np.uint64)
        with translated_errors(self._path), self._database:
            tables = [f"{schema}.settled" for schema in self._schemas]
            filled = [table for table in tables if self._database.execute(f"select 1 from {table} limit 1").fetchone()]
            if not filled:
                return Found(settled, *values[:, settled])
            self._database.execute("begin")
            self._database.executemany("insert into requested values (?, ?)", enumerate(_uuid_bytes(hi, lo)))
            for table in filled:
                rows = self._database.execute(
                    f"select number, content, person, cell from requested cross join {table} as settled"
                    " where settled.uuid = requested.uuid"
                ).fetchall()
                known = np.array(rows, np.int64).reshape(-1, 4).T
                settled[known[0]] = True
                values[:, known[0]] = known[1:].view(np.uint64)
            self._database.execute("delete from requested")
        return Found(settled, *values[:, settled])

    def add(self, chunks: Iterable[NDArray[np.void]], attempt: int) -> int:
        """Add SENT records (`pipeline.plan.settled_facts`) inside the caller's transaction. Returns how many were new.

        `attempt` 0 is a plan from before the job.
        """
        before = self._database.total_changes
        for chunk in chunks:
            hi, lo = chunk["hi"].astype(np.uint64), chunk["lo"].astype(np.uint64)
            order = np.lexsort((lo, hi))  # neighbours share a page of the table
            values = (chunk[name][order].view(np.int64).tolist() for name in ("content", "person", "cell"))
            self._database.executemany(
                "insert or ignore into main.settled values (?, ?, ?, ?, ?)",
                zip(_uuid_bytes(hi[order], lo[order]), *values, repeat(attempt)),
            )
        return self._database.total_changes - before


def digest_uuids(database: sqlite3.Connection) -> tuple[int, str]:
    """How many uuids the job settled, and the sha256 over their 16 bytes each, in order."""
    digest, count = hashlib.sha256(), 0
    for (uuid,) in database.execute("select uuid from settled where attempt > 0 order by uuid"):
        digest.update(uuid)
        count += 1
    return count, digest.hexdigest()


def _uuid_bytes(hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> list[bytes]:
    """The 16 bytes of each uuid."""
    content = np.stack((hi, lo), axis=1).astype(">u8").tobytes()
    return [content[start : start + 16] for start in range(0, len(content), 16)]


# -- ids -----------------------------------------------------------------------------------------------


class StoredIdentities(_Index):
    """When each id of a job's windows first had an event, and which ids rows paired
    (`pipeline.plan.window_index.IdentityIndex`).

    A merge depends on all windows: a device that is alone in one may be paired with its user in the next. A window asks
    only for its own ids and those to which pairs lead from there, so it never reads the whole history.
    """

    temporary = (
        "create temp table requested_ids (hash integer primary key)",
        "create temp table reached (hash integer primary key, step integer not null)",
        "create index temp.reached_at on reached (step)",
    )

    def sightings(self, ids: NDArray[np.uint64]) -> Iterator[NDArray[np.void]]:
        """SIGHTING records of these ids; an id in several databases has several."""
        for start in range(0, len(ids), AT_ONCE):
            rows: list[tuple[int, int, int]] = []
            with translated_errors(self._path):
                self._request(ids[start : start + AT_ONCE])
                for schema in self._schemas:
                    rows += self._database.execute(
                        f"select hash, first, user from requested_ids cross join {schema}.ids using (hash)"
                    )
            chunk = np.zeros(len(rows), SIGHTING)
            if rows:
                person, time, user = (np.array(column, np.int64) for column in zip(*rows, strict=True))
                chunk["person"], chunk["time"], chunk["user"] = person.view(np.uint64), time, user
            yield chunk

    def pairs(self, ids: Iterable[NDArray[np.uint64]], *, pending_merges: bool) -> Iterator[WindowPair]:
        """Every pair that a path of pairs connects to one of these ids; `pending_merges` adds pairs that were held
        back."""
        with translated_errors(self._path):
            self._fill_reached(ids, pending_merges=pending_merges)
            for schema in self._schemas:
                rows = self._database.execute(
                    f"select anonymous, owner, kinds, first from reached cross join {schema}.pairs on one = hash"
                )
                yield from (WindowPair(*row) for row in rows)
            self._database.execute("delete from reached")

    def _fill_reached(self, ids: Iterable[NDArray[np.uint64]], *, pending_merges: bool = False) -> None:
        """Fill the table `reached` with the ids of pairs that a path of pairs connects to one of these ids."""
        self._database.execute("delete from reached")
        for some in ids:
            for start in range(0, len(some), AT_ONCE):
                self._request(some[start : start + AT_ONCE])
                for side, _ in _DIRECTIONS:
                    self._reach(f"select hash, 0 from requested_ids cross join {{}}.pairs on {side} = hash")
        if pending_merges:
            self._reach("select one, 0 from {}.pairs where owed")
        for step in count():
            queries = (
                f"select {far}, {step + 1} from reached cross join {{}}.pairs on {near} = reached.hash"
                f" where step = {step}"
                for near, far in _DIRECTIONS
            )
            if not sum(map(self._reach, queries)):
                break

    def _request(self, ids: NDArray[np.uint64]) -> None:
        """Fill the table `requested_ids`, inside the caller's transaction if there is one."""
        with nullcontext() if self._database.in_transaction else self._database:
            if not self._database.in_transaction:
                self._database.execute("begin")
            self._database.execute("delete from requested_ids")
            self._database.executemany("insert or ignore into requested_ids values (?)", ((id,) for id in _signed(ids)))

    def _reach(self, query: str) -> int:
        """Add the ids that a query over the pairs of each database selects. Returns how many were new."""
        before = self._database.total_changes
        for schema in self._schemas:
            self._database.execute(f"insert or ignore into reached {query.format(schema)}")
        return self._database.total_changes - before

    def add(self, index: WindowIndex) -> None:
        """Add the ids and pairs of a plan, inside the caller's transaction."""
        for chunk in index.sightings():
            users = (chunk["user"] != 0).tolist()
            self._database.executemany(
                "insert into main.ids values (?, ?, ?) on conflict (hash) do update"
                " set first = min(first, excluded.first), user = max(user, excluded.user)",
                zip(_signed(chunk["person"]), chunk["time"].tolist(), users, strict=True),
            )
        if index.sent_merges:
            self._database.execute("update main.pairs set owed = 0 where owed")
        pairs = index.pairs()
        while some := list(islice(pairs, AT_ONCE)):
            anonymous = _signed(hashes(pair.anonymous for pair in some))
            users = _signed(hashes(pair.user for pair in some))
            self._database.executemany(
                "insert into main.pairs values (?, ?, ?, ?, ?, ?, ?) on conflict (one, other, anonymous, owner)"
                " do update set kinds = kinds | excluded.kinds, first = min(first, excluded.first)",
                # Sorted, because neighbours share a page of the table.
                ((*ids, *pair, False) for *ids, pair in sorted(zip(anonymous, users, some, strict=True))),
            )
        if index.pending_merges:  # a merge may concern a pair of an earlier plan, which needed none then
            self._fill_reached(index.ids())
            self._database.execute("update main.pairs set owed = 1 where one in (select hash from reached)")
            self._database.execute("delete from reached")


def _signed(hashed: NDArray[np.uint64]) -> list[int]:
    signed: list[int] = np.ascontiguousarray(hashed).view(np.int64).tolist()
    return signed


# -- groups --------------------------------------------------------------------------------------------


class StoredGroups(_Index):
    """The groups that a job's windows showed, with their last values, and the group types in the order of their numbers
    (`pipeline.plan.series`).

    Windows run in any order, so the last value of a property is decided over all of them.
    """

    def find(self, owner: str) -> GroupState | None:
        """A group by its type and key, joined by SEPARATOR."""
        for schema in self._schemas:
            for (state,) in self._database.execute(f"select state from {schema}.groups where owner = ?", (owner,)):
                return msgspec.json.decode(state, type=GroupState)
        return None

    def types(self) -> list[str]:
        """The group types of all windows, in the order in which they were sent."""
        types: dict[str, None] = {}
        for schema in reversed(self._schemas):
            rows = self._database.execute(f"select type from {schema}.group_types order by number")
            types |= dict.fromkeys(type_ for (type_,) in rows)
        return [*types]

    def is_latest(self, type_: str, key: str, uuid: str) -> bool:
        """Whether no window updated a group after the update with this uuid."""
        group = self.find(type_ + SEPARATOR + key)
        return group is None or group.uuid == uuid

    def add(self, index: WindowIndex) -> None:
        """Add the groups of a plan, and their types, inside the caller's transaction."""
        groups = ((group.owner, msgspec.json.encode(group)) for group in index.groups())
        self._database.executemany("insert or replace into main.groups values (?, ?)", groups)
        known = self.types()
        named = ((one,) for one in index.group_types if one not in known)
        self._database.executemany("insert into main.group_types (type) values (?)", named)
