"""Find copies exactly, however many rows there are, without holding them in memory.

Each event of the source leaves one key record of 64 bytes (`pipeline.make.KEY`). Records are spread over files by
the first bits of their uuid, so that all copies of one event lie in one file; each file is then sorted on its own.
Nothing is hashed down: two records are copies only if all 128 bits agree.

What becomes of copies (DESIGN 6):

* rows with one source key are one event: the latest receive time wins, then the latest time, then the greatest
  content digest. The others are skips: `duplicate_event` when their content is the winner's, else `superseded`.
* identical rows without a source key stay separate events, told apart by an ordinal, unless `collapse` makes one of
  them. Which row gets which ordinal does not matter: the rows are interchangeable and the set of uuids is the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.make import KEY, KEYLESS, Copy

SPREAD_BITS = 6
MOST_RECORDS = 400_000
"""A file with more records is spread again before it is sorted: 25 MB of records, sorted in place of them."""
BUCKET_BLOCKS = 512
"""Decisions are gathered in files of this many blocks, each small enough to sort in memory."""

DECISION = np.dtype([("block", "<u4"), ("row", "<u4"), ("nth", "<u2"), ("kind", "<u2"), ("ordinal", "<u4")])
_DUPLICATE, _SUPERSEDED, _ORDINAL = 0, 1, 2
CODES = {_DUPLICATE: "duplicate_event", _SUPERSEDED: "superseded"}


class Dropped(NamedTuple):
    """One event that a copy replaced: enough to move it from mapped to skipped in every count."""

    block: int
    row: int
    of: int
    name: int
    time: int
    code: str


class Keys:
    """The key records of a plan being made: added block by block, asked once at the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directory.mkdir(parents=True)
        self._files = [
            (directory / f"{index:02d}.keys").open("wb", buffering=1 << 16) for index in range(1 << SPREAD_BITS)
        ]
        self.count = 0

    def add(self, keys: NDArray[np.void]) -> None:
        """Add one block's records, sorted by uuid."""
        self.count += len(keys)
        cuts = np.searchsorted(keys["hi"], _BOUNDS).tolist()
        flat = memoryview(keys.view(np.uint8))
        size = KEY.itemsize
        for index, file in enumerate(self._files):
            if cuts[index] != cuts[index + 1]:
                file.write(flat[cuts[index] * size : cuts[index + 1] * size])

    def close(self) -> None:
        for file in self._files:
            file.close()

    def remove(self) -> None:
        """Give the disk back."""
        self.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def sorted_runs(self) -> Iterator[NDArray[np.void]]:
        """All records, in runs that never part copies; each run sorted by uuid."""
        self.close()
        for index in range(1 << SPREAD_BITS):
            yield from _sorted_runs(self._directory / f"{index:02d}.keys", SPREAD_BITS)

    def chunks(self) -> Iterator[NDArray[np.void]]:
        """All records in no order, in bounded arrays."""
        self.close()
        for index in range(1 << SPREAD_BITS):
            yield from _chunks(self._directory / f"{index:02d}.keys")


_BOUNDS = np.array([index << (64 - SPREAD_BITS) for index in range(1 << SPREAD_BITS)], np.uint64)
_BOUNDS = np.append(_BOUNDS, np.uint64(2**64 - 1))


def _chunks(path: Path) -> Iterator[NDArray[np.void]]:
    with path.open("rb") as file:
        while True:
            chunk = np.fromfile(file, KEY, MOST_RECORDS)
            if not len(chunk):
                return
            yield chunk


def _sorted_runs(path: Path, bits: int) -> Iterator[NDArray[np.void]]:
    if path.stat().st_size <= MOST_RECORDS * KEY.itemsize or bits >= 62:
        with path.open("rb") as file:
            run = np.fromfile(file, KEY)
        if len(run):
            yield run[np.lexsort((run["lo"], run["hi"]))]
        return
    spread = [path.with_name(f"{path.name}.{index:02d}") for index in range(1 << SPREAD_BITS)]
    shift = np.uint64(64 - bits - SPREAD_BITS)
    files = [one.open("wb") for one in spread]
    try:
        for chunk in _chunks(path):
            where = (chunk["hi"] >> shift) & np.uint64((1 << SPREAD_BITS) - 1)
            order = np.argsort(where, kind="stable")
            chunk, where = chunk[order], where[order]
            cuts = np.searchsorted(where, np.arange((1 << SPREAD_BITS) + 1, dtype=np.uint64)).tolist()
            for index, file in enumerate(files):
                if cuts[index] != cuts[index + 1]:
                    chunk[cuts[index] : cuts[index + 1]].tofile(file)
    finally:
        for file in files:
            file.close()
    path.unlink()
    for one in spread:
        yield from _sorted_runs(one, bits + SPREAD_BITS)
        one.unlink()


