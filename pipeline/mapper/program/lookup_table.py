"""A lookup table on disk, if it has too many entries for the memory of every worker.

If a plan has such a table, two files have the entries of all its tables:

* `lookups.entries`: for each entry the lengths of its key and its value in bytes, as two u32, then the key and the
  value (UTF-8; the key begins with the table's name and a NUL).
* `lookups.slots`: two u64, the number of bits that choose a slot and the number of slots, then slots of two u64: the
  xxh3-64 of a key, and the place of its entry plus one (0: no entry). A key's slot is the one that the first bits of
  its hash choose, or one of those that follow without a gap, in the order of the hashes.

A lookup reads both files at one place each and keeps nothing, so memory does not depend on the number of entries. All
numbers are little-endian.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import xxhash

from pipeline.errors import UsageError

ENTRIES, SLOTS = "lookups.entries", "lookups.slots"
LENGTHS = struct.Struct("<II")
HEAD = SLOT = struct.Struct("<QQ")
_SLOTS_AT_ONCE = 8
_ENTRY_AT_ONCE = 512


def stored_key(table: str, key: str) -> bytes:
    """A key as the files have it."""
    return f"{table}\0{key}".encode("utf-8", "surrogatepass")


def in_memory(table: Mapping[str, str], name: str) -> Mapping[str, str]:
    """The table itself. Raises UsageError if it is on disk and an operation needs all its entries at once."""
    if not isinstance(table, StoredTable):
        return table
    raise UsageError(
        f"the table {name!r} has too many entries for `case: any` and `pieces`, which need all of them in memory",
        hint="look it up by its exact keys, or join the rows of the export before planning",
    )


class AskedTable(Mapping[str, str]):
    """A table whose rows belong to rows of the export. `take_asked` returns the xxh3-64 of the `stored_key`s that were
    looked up since the last call, and before the first call none are noted. They decide nothing."""

    def __init__(self, name: str, table: Mapping[str, str]) -> None:
        self._name, self._table = name, table
        self._asked: set[str] | None = None

    def __getitem__(self, key: str | None) -> str:
        if key is None:  # a missing text has no entry
            raise KeyError(key)
        if self._asked is not None:
            self._asked.add(key)
        return self._table[key]

    def take_asked(self) -> list[int]:
        asked = [xxhash.xxh3_64_intdigest(stored_key(self._name, key)) for key in self._asked or ()]
        self._asked = set()
        return asked

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class StoredTable(Mapping[str, str]):
    """The table with this name in the files of a folder. Another process opens them again."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._entries = os.open(folder / ENTRIES, os.O_RDONLY)
        self._slots = os.open(folder / SLOTS, os.O_RDONLY)
        self._bits, self._count = HEAD.unpack(os.pread(self._slots, HEAD.size, 0))

    def __del__(self) -> None:
        for name in ("_entries", "_slots"):
            if name in self.__dict__:
                os.close(self.__dict__.pop(name))

    def __reduce__(self) -> tuple[type[StoredTable], tuple[Path, str]]:
        return StoredTable, (self._folder, self._name)

    def __getitem__(self, key: str | None) -> str:
        if key is None:  # a missing text has no entry
            raise KeyError(key)
        wanted = stored_key(self._name, key)
        hashed = xxhash.xxh3_64_intdigest(wanted)
        slot = hashed >> (64 - self._bits)
        while True:
            place = HEAD.size + slot * SLOT.size
            for found, entry in SLOT.iter_unpack(os.pread(self._slots, SLOT.size * _SLOTS_AT_ONCE, place)):
                if not entry or found > hashed:
                    raise KeyError(key)
                if found == hashed and (pair := self._entry(entry - 1))[0] == wanted:
                    return pair[1].decode("utf-8", "surrogatepass")
            slot += _SLOTS_AT_ONCE
            if slot >= self._count:
                raise KeyError(key)

    def _entry(self, place: int) -> tuple[bytes, bytes]:
        start = os.pread(self._entries, _ENTRY_AT_ONCE, place)
        key, value = LENGTHS.unpack_from(start)
        end = LENGTHS.size + key + value
        if end > len(start):
            start += os.pread(self._entries, end - len(start), place + len(start))
        return start[LENGTHS.size : LENGTHS.size + key], start[LENGTHS.size + key : end]

    def __iter__(self) -> Iterator[str]:
        """Its keys, in the order of their hashes."""
        beginning = stored_key(self._name, "")
        for slot in range(self._count):
            _, entry = SLOT.unpack(os.pread(self._slots, SLOT.size, HEAD.size + slot * SLOT.size))
            if entry and (key := self._entry(entry - 1)[0]).startswith(beginning):
                yield key[len(beginning) :].decode("utf-8", "surrogatepass")

    def __len__(self) -> int:
        return sum(1 for _ in self)
