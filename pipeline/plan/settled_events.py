"""The events that another plan settled, sorted on disk and searched there.

Each event is one entry: its uuid and, for an event without a source key, the number of its copy, since such copies have
uuids of their own (`pipeline.plan.duplicates`). Memory does not grow with the entries
(docs/know/promises.md#constant-memory): the columns are memory-mapped files.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.database import Database, numbers_of
from pipeline.plan.settled import Found

NO_PART = -1
"""The `part` of a merge, a group or a profile."""
ENTRIES = "CREATE TABLE entries (hi UBIGINT, lo UBIGINT, content UBIGINT, part BIGINT, row BIGINT)"
"""`lo` is mixed with the copy's number; `content` is the first half of the content digest; `row`, from 1, is its row in
the file `part`."""
_COLUMNS = {"hi": np.uint64, "lo": np.uint64, "content": np.uint64, "part": np.int64, "row": np.int64}
_ODD = 0x9E3779B97F4A7C15
ENTRY = (
    f"coalesce(key_hi, hi), xor(coalesce(key_lo, lo), (ordinal * {_ODD}::UHUGEINT % {1 << 64}::UHUGEINT)::UBIGINT),"
    " content_hi, part, row"
)
"""The columns of an entry that comes from a fact."""


def _mixed(lo: NDArray[np.uint64], ordinals: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The second half of a uuid with the copy's number mixed in; the first copy, 0, keeps it unchanged."""
    return lo ^ (ordinals.astype(np.uint64) * np.uint64(_ODD))


class SettledEvents:
    """Settled events (`pipeline.plan.settled.Settled`). It remembers which of them were found."""

    def __init__(self, directory: Path, database: Database) -> None:
        """Sort the table `entries` of a database into files of a directory."""
        self._directory = directory
        self._columns: dict[str, NDArray[np.generic]] = {}
        self._found: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.events = database.number(f"SELECT count(*) FROM entries WHERE part != {NO_PART}")
        files = {name: (directory / name).open("wb") for name in _COLUMNS}
        for batch in database.stream("SELECT * FROM entries ORDER BY hi, lo"):
            for name, file in files.items():
                numbers_of(batch, name).tofile(file)
        for file in files.values():
            file.close()
        if count := database.number("SELECT count(*) FROM entries"):
            self._columns = {name: np.memmap(directory / name, kind, "r") for name, kind in _COLUMNS.items()}
            self._found = np.memmap(directory / "found", np.uint8, "w+", shape=(count,))

    def close(self) -> None:
        """Close and delete the files."""
        self._columns, self._found = {}, np.zeros(0, np.uint8)
        shutil.rmtree(self._directory, ignore_errors=True)

    def find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64], ordinals: NDArray[np.uint32] | None = None) -> Found:
        """Which of these uuids are settled."""
        settled = np.zeros(len(hi), bool)
        if not self._columns or not len(hi):
            return Found(settled, np.zeros(0, np.uint64))
        wanted = lo if ordinals is None else _mixed(lo, ordinals)
        first = np.searchsorted(self._columns["hi"], hi)
        last = np.searchsorted(self._columns["hi"], hi, side="right")
        at = first.copy()
        for one in np.flatnonzero(
            last - first > 1
        ).tolist():  # uuids that begin alike, such as those of one millisecond
            at[one] += np.searchsorted(self._columns["lo"][first[one] : last[one]], wanted[one])
        some = np.flatnonzero(at < last)
        some = some[self._columns["lo"][at[some]] == wanted[some]]
        settled[some] = True
        self._found[at[some]] = 1
        return Found(settled, np.asarray(self._columns["content"][at[some]], np.uint64))

    def not_found(self, most: int) -> tuple[int, list[tuple[int, int]]]:
        """How many events were not found, and the (part, row) of the first of them, in order."""
        count = 0
        places: list[tuple[int, int]] = []
        for start in range(0, len(self._found), 1 << 20):
            stop = start + (1 << 20)
            parts = np.asarray(self._columns["part"][start:stop])
            missing = np.flatnonzero((self._found[start:stop] == 0) & (parts != NO_PART))
            count += len(missing)
            rows = np.asarray(self._columns["row"][start:stop])
            places = sorted([*places, *zip(parts[missing].tolist(), rows[missing].tolist(), strict=True)])[:most]
        return count, places
