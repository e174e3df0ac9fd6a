"""Rows of lookup files, collected by key; and the joined ones (`LookupFile.is_joined`) that no row of the export looks
up.

The rows of a key may be anywhere in the files, so they are sorted in a database on disk, and memory does not grow with
their number. Until the export is read, a file of the plan's scratch folder has each key of joined rows, by the hash
that `AskedTable` notes: the number of its rows, and the place of the first one. A place is the number of a file times
2^40, plus the row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import xxhash

from pipeline.identity.database import Database, binaries, files_in, numbers, read_batches
from pipeline.plan.fact_tables import MEMORY, FactTables
from pipeline.plan.sealed.directory import Directory

MOST_BYTES = 4 << 20
"""No event could be sent with an entry of more than this many bytes."""
_AT_ONCE = 50_000
_ROWS = "CREATE TABLE entries (hash UBIGINT, key BLOB, place UBIGINT, name BLOB, value BLOB)"
_SORTED = "SELECT hash, key, place, name, value FROM entries ORDER BY hash, key, place"
_FILE = 40
_KEYS = f"""
SELECT hash, count(*)::UBIGINT AS rows, min(place) AS place FROM entries WHERE place >> {_FILE} IN ({{}}) GROUP BY hash
"""
_UNJOINED = f"""
SELECT place >> {_FILE}, count(*), sum(rows), min(place) & {(1 << _FILE) - 1} FROM (
    SELECT max(rows) AS rows, max(place) AS place FROM (
        FROM joined UNION ALL SELECT hash, NULL, NULL FROM {{asked}}
    ) GROUP BY hash HAVING count(*) = count(rows)
) GROUP BY ALL ORDER BY ALL
"""


class Collected(NamedTuple):
    """The rows of one `stored_key`, of which the first is in `file`: the last value of each name, in the order of the
    names' first rows, None if they are larger than MOST_BYTES. `changed` are the names that had another value before,
    each with the file of a later one."""

    hash: int
    key: bytes
    file: int
    rows: int
    members: dict[bytes, bytes] | None
    changed: Collection[tuple[int, bytes]]


class Unjoined(NamedTuple):
    """The rows of one file whose keys no row of the export looks up: their table, the path of the file, how many keys
    they have, how many there are, and the first, from 1."""

    table: str
    path: str
    keys: int
    rows: int
    first: int


class LookupRows:
    """The rows of a plan's lookup files. `add` each, in the order of the files; then `collect` them once."""

    def __init__(self, directory: Directory) -> None:
        directory.scratch.mkdir(parents=True, exist_ok=True)
        self._keys = directory.joined_keys
        self._database = Database(directory.scratch, MEMORY)
        self._database.run(_ROWS)
        self._some: list[tuple[int, bytes, int, bytes, bytes]] = []
        self._bytes = 0

    def add(self, key: bytes, file: int, row: int, name: bytes, value: bytes) -> None:
        """Add what a row adds to a `stored_key`; rows count from 1 in the file with this number."""
        self._some.append((xxhash.xxh3_64_intdigest(key), key, file << _FILE | row, name, value))
        self._bytes += len(value)
        if len(self._some) == _AT_ONCE or self._bytes > MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._some:
            hashes, keys, places, names, values = zip(*self._some, strict=True)
            self._database.append("entries", {
                "hash": numbers(hashes, np.uint64), "key": binaries(keys), "place": numbers(places, np.uint64),
                "name": binaries(names), "value": binaries(values),
            })  # fmt: skip
        self._some.clear()
        self._bytes = 0

    def count(self) -> int:
        """How many rows were added."""
        self._flush()
        return self._database.number("SELECT count(*) FROM entries")

    def collect(self, joined: Sequence[int]) -> Iterator[Collected]:
        """Each key in the order of the hashes. `joined` are the numbers of the files with joined rows."""
        self._flush()
        with self._database as database:
            if joined:
                database.save(_KEYS.format(", ".join(map(str, joined))), self._keys)
            for (hashed, key), rows in groupby(database.tuples(_SORTED, at_once=1_000), itemgetter(0, 1)):
                members: dict[bytes, bytes] = {}
                changed: dict[tuple[int, bytes], None] = {}
                first = count = size = 0
                for _, _, place, name, value in rows:
                    first, count = first or place, count + 1
                    if size > MOST_BYTES:
                        continue
                    before = members.get(name, value)
                    if before != value:
                        changed[place >> _FILE, name] = None
                    size += len(value) - len(before) if name in members else len(name) + len(value)
                    members[name] = value
                yield Collected(hashed, key, first >> _FILE, count, members if size <= MOST_BYTES else None, changed)


def find_unjoined(tables: FactTables, files: Sequence[tuple[str, str]], directory: Directory) -> list[Unjoined]:
    """The joined rows that no row of the export looks up, once all blocks are mapped. `files` are the table and the
    path of each file, by number; none if it cannot be known."""
    if not files or not directory.joined_keys.exists():
        return []
    tables.run("CREATE TABLE joined (hash UBIGINT, rows UBIGINT, place UBIGINT)")
    for batch in read_batches(directory.joined_keys):
        tables.append("joined", dict(zip(batch.schema.names, batch.columns, strict=True)))
    some = any(directory.asked.glob("*.parquet"))
    asked = files_in(directory.asked) if some else "(SELECT NULL::UBIGINT AS hash WHERE false)"
    return [Unjoined(*files[file], *counts) for file, *counts in tables.rows(_UNJOINED.format(asked=asked))]
