"""Rows whose first column is a text, on disk, in pieces that have all rows of a text and follow each other in the order
of texts: the property updates of owners, and the pairs of ids.

Rows are spread over files by ranges of texts, so that each piece can be worked on by itself, in any process that can
read it. The bounds of the ranges come from a sample, and a file that became too large is spread again by bounds of its
own. They decide where a row lies, and nothing of what is sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import pyarrow as pa

FAN = 64
"""Files that rows are spread over at once."""
MOST_BYTES = 4 * 1024 * 1024
"""A file with more is spread again, unless all of its rows have one text."""
PIECE_BYTES = 1024 * 1024
"""Files are put together up to this size: what one process of an engine is given at once."""
_SAMPLE = 4_096
"""Bounds are chosen from about so many texts, and from those at both ends of each batch."""
_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The end of an Arrow stream, after which another one may begin."""
Files = tuple[Path, ...]
Changed = Callable[[dict[int, Files], Sequence[str]], dict[int, Files]]
"""Given the files of each range and the bounds between the ranges, returns those that take their places."""


class TextRange(NamedTuple):
    """All rows of some texts, in files."""

    files: Files

    def content(self) -> bytes:
        """The bytes of the files, for a process that cannot read them."""
        return b"".join(file.read_bytes() for file in self.files)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in any order."""
        for file in self.files:
            with pa.memory_map(str(file)) as content, pa.ipc.open_stream(content) as stream:
                yield from stream

    def windows(self) -> Iterator[list[pa.RecordBatch]]:
        """The rows in lists that fit into memory, however large the files are."""
        some: list[pa.RecordBatch] = []
        size = 0
        for batch in self.batches():
            some.append(batch)
            size += batch.nbytes
            if size > MOST_BYTES:
                yield some
                some, size = [], 0
        if some:
            yield some

    def texts(self) -> list[str]:
        """Each text once."""
        return distinct(list(self.batches()))

    def delete(self) -> None:
        """Delete the files."""
        for file in self.files:
            file.unlink()


class CarriedRange(msgspec.Struct, frozen=True):
    """A piece on its way to any process. `content` are the bytes of its files, which then travel as those of a block
    do; it is None where the process reads the files."""

    piece: TextRange
    content: bytes | memoryview | None

    @classmethod
    def of(cls, piece: TextRange, *, readable: bool) -> CarriedRange:
        """The piece, with its bytes where the processes cannot read its files."""
        return cls(piece, None if readable else piece.content())

    def batches(self) -> list[pa.RecordBatch]:
        """The rows of the piece, in any order."""
        return list(self.piece.batches()) if self.content is None else _batches_in(self.content)


def _batches_in(content: bytes | memoryview) -> list[pa.RecordBatch]:
    """The rows of a piece's `content`."""
    stream = pa.BufferReader(content)
    batches: list[pa.RecordBatch] = []
    while stream.tell() < stream.size():
        batches += pa.ipc.open_stream(stream)
    return batches


class RangedFiles:
    """Collects rows of `schema` below `folder`, which must not exist."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.schema = schema
        self._pending: list[pa.RecordBatch] = []
        """What was added before there was enough of it to choose bounds from."""
        self._pending_bytes = 0
        self._fan: Fan | None = None
        self._small: list[Files] | None = None
        """The files of each range, once nothing is added any more."""

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add rows, in any order."""
        batch = pa.RecordBatch.from_arrays(list(columns), schema=self.schema)
        if not len(batch):
            return
        if self._fan is not None:
            self._fan.write(batch)
            return
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes > MOST_BYTES:
            self._begin(_bounds_of([in_order(batch) for batch in self._pending]))

    @property
    def in_memory(self) -> list[pa.RecordBatch] | None:
        """All rows, where there are not enough of them for files; else None."""
        return self._pending if self._fan is None else None

    def pieces(self, change: Changed | None = None) -> Iterator[TextRange]:
        """All rows, as often as they are asked for; what the first call makes of the files by `change` is for good.
        Nothing is added after that."""
        if self._small is None:
            self._small = self._in_small_files(change)
        some: Files = ()
        size = 0
        for files in self._small:
            more = _bytes_of(files)
            if some and size + more > PIECE_BYTES:
                yield TextRange(some)
                some, size = (), 0
            some, size = some + files, size + more
        if some:
            yield TextRange(some)

    def close(self) -> None:
        """Close the files."""
        if self._fan is not None:
            self._fan.close()

    def _begin(self, bounds: Sequence[str]) -> Fan:
        """Choose the bounds, and write what has waited for them."""
        self._fan = Fan(self.folder, bounds, self.schema)
        for batch in self._pending:
            self._fan.write(batch)
        self._pending.clear()
        return self._fan

    def _in_small_files(self, change: Changed | None) -> list[Files]:
        fan = self._fan or self._begin(())
        fan.close()
        ranges: dict[int, Files] = {number: (file,) for number, file in fan.files().items()}
        if change is not None:
            ranges = change(ranges, fan.bounds)
        return [small for _, files in sorted(ranges.items()) for small in _small(files, self.schema)]


