"""The facts of a plan's events: what is known of each without its properties, as Parquet for DuckDB and for people.

A row for each event that the mapping made, sent or not:

request, place  uint32       the request among those of the file, and the place in it; null for an event left out
code            dictionary   why an event is left out; null for one that is sent
name            dictionary   the event name
distinct_id     dictionary
person          uint64       the `hash_id` of the distinct_id
time, received  int64        µs UTC; `received` is 0 for none
hi, lo          uint64       the uuid
ordinal         uint32       its number among identical rows, from 1 for the second; 0 for others
key_hi, key_lo  uint64       the uuid before the ordinal changed it; null without an ordinal
content_hi, content_lo       uint64, the xxh3-128 of the event as it was mapped
part, row       uint32, uint64   the number of the export's file, and the row in it, from 1
position        uint16       the place in the row, from 0
bytes           uint32       the size of the event as it was mapped

`numbered` reads them with the number that a request has in its phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.encoder.encoded import uuid_of
from pipeline.plan.sealed.directory import digest_file
from pipeline.transform.facts import SCHEMA as BLOCK_SCHEMA
from pipeline.transform.facts import encoded, facts_file, numbers, values_of

if TYPE_CHECKING:
    from pipeline.plan.requests.pack import StagedBlock

_TEXTS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema([
    ("request", pa.uint32()), ("place", pa.uint32()), ("code", _TEXTS), ("name", _TEXTS), ("distinct_id", _TEXTS),
    ("person", pa.uint64()), ("time", pa.int64()), ("received", pa.int64()), ("hi", pa.uint64()), ("lo", pa.uint64()),
    ("ordinal", pa.uint32()), ("key_hi", pa.uint64()), ("key_lo", pa.uint64()), ("content_hi", pa.uint64()),
    ("content_lo", pa.uint64()), ("part", pa.uint32()), ("row", pa.uint64()), ("position", pa.uint16()),
    ("bytes", pa.uint32()),
])  # fmt: skip
_AS_MAPPED = [name for name in SCHEMA.names if name in BLOCK_SCHEMA.names]
"""The columns that the facts of a block have, too."""
_REPEATED = ["code", "name", "distinct_id", "person"]


class EventFacts(NamedTuple):
    """The facts of a block's events as a table of SCHEMA without `request` and `place`; whether each event is `sent`,
    and the hash of its person."""

    table: pa.Table
    sent: NDArray[np.bool_]
    persons: NDArray[np.uint64]

    @property
    def rows(self) -> NDArray[np.uint64]:
        """The row of each event in its file, from 1."""
        return values_of(self.table["row"], np.uint64)

    def only(self, chosen: NDArray[np.bool_]) -> EventFacts:
        """The facts of the chosen events."""
        columns = [_only(column.combine_chunks(), chosen) for column in self.table.columns]
        table = pa.Table.from_arrays(columns, names=self.table.column_names)
        return EventFacts(table, self.sent[chosen], self.persons[chosen])


def _only(column: pa.Array, chosen: NDArray[np.bool_]) -> pa.Array:
    """The chosen values of a column. (Arrow's `filter` would import `pyarrow.compute`, which takes a tenth of a
    second.)"""
    if isinstance(column, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(_only(column.indices, chosen), column.dictionary)
    valid, values = column.buffers()
    of = slice(column.offset, column.offset + len(column))
    known = None
    if valid is not None:
        known = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[of].astype(bool)[chosen]
    return numbers(np.frombuffer(values, column.type.to_pandas_dtype())[of][chosen], column.type, known)


def read_block_facts(
    folder: Path, block: StagedBlock, rows: Sequence[int], positions: Sequence[int], sent: Sequence[bytes]
) -> EventFacts:
    """The facts that the walk wrote for a block, with the plan's decisions. `rows` and `positions` have an entry for
    each event of the block; `sent` are the events that are sent, as they are sent."""
    count = len(rows)
    file = pq.ParquetFile(facts_file(folder, block.task.number), read_dictionary=["name", "distinct_id"])
    own = file.read(_AS_MAPPED, use_threads=False).slice(0, count)  # rows without an event come last
    remains, ordinals = np.ones(count, bool), np.zeros(count, np.uint32)
    codes: dict[int, str] = {}
    if block.task.duplicates:
        places = {place: index for index, place in enumerate(zip(rows, positions, strict=True))}
        for decision in block.task.duplicates:
            index = places.get((decision.row, decision.position))
            if index is None:
                continue  # this row has no event
            ordinals[index] = decision.ordinal
            if decision.code:
                remains[index], codes[index] = False, decision.code
    uuids = {name: values_of(own[name], np.uint64) for name in ("hi", "lo")}
    keys = {name: numbers(column, pa.uint64(), ordinals > 0) for name, column in uuids.items()}
    renamed = np.flatnonzero(remains & (ordinals > 0))
    if len(renamed):
        uuids = {name: column.copy() for name, column in uuids.items()}
        place_of = np.cumsum(remains) - 1
        for index in renamed.tolist():
            digits = uuid_of(sent[int(place_of[index])]).replace("-", "")
            uuids["hi"][index], uuids["lo"][index] = int(digits[:16], 16), int(digits[16:], 16)
    persons = values_of(own["person"], np.uint64)
    known = list(dict.fromkeys(codes.values()))
    code_of = np.zeros(count, np.uint32)
    for index, code in codes.items():
        code_of[index] = known.index(code)
    absolute = values_of(own["row"], np.uint32).astype(np.uint64) + np.uint64(block.first_row)
    columns = {
        "code": encoded(known, code_of, ~remains),
        "hi": numbers(uuids["hi"], pa.uint64()), "lo": numbers(uuids["lo"], pa.uint64()),
        "ordinal": numbers(ordinals, pa.uint32()), "key_hi": keys["hi"], "key_lo": keys["lo"],
        "part": numbers(np.full(count, block.part, np.uint32), pa.uint32()), "row": numbers(absolute, pa.uint64()),
    }  # fmt: skip
    names = SCHEMA.names[2:]
    table = pa.Table.from_arrays([columns[name] if name in columns else own[name] for name in names], names=names)
    return EventFacts(table, remains, persons)


def encode_facts(facts: Sequence[EventFacts]) -> bytes:
    """The facts of events that are sent, for another process, or b""."""
    if not facts:
        return b""
    table = pa.concat_tables([one.table for one in facts]).unify_dictionaries().combine_chunks()
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return bytes(stream.getvalue())


def decode_facts(data: bytes) -> EventFacts:
    """What `encode_facts` encoded."""
    with pa.ipc.open_stream(data) as stream:
        table = stream.read_all()
    return EventFacts(table, np.ones(len(table), bool), values_of(table["person"], np.uint64))


class FactsWriter:
    """Writes a file of facts, a group of blocks at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = pq.ParquetWriter(
            path, SCHEMA, compression="zstd", write_statistics=False, use_dictionary=_REPEATED
        )  # a dictionary takes time and makes the file larger if hardly any value occurs twice

    def write(self, facts: Sequence[EventFacts], request_of: NDArray[np.uint32], place_of: NDArray[np.uint32]) -> None:
        """Write the facts of a group; `request_of` and `place_of` have an entry for each event that is sent."""
        sent = np.concatenate([one.sent for one in facts])
        places = []
        for of_sent in (request_of, place_of):
            column = np.zeros(len(sent), np.uint32)
            column[sent] = of_sent
            places.append(pa.chunked_array([numbers(column, pa.uint32(), sent)]))
        whole = pa.concat_tables([one.table for one in facts]).unify_dictionaries()
        self._writer.write_table(pa.Table.from_arrays([*places, *whole.columns], schema=SCHEMA))

    def close(self) -> str:
        """Finish the file. Returns its sha256."""
        self._writer.close()
        return digest_file(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.close()
