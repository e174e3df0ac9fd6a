"""What a plan decides about duplicates: records on disk, read in the order of blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.plan.key_records import MAX_RECORDS
from pipeline.timestamps import DAY
from pipeline.transform.event_keys import NAME
from pipeline.transform.tasks import DuplicateDecision

BUCKET_BLOCKS = 64
"""Decisions are written to files of this many blocks, each small enough to sort in memory."""

DECISION = np.dtype(
    [("block", "<u4"), ("row", "<u4"), ("position", "<u2"), ("row_events", "<u2"), ("kind", "<u4"), ("ordinal", "<u4")]
)
DUPLICATE, SUPERSEDED, ORDINAL, SETTLED = range(4)
"""The kinds of decisions: an event is left out for one of three reasons, or sent with its ordinal."""
ALREADY_SETTLED = "already_settled"
NO_EVENT = (1 << 32) - 1
"""The ordinal of a row without an event."""
CHANGED = 1
"""The ordinal of an event with a key that an earlier plan of the series settled with another content."""
CODES = {DUPLICATE: "duplicate_event", SUPERSEDED: "superseded", SETTLED: ALREADY_SETTLED}

REMAINING = np.dtype([
    ("block", "<u4"), ("row", "<u4"), ("position", "<u2"), ("hi", "<u8"), ("lo", "<u8"), ("content", "<u8"),
    ("person", "<u8"), ("cell", "<u8"),
])  # fmt: skip
"""An event that is sent: its block and row, its uuid, the first half of its content digest, `person` (KEY), and a hash
of its name and day (`cells_of`)."""
_ODD = 0x9E3779B97F4A7C15


def remaining_of(sent: NDArray[np.void], names: NDArray[np.uint64]) -> NDArray[np.void]:
    """The REMAINING records of key records of events that are sent. `names` are hashes of the event names."""
    remaining = np.empty(len(sent), REMAINING)
    for name in ("block", "row", "position", "hi", "lo", "person"):
        remaining[name] = sent[name]
    remaining["content"], remaining["cell"] = sent["content_hi"], cells_of(sent, names)
    return remaining


def hashes_of(names: Iterable[str]) -> NDArray[np.uint64]:
    """A hash of each event name, the same on every machine."""
    hashed = (xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass")) for name in names)
    return np.fromiter(hashed, np.uint64)


def cells_of(records: NDArray[np.void], names: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of the event name and the UTC day of each key record."""
    days = (records["time"] // DAY).astype(np.int64).view(np.uint64)
    cells: NDArray[np.uint64] = names[records["name"] & NAME] ^ (days * np.uint64(_ODD))
    return cells


class Decisions:
    """Records of decisions on duplicates (DECISION) or of events to send (REMAINING), on disk until read in block
    order."""

    def __init__(
        self,
        directory: Path,
        most: int = MAX_RECORDS,
        bucket_blocks: int = BUCKET_BLOCKS,
        record: np.dtype[np.void] = DECISION,
    ) -> None:
        self._record = record
        self._directory = directory
        self._most = most
        self._bucket_blocks = bucket_blocks
        self._directory.mkdir(parents=True)
        self._pending: dict[int, list[NDArray[np.void]]] = {}
        self._pending_count = 0
        self.count = 0

    def add(self, decided: NDArray[np.void]) -> None:
        self.count += len(decided)
        buckets = decided["block"] // self._bucket_blocks
        for bucket in np.flatnonzero(np.bincount(buckets)).tolist():  # `unique` would load numpy.ma
            self._pending.setdefault(bucket, []).append(decided[buckets == bucket])
        self._pending_count += len(decided)
        if self._pending_count > self._most:
            self._flush()

    def _flush(self) -> None:
        for bucket, arrays in self._pending.items():
            with (self._directory / f"{bucket:010d}").open("ab") as file:
                for array in arrays:
                    array.tofile(file)
        self._pending.clear()
        self._pending_count = 0

    def by_block(self) -> Iterator[tuple[int, NDArray[np.void]]]:
        """Each block that has records, ascending, with them in row order."""
        self._flush()
        for path in sorted(self._directory.iterdir()):
            records = np.fromfile(path, self._record)
            records = records.take(np.lexsort((records["position"], records["row"], records["block"])))
            numbers, starts = np.unique(records["block"], return_index=True)
            yield from zip(numbers.tolist(), np.split(records, starts[1:]), strict=True)


def copies_of(decided: NDArray[np.void]) -> Iterator[DuplicateDecision]:
    """One block's decisions on events in the form that `pipeline.transform` applies."""
    for _, row, position, _, kind, ordinal in decided[decided["ordinal"] != NO_EVENT].tolist():
        yield DuplicateDecision(row, position, ordinal, CODES.get(kind, ""))


def without_effect(decided: NDArray[np.void]) -> list[DuplicateDecision]:
    """One block's decisions on rows of which nothing counts that they state about ids, persons and groups.

    What was settled as it is counts as it did, and what was settled with another content does not.
    """
    changed = (decided["kind"] == SETTLED) & (decided["ordinal"] == CHANGED)
    copies = (decided["kind"] == DUPLICATE) | (decided["kind"] == SUPERSEDED) | changed
    places = decided[["row", "position"]][copies].tolist()
    return [DuplicateDecision(row, position, 0, ALREADY_SETTLED) for row, position in places]


def rows_out(decided: NDArray[np.void]) -> tuple[Counter[str], int]:
    """Of one block: the rows without any event left, by the code of their first; and the number of rows that lost
    some."""
    out = decided[(decided["kind"] != ORDINAL) & (decided["row_events"] > 0)]
    _, starts, lost = np.unique(out["row"], return_index=True, return_counts=True)
    first = out[starts]
    whole = lost == first["row_events"]
    kinds, counts = np.unique(first["kind"][whole], return_counts=True)
    codes = Counter({CODES[kind]: count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)})
    return codes, int(len(first) - whole.sum())
