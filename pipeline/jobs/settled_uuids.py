"""The index of all uuids that a job's windows settled. An event in it is never sent again.

It is a table of SQLite, so memory does not grow with it (docs/know/promises.md#constant-memory), and a window is
recorded and indexed in one transaction.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.jobs.database import translated_errors
from pipeline.plan.settled import Found

SCHEMA = (
    "create table settled (uuid blob primary key, content integer not null, person integer not null, cell integer not"
    " null, attempt integer not null) without rowid",
)


class SettledIndex:
    """What a plan asks (`pipeline.plan.settled.Settled`). `schemas` are the databases that have the table."""

    def __init__(self, path: Path, database: sqlite3.Connection, schemas: Sequence[str]) -> None:
        self._path = path
        self._database = database
        self._schemas = schemas
        database.execute("create temp table requested (number integer primary key, uuid blob not null)")

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