class Decisions:
    """What became of copies, on disk until it is read back in block order."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directory.mkdir(parents=True)
        self._pending: dict[int, list[NDArray[np.void]]] = {}
        self._held = 0
        self.count = 0

    def add(self, decided: NDArray[np.void]) -> None:
        self.count += len(decided)
        for bucket in np.unique(decided["block"] // BUCKET_BLOCKS).tolist():
            self._pending.setdefault(bucket, []).append(decided[decided["block"] // BUCKET_BLOCKS == bucket])
        self._held += len(decided)
        if self._held > MOST_RECORDS:
            self._flush()

    def _flush(self) -> None:
        for bucket, arrays in self._pending.items():
            with (self._directory / f"{bucket:08d}").open("ab") as file:
                for array in arrays:
                    array.tofile(file)
        self._pending.clear()
        self._held = 0

    def by_block(self) -> Iterator[tuple[int, list[Copy]]]:
        """Each block that has decisions, ascending, with its decisions in row order."""
        self._flush()
        for path in sorted(self._directory.iterdir()):
            found = np.fromfile(path, DECISION)
            found = found[np.lexsort((found["nth"], found["row"], found["block"]))]
            numbers, starts = np.unique(found["block"], return_index=True)
            stops = [*starts[1:].tolist(), len(found)]
            for number, start, stop in zip(numbers.tolist(), starts.tolist(), stops, strict=True):
                yield (
                    number,
                    [
                        Copy(row, nth, ordinal, CODES.get(kind, ""))
                        for _, row, nth, kind, ordinal in found[start:stop].tolist()
                    ],
                )

    def remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def decide(keys: Keys, decisions: Decisions, *, collapse: bool) -> Iterator[Dropped]:
    """Decide on all copies. Decisions go to `decisions`; each event left out is also given, for the counts."""
    for run in keys.sorted_runs():
        hi, lo = run["hi"], run["lo"]
        same = (hi[1:] == hi[:-1]) & (lo[1:] == lo[:-1])
        if not same.any():
            continue
        # A group of copies runs from the record before the first `same` to the last one of an unbroken stretch.
        edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
        decided: list[tuple[int, int, int, int, int]] = []
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            group = run[start : stop + 1]
            yield from _decide_group(group, decided, collapse)
            if len(decided) >= MOST_RECORDS:
                decisions.add(np.array(decided, DECISION))
                decided.clear()
        if decided:
            decisions.add(np.array(decided, DECISION))


def _decide_group(
    group: NDArray[np.void], decided: list[tuple[int, int, int, int, int]], collapse: bool
) -> Iterator[Dropped]:
    keyless = bool(group["name"][0] & KEYLESS)
    place = np.lexsort((group["nth"], group["row"], group["block"]))
    group = group[place]
    if keyless and not collapse:
        for ordinal, (block, row, nth) in enumerate(group[["block", "row", "nth"]].tolist()):
            if ordinal:
                decided.append((block, row, nth, _ORDINAL, ordinal))
        return
    # Ties go to the first row in the source: the last of a reversed, ascending sort.
    back = group[::-1]
    order = np.lexsort((back["content_lo"], back["content_hi"], back["time"], back["received"]))
    ranked = back[order]
    winner = ranked[-1]
    for record in ranked[:-1]:
        equal = record["content_hi"] == winner["content_hi"] and record["content_lo"] == winner["content_lo"]
        kind = _DUPLICATE if equal else _SUPERSEDED
        decided.append((int(record["block"]), int(record["row"]), int(record["nth"]), kind, 0))
        yield Dropped(
            int(record["block"]),
            int(record["row"]),
            int(record["of"]),
            int(record["name"] & ~KEYLESS),
            int(record["time"]),
            CODES[kind],
        )
