"""The index of ids in a job's windows: when each first had an event, and which ids rows paired.

A merge depends on all windows: a device that is alone in one may be paired with its user in the next. A window asks
only for its own ids and those to which pairs lead from there, so it never reads the whole history. Lost tables are
rebuilt from the plans (`pipeline.plan.window_index`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import count, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.event_ids import SIGHTING
from pipeline.identity.numbering import hashes
from pipeline.jobs.database import translated_errors
from pipeline.plan.window_index import WindowIndex, WindowPair

SCHEMA = (
    "create table ids (hash integer primary key, first integer not null, user integer not null)",
    "create table pairs (one integer not null, other integer not null, anonymous text not null, owner text not null,"
    " kinds integer not null, first integer not null, owed integer not null,"
    " primary key (one, other, anonymous, owner)) without rowid",
    "create index pairs_by_owner on pairs (other)",
    "create index pairs_owed on pairs (one) where owed",
)
"""`hash` is the signed xxh3-64 of an id, `one` that of `anonymous`, `other` that of `owner`; `owed` marks pairs whose
merge was held back."""
AT_ONCE = 50_000
_DIRECTIONS = (("one", "other"), ("other", "one"))


class StoredIdentities:
    """What a plan asks (`pipeline.plan.window_index.IdentityIndex`). `schemas` are the databases that have the
    tables."""

    def __init__(self, path: Path, database: sqlite3.Connection, schemas: Sequence[str]) -> None:
        self._path = path
        self._database = database
        self._schemas = schemas
        database.execute("create temp table requested_ids (hash integer primary key)")
        database.execute("create temp table reached (hash integer primary key, step integer not null)")
        database.execute("create index temp.reached_at on reached (step)")

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
