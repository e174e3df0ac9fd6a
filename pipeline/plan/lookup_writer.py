"""Writes lookup tables that are too large for memory (`pipeline.mapper.program.lookup_table` reads them).

Entries are appended to a file as they are read. Their keys are sorted in a database on disk, so memory does not grow
with their number.
"""

from __future__ import annotations

import shutil

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.identity.database import Database
from pipeline.mapper.program.lookup_table import ENTRIES, HEAD, LENGTHS, SLOTS, StoredTable, stored_key
from pipeline.plan.fact_tables import MEMORY
from pipeline.plan.sealed.directory import Directory

_ENTRY = np.dtype([
    ("hi", "<u8"), ("lo", "<u8"), ("place", "<u8"), ("value", "<u8"), ("part", "<u4"), ("changed", "<u4"),
])  # fmt: skip
"""xxh3-64 and xxh64 of the key, the place of the entry, xxh3-64 of its value, the number of its file, and whether the
key had another value before in the same file."""
_KEYS = "CREATE TABLE keys (hi UBIGINT, lo UBIGINT, place UBIGINT, value UBIGINT, part UINTEGER, changed UINTEGER)"
_LAST = "SELECT hi, max(place) AS place FROM keys GROUP BY hi, lo ORDER BY hi, lo"
"""The entry of each key that counts."""
_CHANGES = """
SELECT part, count(DISTINCT (hi, lo)), min(place) FROM (
    SELECT *, value != lag(value) OVER (PARTITION BY hi, lo ORDER BY place) AS differs FROM keys
) WHERE changed > 0 OR differs GROUP BY part
"""
"""The keys of each file that had another value before, in any file, and the first such entry."""
_SLOTS = np.dtype([("hash", "<u8"), ("entry", "<u8")])
_AT_ONCE = 50_000


class LookupWriter:
    """The entries of all large tables of a plan. `add` each, `finish` once. Then `changes` says how many keys of each
    file (numbered by the caller) had another value before, and which was the first."""

    def __init__(self, directory: Directory) -> None:
        self._folder = directory.path
        self._scratch = directory.path / "lookups.scratch"
        self._scratch.mkdir()
        self._keys = Database(self._scratch, MEMORY, ordered=False)
        self._keys.run(_KEYS)
        self._file = (self._folder / ENTRIES).open("xb", buffering=1 << 20)
        self._place = 0
        self._some: list[tuple[int, int, int, int, int, int]] = []
        self.changes: dict[int, tuple[int, str]] = {}

    def add(self, table: str, key: str, value: str, part: int, *, changed: bool = False) -> None:
        """Add an entry. It replaces an entry with the same key that was added before."""
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
        self._keys.append("keys", {name: records[name] for name in _ENTRY.names or ()})

    def finish(self) -> None:
        """Write the slots."""
        self._flush()
        self._file.close()
        bits = max(1, (self._keys.number("SELECT count(*) FROM keys") * 3 // 2).bit_length())
        end = 0
        with (self._folder / SLOTS).open("xb", buffering=1 << 20) as file:
            file.write(HEAD.pack(0, 0))
            for last in self._keys.arrays(_LAST):
                slots = _slots_of(last["hi"], last["place"], bits, end)
                file.write(slots.view(np.uint8).data)
                end += len(slots)
            file.seek(0)
            file.write(HEAD.pack(bits, end))
        changes = self._keys.rows(_CHANGES)
        self._keys.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        with (self._folder / ENTRIES).open("rb") as entries:
            for part, count, place in changes:
                entries.seek(place)
                length, _ = LENGTHS.unpack(entries.read(LENGTHS.size))
                key = entries.read(length).partition(b"\0")[2].decode("utf-8", "surrogatepass")
                self.changes[part] = count, key

    def table(self, name: str) -> StoredTable:
        """The table with this name, after `finish`."""
        return StoredTable(self._folder, name)


def _slots_of(hashes: NDArray[np.uint64], places: NDArray[np.uint64], bits: int, end: int) -> NDArray[np.void]:
    """The slots from number `end` on, up to the last slot that these keys take."""
    order = np.arange(len(hashes), dtype=np.int64)
    home = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    taken = np.maximum(np.maximum.accumulate(home - order), end) + order - end
    slots = np.zeros(int(taken[-1]) + 1, _SLOTS)
    slots["hash"][taken] = hashes
    slots["entry"][taken] = places + np.uint64(1)
    return slots
