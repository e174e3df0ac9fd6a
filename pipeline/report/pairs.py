"""Some rows of identities.parquet for a report: of every decision and its reason, the most frequent pairs.

The table has a row for each pair of ids of an export, so it is read one group of rows at a time, and only the
rows shown stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.errors import UnsafePlan
from pipeline.identity.database import numbers, numbers_of
from pipeline.identity.identities import SCHEMA
from pipeline.timestamps import format_utc

MOST_PAIRS = 10
"""Rows of each decision and reason."""


class PairRow(msgspec.Struct, frozen=True):
    """One row of the table. `where` is the part and row, from 1, that first has the pair."""

    decision: str
    reason: str
    anonymous_id: str
    user_id: str
    events: int
    where: str
    first_seen: str | None
    last_seen: str | None


class _Position(NamedTuple):
    """A row by its rank: more events first, then in the order of the table."""

    events: int
    group: int
    row: int


def some_pairs(path: Path, most: int = MOST_PAIRS) -> list[PairRow]:
    """At most `most` rows of each decision and reason, by both and then by their events, the most first.

    Raises UnsafePlan where the table cannot be read.
    """
    try:
        if not pq.read_schema(path).equals(SCHEMA):
            raise pa.ArrowInvalid("its columns are not those of this version")
        with pq.ParquetFile(path, read_dictionary=["decision", "reason"]) as table:
            positions: dict[tuple[str, str], list[_Position]] = {}
            for group in range(table.num_row_groups):
                for kind, of_kind in _greatest(table, group, most):
                    positions[kind] = nsmallest(most, [*positions.get(kind, []), *of_kind])
            rows = _rows(table, [position for of_kind in positions.values() for position in of_kind])
    except (pa.ArrowException, OSError, LookupError) as error:
        raise UnsafePlan(f"{path.name} of the plan cannot be read: {error}", hint="plan again") from None
    return [rows[position] for _, of_kind in sorted(positions.items()) for position in of_kind]


def _greatest(table: pq.ParquetFile, group: int, most: int) -> Iterator[tuple[tuple[str, str], list[_Position]]]:
    """The rows with most events of each decision and reason of one group of rows."""
    for batch in _batches(table, group, ["decision", "reason", "events"]):
        decisions, reasons = (_codes(batch, name) for name in ("decision", "reason"))
        events = numbers_of(batch, "events")
        names = batch.column("decision").dictionary.to_pylist(), batch.column("reason").dictionary.to_pylist()
        kinds = decisions.astype(np.int64) * len(names[1]) + reasons
        for kind in np.unique(kinds).tolist():
            rows = np.flatnonzero(kinds == kind)
            best = rows[np.argsort(-events[rows], kind="stable")[:most]].tolist()
            decision, reason = divmod(kind, len(names[1]))
            yield (names[0][decision], names[1][reason]), [_Position(-int(events[row]), group, row) for row in best]


def _rows(table: pq.ParquetFile, positions: list[_Position]) -> dict[_Position, PairRow]:
    pairs: dict[_Position, PairRow] = {}
    for group in sorted({position.group for position in positions}):
        in_group = [position for position in positions if position.group == group]
        for batch in _batches(table, group, None):
            chosen = batch.take(numbers([position.row for position in in_group]))
            columns = [chosen.column(name).to_pylist() for name in ("decision", "reason", "anonymous_id", "user_id")]
            columns += [chosen.column(name).to_pylist() for name in ("events", "where")]
            columns += [_instants(chosen, name) for name in ("first_seen", "last_seen")]
            pairs.update(zip(in_group, map(PairRow, *columns), strict=True))
    return pairs


def _batches(table: pq.ParquetFile, group: int, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    """One group of rows as one batch, or none where it is empty."""
    rows = table.metadata.row_group(group).num_rows
    return iter(table.iter_batches(max(1, rows), row_groups=[group], columns=columns, use_threads=False))


def _codes(batch: pa.RecordBatch, name: str) -> NDArray[np.int32]:
    indices = batch.column(name).indices
    return np.frombuffer(indices.buffers()[1], np.int32)[indices.offset : indices.offset + len(indices)]


def _instants(batch: pa.RecordBatch, name: str) -> list[str | None]:
    return [None if time is None else format_utc(time) for time in batch.column(name).cast(pa.int64()).to_pylist()]
