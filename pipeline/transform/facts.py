"""The facts of a block: a table with a row for each event, and for each row that has a key and makes no event.

A plan decides with queries over the facts of all blocks, and never reads the rows again. The worker that maps a block
writes its facts to the plan's directory, as `00000012.parquet` for block 12:

block           uint32       the number of the block in the whole source, from 0
row             uint32       the row in its block, from 0
position        uint16       the place in its row, from 0; that of the first outcome if `kind` is not `event`
row_events      uint16       facts of the same row; 0 for a skipped row, which may replace another
kind            dictionary   event; or merge, person or group for a row without an event
name            dictionary   the event name; null without an event
distinct_id     dictionary   "" for a group
person          uint64       the `hash_id` of the distinct_id
time, received  int64        µs UTC; `received` is 0 if unknown
hi, lo          uint64       the uuid before ordinals; without an event a hash of kind, key and UTC day, because exports
                             of people use the person's id as the key, and each day's row counts
keyless         bool         whether the row has no source key
flags           uint8        USER: the event names its id as a user's; FLOAT: the id looks like a floating-point number
content_hi, content_lo       uint64, the xxh3-128 of the encoded event
same            uint64       a hash of the whole event except its time and uuid, the same within one plan
bytes           uint32       the size of the encoded event; 0 without an event

Events come first, in the order of the block.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from pipeline.identity.event_ids import looks_like_float
from pipeline.identity.kinds import FLOAT, USER
from pipeline.timestamps import DAY
from pipeline.transform.events import Events, number_texts
from pipeline.transform.staged import write_whole
from pipeline.uuids import SEPARATOR

_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema([
    ("block", pa.uint32()), ("row", pa.uint32()), ("position", pa.uint16()), ("row_events", pa.uint16()),
    ("kind", _DICTIONARY), ("name", _DICTIONARY), ("distinct_id", _DICTIONARY), ("person", pa.uint64()),
    ("time", pa.int64()), ("received", pa.int64()), ("hi", pa.uint64()), ("lo", pa.uint64()), ("keyless", pa.bool_()),
    ("flags", pa.uint8()),
    ("content_hi", pa.uint64()), ("content_lo", pa.uint64()), ("same", pa.uint64()), ("bytes", pa.uint32()),
])  # fmt: skip


def facts_file(directory: Path, number: int) -> Path:
    """The file of the facts of block `number`."""
    return directory / f"{number:08d}.parquet"


def keep(data: bytes, directory: Path, number: int) -> None:
    """Write a file of block `number` as a whole or not at all."""
    write_whole(facts_file(directory, number), data)


def write_no_facts(directory: Path) -> None:
    """If no block wrote facts, write a file without rows, so that queries find the columns."""
    if not any(directory.iterdir()):
        keep(encode_table(SCHEMA.empty_table()), directory, 0)


def encode_table(table: pa.Table) -> bytes:
    """The content of the table's file."""
    file = io.BytesIO()
    texts = [field.name for field in table.schema if field.type in (_DICTIONARY, pa.binary())]
    pq.write_table(table, file, compression="snappy", use_dictionary=texts, write_statistics=False, store_schema=False)
    return file.getvalue()


