"""The pairs of ids that the blocks of a source show, in pieces that have all rows of a pair
(`pipeline.identity.ranged_files`). Aggregated, they go to `pipeline.identity.observed_pairs`."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import ne
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.identity.aggregator import PLACE_SHIFT
from pipeline.identity.columns import PairColumns
from pipeline.identity.database import number_column, numbers, numbers_of, text_column
from pipeline.identity.observed_pairs import PAIRS, PART_SHIFT
from pipeline.identity.ranged_files import RangedFiles, TextRange, sorted_by


class StoredPairs:
    """Collects the pairs of a source below `folder`, which must not exist."""

    def __init__(self, folder: Path) -> None:
        self._files = RangedFiles(folder, PAIRS)
        self._parts = array("q")
        self._first_rows = array("q")

    def add_block(self, number: int, part: int, first_row: int) -> None:
        """Register the next block: its part, and the number of its first row in the part, from 1."""
        assert number == len(self._parts)
        self._parts.append(part)
        self._first_rows.append(first_row)

    def add(self, pairs: PairColumns) -> None:
        """Add the pairs of registered blocks, as a worker returned them."""
        places = np.frombuffer(pairs.places, np.int64)
        block, row = places >> PLACE_SHIFT, places & ((1 << PLACE_SHIFT) - 1)
        part = np.frombuffer(self._parts, np.int64)[block]
        places = (part << PART_SHIFT) + np.frombuffer(self._first_rows, np.int64)[block] + row
        self._files.add((
            text_column(pairs.anonymous), text_column(pairs.user), number_column(pairs.kinds),
            number_column(pairs.first), number_column(pairs.last), number_column(pairs.events), numbers(places),
        ))  # fmt: skip

    @property
    def few(self) -> list[pa.RecordBatch] | None:
        """All pairs, where they are so few that they are in no file; else None."""
        return self._files.in_memory

    def pieces(self) -> Iterator[TextRange]:
        """All pairs. Nothing is added after that."""
        return self._files.pieces()

    def close(self) -> None:
        """Close the files."""
        self._files.close()


def aggregated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Each pair of a piece once, sorted; its place is that of its earliest row, of several the least place."""
    pairs = sorted_by(batches, "anonymous", "owner", "first", "place")
    starts = np.flatnonzero(_differs(pairs.column("anonymous")) | _differs(pairs.column("owner")))
    last, kinds, events = (numbers_of(pairs, name) for name in ("last", "kinds", "events"))
    first = pairs.take(numbers(starts))
    columns = {
        "kinds": np.bitwise_or.reduceat(kinds, starts),
        "last": np.maximum.reduceat(last, starts),
        "events": np.add.reduceat(events, starts),
    }
    return pa.RecordBatch.from_arrays(
        [numbers(columns[name]) if name in columns else first.column(name) for name in PAIRS.names], schema=PAIRS
    )


def _differs(column: pa.Array) -> NDArray[np.bool_]:
    """Whether each text is another one than that before it."""
    texts = column.to_pylist()
    return np.fromiter(chain((True,), map(ne, islice(texts, 1, None), texts)), np.bool_, len(texts))
