"""Rows of lookup files that belong to rows of the export (`LookupFile.is_joined`): collected by key, and counted if no
row of the export looks them up.

The rows of a key may be anywhere in the files, so they are sorted in a database on disk, and memory does not grow with
their number. Until the export is read, a file of the plan's scratch folder has each key, by the hash that `AskedTable`
notes: the number of its rows, and the place of the first one, which is the number of its file times 2^40, plus its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import xxhash

from pipeline.identity.database import Database, binaries, files_in, numbers, read_batches
from pipeline.mapper.language.files_section import LookupFile
from pipeline.mapper.program.lookup_table import stored_key
from pipeline.plan.fact_tables import MEMORY, FactTables
from pipeline.plan.sealed.directory import Directory

MOST_BYTES = 4 << 20
"""No event could be sent with more than this many bytes of joined rows."""
_AT_ONCE = 50_000
_ROWS = "CREATE TABLE joined (hash UBIGINT, key BLOB, place UBIGINT, piece BLOB)"
_SORTED = "SELECT key, place, piece FROM joined ORDER BY hash, key, place"
_KEYS = "SELECT hash, count(*)::UBIGINT AS rows, min(place) AS place FROM joined GROUP BY hash"
_FILE = 40
_UNJOINED = f"""
SELECT place >> {_FILE}, count(*), sum(rows), min(place) & {(1 << _FILE) - 1} FROM (
    SELECT max(rows) AS rows, max(place) AS place FROM (
        FROM joined UNION ALL SELECT hash, NULL, NULL FROM {{asked}}
    ) GROUP BY hash HAVING count(*) = count(rows)
) GROUP BY ALL ORDER BY ALL
"""


class Collected(NamedTuple):
    """The rows of one key, of which the first is in `file`. `pieces` are what each adds: the number of its file, its
    name as JSON ("" if the table has none), and its value; without pieces, they are larger than MOST_BYTES."""

    table: str
    key: str
    file: int
    rows: int
    pieces: list[tuple[int, bytes, bytes]]

    def entry(self, lookup: LookupFile) -> tuple[str, list[tuple[int, bytes]]]:
        """The entry of the key, and which of its names had another value before, each with the number of the file of
        the later one, which counts."""
        if lookup.list:
            return f"[{','.join(value.decode() for _, _, value in self.pieces)}]", []
        members: dict[bytes, bytes] = {}
        changed: dict[tuple[int, bytes], None] = {}
        for file, name, value in self.pieces:
            if members.get(name, value) != value:
                changed[file, name] = None
            members[name] = value
        if not lookup.name:
            return members[b""].decode("utf-8", "surrogatepass"), [*changed]
        return f"{{{','.join(f'{name.decode()}:{value.decode()}' for name, value in members.items())}}}", [*changed]


class Unjoined(NamedTuple):
    """The rows of one file whose keys no row of the export looks up: their table, the path of the file, how many keys
    they have, how many there are, and the first, from 1."""

    table: str
    path: str
    keys: int
    rows: int
    first: int


class JoinedRows:
    """The joined rows of a plan. `add` each, in the order of the files; then `collect` them once."""

    def __init__(self, directory: Directory) -> None:
        directory.scratch.mkdir(parents=True, exist_ok=True)
        self._keys = directory.joined_keys
        self._database = Database(directory.scratch, MEMORY)
        self._database.run(_ROWS)
        self._some: list[tuple[int, bytes, int, bytes]] = []
        self._bytes = 0

    def add(self, table: str, key: str, file: int, row: int, name: bytes, value: bytes) -> None:
        """Add what a row adds to a key; rows count from 1 in the file with this number."""
        stored = stored_key(table, key)
        self._some.append((xxhash.xxh3_64_intdigest(stored), stored, file << _FILE | row, name + b"\0" + value))
        self._bytes += len(value)
        if len(self._some) == _AT_ONCE or self._bytes > MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._some:
            hashes, keys, places, pieces = zip(*self._some, strict=True)
            self._database.append("joined", {
                "hash": numbers(hashes, np.uint64), "key": binaries(keys),
                "place": numbers(places, np.uint64), "piece": binaries(pieces),
            })  # fmt: skip
        self._some.clear()
        self._bytes = 0

    def collect(self) -> Iterator[Collected]:
        """Each key with its rows, in their order."""
        self._flush()
        with self._database as database:
            for stored, rows in groupby(database.tuples(_SORTED, at_once=1_000), itemgetter(0)):
                table, _, key = stored.decode("utf-8", "surrogatepass").partition("\0")
                pieces: list[tuple[int, bytes, bytes]] = []
                first = count = size = 0
                for _, place, piece in rows:
                    first, count, size = first or place, count + 1, size + len(piece)
                    if size <= MOST_BYTES:
                        name, _, value = piece.partition(b"\0")  # JSON has no NUL, so the first one is ours
                        pieces.append((place >> _FILE, name, value))
                yield Collected(table, key, first >> _FILE, count, pieces if size <= MOST_BYTES else [])
            database.save(_KEYS, self._keys)


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