def facts_of(events: Events, number: int, users: Sequence[int]) -> pa.Table:
    """The facts of block `number` as a table with SCHEMA. `users` are the numbers of the events that name their id as a
    user's."""
    keyed, count = events.keyed, events.count
    uuids = events.uuids.view(">u8").astype(np.uint64).T
    keys = _digests(SEPARATOR.join((row.kind, row.key, str(row.time // DAY))) for row in keyed)
    contents = _digests(row.content for row in keyed)
    zeros, absent = np.zeros(len(keyed), np.uint64), np.zeros(len(keyed), np.uint32)
    ids, numbers_of_ids = number_texts(events.distinct_ids + [row.distinct_id for row in keyed])
    id_of = np.frombuffer(numbers_of_ids, np.uint32)
    persons = np.fromiter((xxhash.xxh3_64_intdigest(one.encode()) for one in ids), np.uint64, len(ids))
    flags = np.array([FLOAT * looks_like_float(one) for one in ids], np.uint8)[id_of]
    flags[list(users)] |= USER
    row = np.array([*events.row_of, *(one.row for one in keyed)], np.uint32)
    keyless = np.zeros(count + len(keyed), bool)
    keyless[list(events.keyless)] = True
    numbers_of: dict[str, NDArray[Any]] = {
        "block": np.full(len(row), number, np.uint32),
        "row": row,
        "position": np.array([*events.positions, *(one.position for one in keyed)], np.uint16),
        "row_events": _row_events(events, row),
        "person": persons[id_of],
        "time": np.concatenate((events.times, np.array([one.time for one in keyed], np.int64))),
        "received": np.concatenate((events.received, np.array([one.received for one in keyed], np.int64))),
        "hi": np.concatenate((uuids[0], keys[0])),
        "lo": np.concatenate((uuids[1], keys[1])),
        "flags": flags,
        "content_hi": np.concatenate((events.hashes[:, 0], contents[0])),
        "content_lo": np.concatenate((events.hashes[:, 1], contents[1])),
        "same": np.concatenate((events.hashes[:, 2], zeros)),
        "bytes": np.concatenate((events.sizes, zeros)).astype(np.uint32),
    }
    others = {
        "kind": texts(["event"] * count + [one.kind for one in keyed]),
        "name": encoded(events.distinct_names, np.concatenate((events.name_of, absent)), np.arange(len(row)) < count),
        "distinct_id": encoded(ids, id_of),
        "keyless": bits(keyless),
    }
    columns = [others[one.name] if one.name in others else numbers(numbers_of[one.name], one.type) for one in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _row_events(events: Events, rows: NDArray[np.uint32]) -> NDArray[np.uint16]:
    if not events.keyed and not any(events.positions):
        return np.ones(len(rows), np.uint16)
    _, inverse, counts = np.unique(rows, return_inverse=True, return_counts=True)
    several = counts[inverse].astype(np.uint16)
    several[np.isin(rows, [row.row for row in events.keyed if row.skipped])] = 0
    return several


def _digests(texts: Iterable[str | bytes]) -> NDArray[np.uint64]:
    """The two halves of the xxh3-128 of each string: shape (2, n)."""
    encoded = (text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass") for text in texts)
    return np.frombuffer(b"".join(map(xxhash.xxh3_128_digest, encoded)), np.uint64).reshape(-1, 2).T


# `pa.array` would import pandas, if it is installed.


def numbers(values: NDArray[np.generic], kind: pa.DataType, valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """An Arrow array of these numbers, null for those that are not `valid`."""
    mask = None if valid is None else _mask(valid)
    return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(np.ascontiguousarray(values))])


def values_of(column: pa.ChunkedArray, kind: type[np.generic]) -> NDArray[Any]:
    """The numbers of an Arrow column without nulls."""
    size = np.dtype(kind).itemsize
    pieces = [
        np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * size)
        for chunk in column.chunks
        if len(chunk)
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0, kind)


def bits(values: NDArray[np.bool_]) -> pa.Array:
    """An Arrow array of these booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _mask(values)])


def _mask(values: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def texts(values: list[str]) -> pa.Array:
    """An Arrow array of these strings, each different one stored once."""
    distinct, indices = number_texts(values)
    return encoded(distinct, np.frombuffer(indices, np.uint32))


def encoded(distinct: Sequence[str], indices: NDArray[np.uint32], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """An Arrow array of strings, given by their indices into `distinct`, null for those that are not `valid`."""
    joined = "".join(distinct)
    lengths = map(len, distinct if joined.isascii() else [text.encode() for text in distinct])
    ends = pa.py_buffer(np.cumsum([0, *lengths], dtype=np.int32))
    values = pa.Array.from_buffers(pa.string(), len(distinct), [None, ends, pa.py_buffer(joined.encode())])
    of = numbers(indices, pa.int32(), valid)
    return pa.DictionaryArray.from_arrays(of, values)
