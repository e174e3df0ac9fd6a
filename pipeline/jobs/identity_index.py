"""What a job's windows saw of ids: who had events when, and which ids stood beside which.

A merge leans on all windows: a device that is alone in one may stand beside its user in the next. A window asks only
for the ids that it meets and those that pairs lead to from there, so it never reads the whole history. What the
tables hold is made again from the plans where it is lost (`pipeline.plan.window_index`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.numbering import hashes
from pipeline.jobs.sqlite_errors import translated_errors
from pipeline.plan.window_index import SIGHTING, WindowIndex, WindowPair

SCHEMA = (
    "create table ids (hash integer primary key, first integer not null, user integer not null)",
    "create table pairs (one integer not null, other integer not null, anonymous text not null, owner text not null,"
    " kinds integer not null, first integer not null, owed integer not null,"
    " primary key (one, other, anonymous, owner)) without rowid",
    "create index pairs_by_owner on pairs (other)",
    "create index pairs_owed on pairs (one) where owed",
)
"""`hash`, `one` and `other` are xxh3-64 of ids, signed; `owed` marks pairs whose merge was held back."""
AT_ONCE = 50_000
_BOTH_WAYS = (("one", "other"), ("other", "one"))


class KnownIds:
    """Asked by plans (`pipeline.plan.window_index.IdentityIndex`). `schemas` are the databases that hold the tables."""

    def __init__(self, path: Path, database: sqlite3.Connection, schemas: Sequence[str] = ("main",)) -> None:
        self._path = path
        self._database = database
        self._schemas = schemas
        database.execute("create temp table met (hash integer primary key)")
        database.execute("create temp table reached (hash integer primary key, step integer not null)")
        database.execute("create index temp.reached_at on reached (step)")

    def sightings(self, ids: NDArray[np.uint64]) -> Iterator[NDArray[np.void]]:
        """SIGHTING records of these ids; one that several databases know comes several times."""
        for start in range(0, len(ids), AT_ONCE):
            found = self._sighted(ids[start : start + AT_ONCE])
            chunk = np.zeros(len(found), SIGHTING)
            if found:
                person, time, user = (np.array(column, np.int64) for column in zip(*found, strict=True))
                chunk["person"], chunk["time"], chunk["user"] = person.view(np.uint64), time, user
            yield chunk

    def _sighted(self, ids: NDArray[np.uint64]) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        with translated_errors(self._path):
            self._meet(ids)
            for schema in self._schemas:
                found += self._database.execute(
                    f"select hash, first, user from met cross join {schema}.ids using (hash)"
                )
        return found

    def pairs(self, met: Iterable[NDArray[np.uint64]], *, pending_merges: bool) -> Iterator[WindowPair]:
        """Every pair that some path of pairs joins to one of these ids; with `pending_merges` those held back, too."""
        with translated_errors(self._path):
            self._database.execute("delete from reached")
            for ids in met:
                for start in range(0, len(ids), AT_ONCE):
                    self._meet(ids[start : start + AT_ONCE])
                    for here, _ in _BOTH_WAYS:
                        self._reach(f"select hash, 0 from met cross join {{}}.pairs on {here} = hash")
            if pending_merges:
                self._reach("select one, 0 from {}.pairs where owed")
            for step in count():
                ways = (
                    f"select {there}, {step + 1} from reached cross join {{}}.pairs on {here} = reached.hash"
                    f" where step = {step}"
                    for here, there in _BOTH_WAYS
                )
                if not sum(map(self._reach, ways)):
                    break
            for schema in self._schemas:
                rows = self._database.execute(
                    f"select anonymous, owner, kinds, first from reached cross join {schema}.pairs on one = hash"
                )
                while some := rows.fetchmany(AT_ONCE):
                    yield from (WindowPair(*row) for row in some)
            self._database.execute("delete from reached")

    def _reach(self, sql: str) -> int:
        """Add what a query over the pairs of each database finds; how many ids were new."""
        before = self._database.total_changes
        for schema in self._schemas:
            self._database.execute(f"insert or ignore into reached {sql.format(schema)}")
        return self._database.total_changes - before

    def _meet(self, ids: NDArray[np.uint64]) -> None:
        self._database.execute("delete from met")
        self._database.execute("begin")
        self._database.executemany("insert or ignore into met values (?)", ((one,) for one in _signed(ids)))
        self._database.execute("commit")

    def add(self, seen: WindowIndex) -> None:
        """Add what a plan saw, inside the caller's transaction."""
        for chunk in seen.sightings():
            users = (chunk["user"] != 0).tolist()
            self._database.executemany(
                "insert into main.ids values (?, ?, ?) on conflict (hash) do update"
                " set first = min(first, excluded.first), user = max(user, excluded.user)",
                zip(_signed(chunk["person"]), chunk["time"].tolist(), users, strict=True),
            )
        if seen.sent_merges:
            self._database.execute("update main.pairs set owed = 0 where owed")
        pairs = seen.pairs()
        while some := list(islice(pairs, AT_ONCE)):
            one, other = _signed(hashes(pair.anonymous for pair in some)), _signed(hashes(pair.user for pair in some))
            self._database.executemany(
                "insert into main.pairs values (?, ?, ?, ?, ?, ?, ?) on conflict (one, other, anonymous, owner)"
                " do update set kinds = kinds | excluded.kinds, first = min(first, excluded.first),"
                " owed = max(owed, excluded.owed)",
                # Sorted, because neighbours lie on one page.
                ((*both, *pair, seen.pending_merges) for *both, pair in sorted(zip(one, other, some, strict=True))),
            )


def _signed(hashed: NDArray[np.uint64]) -> list[int]:
    found: list[int] = np.ascontiguousarray(hashed).view(np.int64).tolist()
    return found
