"""Writes the lookup tables that are too large for memory (`pipeline.mapper.program.lookup_table` reads them).

Entries are appended to a file as they are read; their keys are sorted on disk as the keys of events are, so memory does
not grow with their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.mapper.program.lookup_table import ENTRIES, HEAD, LENGTHS, SLOTS, StoredTable, stored_key
from pipeline.plan.key_records import KeyRecords, chunks_of
from pipeline.plan.sealed.directory import Directory

MOST_RECORDS = 200_000
_ENTRY = np.dtype([
    ("hi", "<u8"), ("lo", "<u8"), ("place", "<u8"), ("value", "<u8"), ("part", "<u4"), ("changed", "<u4"),
])  # fmt: skip
"""xxh3-64 and xxh64 of the key, the place of the entry, xxh3-64 of its value, the number of the file that has it, and
whether the key had another value before, in the same file."""
_SLOTS = np.dtype([("hash", "<u8"), ("entry", "<u8")])
_AT_ONCE = 50_000


class LookupWriter:
    """The entries of all large tables of a plan. `add` them, `finish` once; then `changes` says which keys of which
    file (numbered by the caller) had another value before: how many, and the first of them."""

    def __init__(self, directory: Directory) -> None:
        self._folder = directory.path
        self._keys = KeyRecords(directory.path / "lookups.scratch", MOST_RECORDS, _ENTRY)
        self._file = (self._folder / ENTRIES).open("xb", buffering=1 << 20)
        self._place = 0
        self._some: list[tuple[int, int, int, int, int, int]] = []
        self.changes: dict[int, tuple[int, str]] = {}

    def add(self, table: str, key: str, value: str, part: int, *, changed: bool = False) -> None:
        """Add an entry, which counts rather than those of the same key that were added before."""
        name, text = stored_key(table, key), value.encode("utf-8", "surrogatepass")
        self._file.write(LENGTHS.pack(len(name), len(text)) + name + text)
        hashes = xxhash.xxh3_64_intdigest(name), xxhash.xxh64_intdigest(name)
        self._some.append((*hashes, self._place, xxhash.xxh3_64_intdigest(text), part, changed))
        self._place += LENGTHS.size + len(name) + len(text)
        if len(self._some) == _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        records = np.array(self._some, _ENTRY)
        self._some.clear()
        self._keys.add(records.take(np.argsort(records["hi"], kind="stable")))

    def finish(self) -> None:
        """Write the slots."""
        self._flush()
        self._file.close()
        bits = max(1, (self._keys.count * 3 // 2).bit_length())
        counts: Counter[int] = Counter()
        first: dict[int, int] = {}
        end = 0
        with (self._folder / SLOTS).open("xb", buffering=1 << 20) as file:
            file.write(HEAD.pack(0, 0))
            for run in self._keys.runs():
                winners, changes = _of_one_key(run, self._keys.most) if isinstance(run, Path) else _of_run(run)
                for part, place in changes:
                    counts[part] += 1
                    first[part] = min(place, first.get(part, place))
                slots = _slots_of(winners, bits, end)
                file.write(slots.view(np.uint8).data)
                end += len(slots)
            file.seek(0)
            file.write(HEAD.pack(bits, end))
        self._keys.remove()
        with (self._folder / ENTRIES).open("rb") as entries:
            for part, place in first.items():
                entries.seek(place)
                length, _ = LENGTHS.unpack(entries.read(LENGTHS.size))
                key = entries.read(length).partition(b"\0")[2].decode("utf-8", "surrogatepass")
                self.changes[part] = counts[part], key

    def table(self, name: str) -> StoredTable:
        """The table of a name, after `finish`."""
        return StoredTable(self._folder, name)


_Changes: TypeAlias = Iterable[tuple[int, int]]
"""(file, place of the first such entry) of each key that had another value before that entry, in any file."""


def _of_run(run: NDArray[np.void]) -> tuple[NDArray[np.void], _Changes]:
    """Of sorted records the last of each key, and what changed."""
    same = (run["hi"][1:] == run["hi"][:-1]) & (run["lo"][1:] == run["lo"][:-1])
    changed = run["changed"].astype(bool)
    changed[1:] |= same & (run["value"][1:] != run["value"][:-1])
    key = np.cumsum(np.concatenate(([0], ~same)))[changed]
    some = run[changed]
    pairs, index = np.unique(np.stack((key, some["part"].astype(np.int64))), axis=1, return_index=True)
    changes = zip(pairs[1].tolist(), some["place"][index].tolist(), strict=True)
    return run[np.concatenate((~same, [True]))], changes


def _of_one_key(path: Path, most: int) -> tuple[NDArray[np.void], _Changes]:
    """The same of a file of records that all have one key."""
    last = np.empty(0, _ENTRY)
    changes: dict[int, int] = {}
    for chunk in chunks_of(path, most, _ENTRY):
        last, some = _of_run(np.concatenate([last, chunk]))
        changes = {**dict(some), **changes}
    return last, changes.items()


def _slots_of(winners: NDArray[np.void], bits: int, end: int) -> NDArray[np.void]:
    """The slots from number `end` on, up to the last that these records take."""
    order = np.arange(len(winners), dtype=np.int64)
    home = (winners["hi"] >> np.uint64(64 - bits)).astype(np.int64)
    taken = np.maximum(np.maximum.accumulate(home - order), end) + order - end
    slots = np.zeros(int(taken[-1]) + 1, _SLOTS)
    slots["hash"][taken] = winners["hi"]
    slots["entry"][taken] = winners["place"] + np.uint64(1)
    return slots
