"""One index of the uuids that a job's windows settled: what is in it is never sent again.

A table of SQLite, so memory does not grow with it (docs/know/promises.md#constant-memory), and a window is recorded and
indexed in one step.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.jobs.sqlite_errors import translated_errors

SCHEMA = (
    "create table settled (uuid blob primary key, content integer not null, attempt integer not null) without rowid",
)
UUID_BYTES = 16


class SettledIndex:
    """Asked by plans (`pipeline.plan.duplicates.Settled`). `schemas` are the databases that hold the table."""

    def __init__(self, path: Path, database: sqlite3.Connection, schemas: Sequence[str] = ("main",)) -> None:
        self._path = path
        self._database = database
        self._tables = [f"{schema}.settled" for schema in schemas]
        database.execute("create temp table asked (number integer primary key, uuid blob not null)")

    def find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Which of these uuids are settled, and the first half of the content digest that each was sent with."""
        known, content = np.zeros(len(hi), bool), np.zeros(len(hi), np.uint64)
        with translated_errors(self._path):
            tables = [one for one in self._tables if self._database.execute(f"select 1 from {one} limit 1").fetchone()]
            if tables and len(hi):
                self._database.execute("begin")
                self._database.executemany("insert into asked values (?, ?)", enumerate(_texts(hi, lo)))
                for table in tables:
                    found = self._database.execute(
                        f"select number, content from asked cross join {table} as known where known.uuid = asked.uuid"
                    ).fetchall()
                    numbers = [number for number, _ in found]
                    known[numbers] = True
                    content[numbers] = np.array([digest for _, digest in found], np.int64).view(np.uint64)
                self._database.execute("delete from asked")
                self._database.execute("commit")
        return known, content

    def add(self, chunks: Iterable[NDArray[np.void]], attempt: int) -> int:
        """Add SENT records (`pipeline.plan.event_uuids`) inside the caller's transaction. Gives how many were new."""
        before = self._database.total_changes
        for chunk in chunks:
            hi, lo = chunk["hi"].astype(np.uint64), chunk["lo"].astype(np.uint64)
            order = np.lexsort((lo, hi))  # neighbours lie on one page
            digests = chunk["content"][order].view(np.int64).tolist()
            self._database.executemany(
                "insert or ignore into main.settled values (?, ?, ?)",
                ((uuid, digest, attempt) for uuid, digest in zip(_texts(hi[order], lo[order]), digests, strict=True)),
            )
        return self._database.total_changes - before


def _texts(hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> list[bytes]:
    """The 16 bytes of each uuid."""
    text = np.stack((hi, lo), axis=1).astype(">u8").tobytes()
    return [text[place : place + UUID_BYTES] for place in range(0, len(text), UUID_BYTES)]
