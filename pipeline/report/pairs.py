"""Some rows of identities.parquet for a report: of every decision and its reason, the most frequent pairs.

The table has a row for each pair of ids of an export, so it is read one group of rows at a time, and only the
rows shown stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from operator import attrgetter
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.errors import UnsafePlan
from pipeline.identity.database import numbers_of
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


def some_pairs(path: Path, most: int = MOST_PAIRS) -> list[PairRow]:
    """At most `most` rows of each decision and reason, by both and then by their events, the most first.

    Raises UnsafePlan if the table cannot be read.
    """
    pairs: dict[tuple[str, str], list[PairRow]] = {}
    try:
        if not pq.read_schema(path).equals(SCHEMA):
            raise pa.ArrowInvalid("its columns are not those of this version")
        with pq.ParquetFile(path, read_dictionary=["decision", "reason"]) as table:
            for group in range(table.num_row_groups):
                rows = max(1, table.metadata.row_group(group).num_rows)
                for batch in table.iter_batches(rows, row_groups=[group], use_threads=False):
                    for pair in _most_frequent(batch, most):
                        pairs.setdefault((pair.decision, pair.reason), []).append(pair)
                pairs = {kind: nlargest(most, of_kind, attrgetter("events")) for kind, of_kind in pairs.items()}
    except (pa.ArrowException, OSError, LookupError) as error:
        raise UnsafePlan(f"{path.name} of the plan cannot be read: {error}", hint="plan again") from None
    return [pair for _, of_kind in sorted(pairs.items()) for pair in of_kind]


def _most_frequent(batch: pa.RecordBatch, most: int) -> Iterable[PairRow]:
    """The rows with most events of each decision and reason; of equal rows, the first."""
    reasons = len(batch.column("reason").dictionary)
    kinds = _codes(batch, "decision").astype(np.int64) * reasons + _codes(batch, "reason")
    order = np.lexsort((-numbers_of(batch, "events"), kinds))
    sorted_kinds = kinds[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_kinds, sorted_kinds)
    chosen = order[rank < most].tolist()  # `take` of Arrow would import `pyarrow.compute`
    *others, first, last = ([batch.column(name)[at] for at in chosen] for name in PairRow.__struct_fields__)
    texts = ([one.as_py() for one in column] for column in others)
    return map(PairRow, *texts, _instants(first), _instants(last))


def _codes(batch: pa.RecordBatch, name: str) -> NDArray[np.int32]:
    indices = batch.column(name).indices
    return np.frombuffer(indices.buffers()[1], np.int32)[indices.offset : indices.offset + len(indices)]


def _instants(times: Iterable[pa.TimestampScalar]) -> list[str | None]:
    return [None if time.value is None else format_utc(time.value) for time in times]
