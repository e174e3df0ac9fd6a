"""The property updates of an export, in pieces that have all updates of an owner and follow each other in the order of
owners (`pipeline.identity.ranged_files`)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.identity.columns import PropertyColumns
from pipeline.identity.database import blob_column, number_column, text_column, texts
from pipeline.identity.last_values import LastValues, OwnerLookup, last_values_in, rows_in
from pipeline.identity.ranged_files import Fan, Files, RangedFiles, TextRange, distinct, in_order, place_of

UPDATES = pa.schema([
    ("owner", pa.string()), ("name", pa.string()), ("kind", pa.int64()), ("time", pa.int64()),
    ("received", pa.int64()), ("latest", pa.int64()), ("value", pa.binary()),
])  # fmt: skip
"""`pipeline.identity.property_updates.PropertyUpdate`, a column for each field."""


class StoredUpdates:
    """Collects property updates below `folder`, which must not exist."""

    def __init__(self, folder: Path) -> None:
        self._files = RangedFiles(folder, UPDATES)
        self._bounds: list[tuple[str, str]] = []

    def add(self, updates: PropertyColumns) -> None:
        """Add updates, in any order."""
        self._files.add((
            text_column(updates.owner), text_column(updates.name), number_column(updates.kind),
            number_column(updates.time), number_column(updates.received), number_column(updates.latest),
            blob_column(updates.value),
        ))  # fmt: skip

    def last_values(
        self, moves: OwnerLookup | None = None, among: tuple[str, str] | None = None
    ) -> Generator[LastValues, None, None]:
        """Each owner once, sorted.

        `moves` gives the owner that properties are sent to. `among` restricts the result to owners from the first text
        up to, but not including, the second.
        """
        for batches in self._batches(moves) if among is None else self._among(*among, moves):
            yield from last_values_in(batches)

    def by_owner(self, among: tuple[str, str]) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """The same with the updates of each owner, as `last_values_of` takes them."""
        for batches in self._among(*among):
            for owner, rows in groupby(rows_in(batches), itemgetter(0)):
                yield owner, list(rows)

    def owners(self, among: tuple[str, str]) -> int:
        """How many owners there are from the first text up to, but not including, the second."""
        return sum(len(distinct(batches)) for batches in self._among(*among))

    def _batches(self, moves: OwnerLookup | None) -> Iterator[list[pa.RecordBatch]]:
        """The updates of each piece."""
        return (list(piece.batches()) for piece in self.pieces(moves))

    def _among(self, start: str, end: str, moves: OwnerLookup | None = None) -> Iterator[list[pa.RecordBatch]]:
        """The updates of owners from `start` up to, but not including, `end`, of each piece that has some."""
        if not self._bounds:
            self._bounds = [_bounds(batches) for batches in self._batches(moves)]
        for piece, (first, last) in zip(self.pieces(), self._bounds, strict=True):
            if first < end and last >= start:
                batches = list(piece.batches())
                yield batches if start <= first and last < end else _among(batches, start, end)

    def pieces(self, moves: OwnerLookup | None = None) -> Iterator[TextRange]:
        """All updates, as often as they are asked for; what the first call is given as `moves` is for good. Nothing is
        added after that."""
        folder = self._files.folder / "moved"
        return self._files.pieces(
            None if moves is None else lambda ranges, bounds: _move(ranges, bounds, moves, folder)
        )

    def close(self) -> None:
        """Close the files."""
        self._files.close()


def _move(ranges: dict[int, Files], bounds: Sequence[str], moves: OwnerLookup, folder: Path) -> dict[int, Files]:
    """The files of each range once the updates of owners that move lie under the owners that they are sent to. A range
    without any is left as it is."""
    settled = dict(ranges)
    with closing(Fan(folder / "to", bounds, UPDATES)) as arriving:
        for number, files in ranges.items():
            piece = TextRange(files)
            if any(_changes(some, moves) for some in piece.windows()):
                with closing(Fan(folder / f"from-{number:02d}", (), UPDATES)) as staying:
                    for some in piece.windows():
                        _move_some(some, _changes(some, moves), staying, arriving)
                piece.delete()
                settled[number] = tuple(staying.files().values())
    for number, file in arriving.files().items():
        settled[number] = (*settled.get(number, ()), file)
    return settled


def _changes(batches: list[pa.RecordBatch], moves: OwnerLookup) -> list[tuple[str, str]]:
    """The owners that move, each with the one that its updates are sent to."""
    owners = distinct(batches)
    return [(owner, target) for owner, target in zip(owners, moves(owners), strict=True) if owner != target]


def _move_some(batches: list[pa.RecordBatch], changes: list[tuple[str, str]], staying: Fan, arriving: Fan) -> None:
    import pyarrow.compute as pc

    old, new = (texts([change[side] for change in changes]) for side in (0, 1))
    for batch in batches:
        place = pc.index_in(batch.column("owner"), value_set=old)
        stays = place.is_null()
        staying.write(batch.filter(stays))
        columns = [new.take(place.drop_null()), *batch.filter(pc.invert(stays)).columns[1:]]
        arriving.write(pa.RecordBatch.from_arrays(columns, schema=UPDATES))


def _bounds(batches: list[pa.RecordBatch]) -> tuple[str, str]:
    """The first and the last owner."""
    import pyarrow.compute as pc

    found = pc.min_max(pa.chunked_array([batch.column("owner") for batch in batches])).as_py()
    return found["min"], found["max"]


def _among(batches: list[pa.RecordBatch], first: str, end: str) -> list[pa.RecordBatch]:
    """The updates of owners from `first` up to, but not including, `end`."""
    some = []
    for batch in map(in_order, batches):
        start, stop = (place_of(batch, text) for text in (first, end))
        if start < stop:
            some.append(batch.slice(start, stop - start))
    return some