class Fan:
    """Files in `folder`, created as they are needed: number n has the texts from `bounds[n - 1]` up to, but not
    including, `bounds[n]`. The rows of a batch are in the order of their texts."""

    def __init__(self, folder: Path, bounds: Sequence[str], schema: pa.Schema) -> None:
        self.bounds = bounds
        self._folder = folder
        self._schema = schema
        self._open: dict[int, BinaryIO] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, in any order."""
        batch = in_order(batch)
        cuts = [0]
        for bound in self.bounds:
            cuts.append(place_of(batch, bound, cuts[-1]))
        for number, (start, stop) in enumerate(pairwise([*cuts, len(batch)])):
            if start < stop:
                self._file(number).write(batch.slice(start, stop - start).serialize())

    def _file(self, number: int) -> BinaryIO:
        file = self._open.get(number)
        if file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = self._open[number] = self._path(number).open("wb", buffering=1 << 16)
            file.write(self._schema.serialize())
        return file

    def close(self) -> None:
        """End the files; nothing is written after this."""
        for file in self._open.values():
            if not file.closed:
                file.write(_END)
                file.close()

    def files(self) -> dict[int, Path]:
        """The files with rows, by number, ascending."""
        return {number: self._path(number) for number in sorted(self._open)}

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:02d}"


def in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows in the order of their texts. Most batches have it already, since workers sort what they return."""
    import pyarrow.compute as pc  # takes a while, and few exports need it

    column = batch.column(0)
    if not pc.any(pc.less(column[1:], column[:-1])).as_py():
        return batch
    return batch.sort_by(batch.schema.names[0])


def place_of(batch: pa.RecordBatch, text: str, after: int = 0) -> int:
    """The first row, from row `after` on, whose text is not before this one, in a batch in the order of its texts."""
    column = batch.column(0)
    return bisect_left(range(len(column)), text, after, key=lambda place: column[place].as_py())


def sorted_by(batches: Sequence[pa.RecordBatch], *names: str) -> pa.RecordBatch:
    """All rows of one or more batches that fit into memory, in the order of these columns."""
    import pyarrow.compute as pc

    (rows,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    # `Table.sort_by` does the same by another part of Arrow, which takes a quarter of a second to load.
    return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names]))


def distinct(batches: Sequence[pa.RecordBatch]) -> list[str]:
    """Each text once."""
    import pyarrow.compute as pc  # takes a while, and few exports need it

    texts: list[str] = pc.unique(pa.chunked_array([batch.column(0) for batch in batches], pa.string())).to_pylist()
    return texts


def _bounds_of(batches: Sequence[pa.RecordBatch]) -> list[str]:
    """Texts that cut the rows into about FAN equal parts. None where all rows have one text, and else at least one, so
    that no part has everything. The rows of each batch are in order."""
    sample: list[str] = []
    steps = max(1, _SAMPLE // len(batches))
    for batch in batches:
        text, last = batch.column(0), len(batch) - 1
        sample += [text[last * step // steps].as_py() for step in range(steps + 1)]
    sample.sort()
    chosen = {sample[len(sample) * number // FAN] for number in range(1, FAN)} | {sample[-1]}
    return sorted(chosen - {sample[0]})


def _bytes_of(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _small(files: Files, schema: pa.Schema) -> Iterator[Files]:
    """The files of a range, or those that its rows are spread over where they are too many."""
    piece = TextRange(files)
    bounds = _bounds_of(list(piece.batches())) if _bytes_of(files) > MOST_BYTES else ()
    if not bounds:
        yield files
        return
    with closing(Fan(files[0].with_name(files[0].name + ".parts"), bounds, schema)) as fan:
        for batch in piece.batches():
            fan.write(batch)
    piece.delete()
    for file in fan.files().values():
        yield from _small((file,), schema)
