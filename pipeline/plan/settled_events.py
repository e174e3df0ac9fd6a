"""The events that another plan settled, as a plan asks for them: sorted on disk, and searched where they lie.

Every event is one entry: its uuid, and for an event without a source key the number of its copy, since such copies have
uuids of their own (`pipeline.plan.duplicates`). Memory does not grow with the entries
(docs/know/promises.md#constant-memory): the columns are mapped files.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.plan.duplicates import Found
from pipeline.plan.key_records import KeyRecords, chunks_of

ENTRY = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("content", "<u8"), ("block", "<i4"), ("row", "<u4")])
"""`lo` is mixed with the copy's number (`mixed`); `content` is the first half of the content digest; `row` is where it
was read in `block`, both from 0, and `block` is -1 for a merge, a group or a profile."""
NO_BLOCK = -1
_COLUMNS = {"hi": np.uint64, "lo": np.uint64, "content": np.uint64, "block": np.int32, "row": np.uint32}


def mixed(lo: NDArray[np.uint64], ordinals: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The second half of a uuid with the number of a copy in it; that of the first copy, 0, stays as it is."""
    return lo ^ (ordinals.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


class SettledEvents:
    """What a plan asks for (`pipeline.plan.duplicates.Settled`). Entries are added, `finish` is called, then they are
    found; those of events that were found are remembered."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._entries = KeyRecords(directory / "entries", record=ENTRY)
        self._columns: dict[str, NDArray[np.generic]] = {}
        self._found: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.events = 0

    def add(self, entries: NDArray[np.void]) -> None:
        """Add some ENTRY records."""
        self.events += int((entries["block"] != NO_BLOCK).sum())
        self._entries.add(entries.take(np.argsort(entries["hi"], kind="stable")))

    def finish(self) -> None:
        """Sort all entries."""
        files = {name: (self._directory / name).open("wb") for name in _COLUMNS}
        for run in self._entries.runs():
            for some in [run] if not isinstance(run, Path) else chunks_of(run, self._entries.most, ENTRY):
                ordered = some.take(np.lexsort((some["lo"], some["hi"])))
                for name, file in files.items():
                    np.ascontiguousarray(ordered[name]).tofile(file)
        for file in files.values():
            file.close()
        self._entries.remove()
        if self._entries.count:
            self._columns = {
                name: np.memmap(self._directory / name, kind, "r") for name, kind in _COLUMNS.items()
            }  # fmt: skip
            self._found = np.memmap(self._directory / "found", np.uint8, "w+", shape=(self._entries.count,))

    def close(self) -> None:
        """Release the files, and delete them."""
        self._columns, self._found = {}, np.zeros(0, np.uint8)
        shutil.rmtree(self._directory, ignore_errors=True)

    def find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64], ordinals: NDArray[np.uint32] | None = None) -> Found:
        """Which of these uuids are settled."""
        settled = np.zeros(len(hi), bool)
        if not self._columns or not len(hi):
            return Found(settled, np.zeros(0, np.uint64))
        wanted = lo if ordinals is None else mixed(lo, ordinals)
        first = np.searchsorted(self._columns["hi"], hi)
        last = np.searchsorted(self._columns["hi"], hi, side="right")
        at = first.copy()
        for one in np.flatnonzero(last - first > 1).tolist():  # uuids that begin alike, as those of one millisecond
            at[one] += np.searchsorted(self._columns["lo"][first[one] : last[one]], wanted[one])
        some = np.flatnonzero(at < last)
        some = some[self._columns["lo"][at[some]] == wanted[some]]
        settled[some] = True
        self._found[at[some]] = 1
        return Found(settled, np.asarray(self._columns["content"][at[some]], np.uint64))

    def not_found(self, most: int) -> tuple[int, list[tuple[int, int]]]:
        """How many events were not found, and the (block, row) of the first of them, in their order."""
        count = 0
        places: list[tuple[int, int]] = []
        for start in range(0, len(self._found), 1 << 20):
            stop = start + (1 << 20)
            blocks = np.asarray(self._columns["block"][start:stop])
            missing = np.flatnonzero((self._found[start:stop] == 0) & (blocks != NO_BLOCK))
            count += len(missing)
            rows = np.asarray(self._columns["row"][start:stop])
            places = sorted([*places, *zip(blocks[missing].tolist(), rows[missing].tolist(), strict=True)])[:most]
        return count, places
