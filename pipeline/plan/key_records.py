"""Records with a key of 128 bits, on disk, however many there are: the key records of a source, whose keys are uuids.

They are spread over files by the first bits of their key, so that all records of one key lie in one file; each file
is then sorted on its own. `pipeline.plan.statistics.activity` has records of another type, whose key is a person and
a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.transform.event_keys import KEY

SPREAD_BITS = 6
FAN = 1 << SPREAD_BITS
MAX_RECORDS = 400_000
"""A file with more records is spread again before it is sorted: 32 MB of records, and as much again for their order."""

PIECE = 50_000
"""Records that one process of an engine is given at once: 4 MB, as much as a block has."""
_KEY = ("hi", "lo")
_DIGITS = -(-64 // SPREAD_BITS)
"""Levels at which the first half of a key spreads records."""


class KeyRange(NamedTuple):
    """Some of the records, in files that follow each other in the order of keys: a task for any process that can read
    them. `large` is set where they are more than fit into memory, since all of them have one key."""

    files: tuple[Path, ...]
    large: bool = False

    def sorted_as(self, record: np.dtype[np.void]) -> NDArray[np.void]:
        """The records in the order of their keys."""
        return in_order(np.concatenate([np.fromfile(file, record) for file in self.files]))

    def delete(self) -> None:
        """Delete the files, once they are decided on."""
        for file in self.files:
            file.unlink()


class KeyRecords:
    """Records of the type `record`, with the fields `hi` and `lo`, added block by block and read once, sorted, at the
    end."""

    def __init__(self, directory: Path, most: int = MAX_RECORDS, record: np.dtype[np.void] = KEY) -> None:
        self._directory = directory
        self._record = record
        self.most = most
        self._directory.mkdir(parents=True)
        self._fan = _Fan(directory / "keys")
        self.count = 0

    def add(self, keys: NDArray[np.void]) -> None:
        """Add some records, sorted by the first half of their key."""
        self.count += len(keys)
        cuts = [*np.searchsorted(keys["hi"], _BOUNDS).tolist(), len(keys)]
        self._fan.write(keys, cuts)

    def close(self) -> None:
        """Close the files. Nothing is added after this."""
        self._fan.close()

    def remove(self) -> None:
        """Delete the files."""
        self.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def runs(self) -> Iterator[NDArray[np.void] | Path]:
        """All records, in runs that follow each other in the order of their keys; records of one key are in one run. A
        run is deleted once it is returned.

        A Path is returned instead for a file whose records all have one key and are too many for memory.
        """
        for piece in self.pieces():
            yield piece.files[0] if piece.large else piece.sorted_as(self._record)
            piece.delete()

    def pieces(self, *, of_halves: bool = False) -> Iterator[KeyRange]:
        """The same runs; where they are small, several of them in one piece. The caller deletes them.

        With `of_halves`, all records that agree in the first half of their key are in one piece.
        """
        self.close()
        key = _KEY[:1] if of_halves else _KEY
        files: list[Path] = []
        count = 0
        for path in self._fan.paths():
            for one in _files(path, 1, self.most, self._record, key):
                records = one.stat().st_size // self._record.itemsize
                if files and count + records > self.most:
                    yield KeyRange(tuple(files))
                    files, count = [], 0
                if records > self.most:
                    yield KeyRange((one,), large=True)
                else:
                    files.append(one)
                    count += records
        if files:
            yield KeyRange(tuple(files))

    def chunks(self, large: KeyRange) -> Iterator[NDArray[np.void]]:
        """The records of a large piece of halves in the order of their keys, in arrays of `most` at most."""
        for path in _files(large.files[0], _DIGITS, self.most, self._record, _KEY):
            for chunk in chunks_of(path, self.most, self._record):
                yield in_order(chunk)


def without_large(pieces: Iterator[KeyRange], large: list[KeyRange]) -> Iterator[KeyRange]:
    """The pieces that fit into memory; the others are added to `large`."""
    for piece in pieces:
        if piece.large:
            large.append(piece)
        else:
            yield piece


class _Fan:
    """Up to FAN files, created as they are needed, that records are spread over."""

    def __init__(self, stem: Path) -> None:
        self._stem = stem
        self._files: dict[int, BinaryIO] = {}

    def write(self, keys: NDArray[np.void], cuts: list[int]) -> None:
        """Append to file n the records from `cuts[n]` up to `cuts[n + 1]`."""
        flat = keys.view(np.uint8).data
        size = keys.dtype.itemsize
        for index, (start, stop) in enumerate(pairwise(cuts)):
            if start != stop:
                file = self._files.get(index)
                if file is None:
                    file = self._files[index] = self._path(index).open("wb", buffering=1 << 16)
                file.write(flat[start * size : stop * size])

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def paths(self) -> list[Path]:
        """The files with records, in the order of their numbers."""
        return [self._path(index) for index in sorted(self._files)]

    def _path(self, index: int) -> Path:
        return self._stem.with_name(f"{self._stem.name}.{index:02d}")


_BOUNDS = np.array([index << (64 - SPREAD_BITS) for index in range(FAN)], np.uint64)


def chunks_of(path: Path, most: int, record: np.dtype[np.void] = KEY) -> Iterator[NDArray[np.void]]:
    """The records of a file in their order, in arrays of `most` at most."""
    with path.open("rb") as file:
        while True:
            chunk = np.fromfile(file, record, most)
            if not len(chunk):
                return
            yield chunk


def _files(path: Path, level: int, most: int, record: np.dtype[np.void], key: tuple[str, ...]) -> Iterator[Path]:
    """The file, or those over which level `level` spreads its records, where they are too many and differ in a field
    of `key`."""
    if path.stat().st_size <= most * record.itemsize or _is_one(path, most, record, key):
        yield path
    else:
        for one in _spread(path, level, most, record):
            yield from _files(one, level + 1, most, record, key)


def in_order(piece: NDArray[np.void]) -> NDArray[np.void]:
    """The records sorted by key."""
    return piece.take(_order(piece))


def _order(run: NDArray[np.void]) -> NDArray[np.int64]:
    """The order that sorts records by key, stable: by the first half, then again the few that share it."""
    hi = np.ascontiguousarray(run["hi"])
    order = np.argsort(hi, kind="stable")  # quick, because the records of each block are in this order
    ascending = hi[order]
    same = ascending[1:] == ascending[:-1]
    if same.any():
        places = np.flatnonzero(np.concatenate(([False], same)) | np.concatenate((same, [False])))
        some = order[places]
        order[places] = some[np.lexsort((run["lo"][some], hi[some]))]
    return order


def _is_one(path: Path, most: int, record: np.dtype[np.void], key: tuple[str, ...]) -> bool:
    """Whether all records of a file agree in the fields of `key`, so that spreading them would never end."""
    first = None
    for chunk in chunks_of(path, most, record):
        first = chunk[0] if first is None else first
        if any((chunk[name] != first[name]).any() for name in key):
            return False
    return True


def _spread(path: Path, level: int, most: int, record: np.dtype[np.void]) -> list[Path]:
    """Cut a file into FAN files by the next bits of the key, their order kept."""
    fan = _Fan(path)
    try:
        for chunk in chunks_of(path, most, record):
            where = _digit(chunk, level)
            order = np.argsort(where, kind="stable")
            fan.write(chunk.take(order), np.searchsorted(where[order], np.arange(FAN + 1)).tolist())
    finally:
        fan.close()
    path.unlink()
    return fan.paths()


def _digit(keys: NDArray[np.void], level: int) -> NDArray[np.uint8]:
    """Six bits of each key: level 0 the first ones, level 10 the last four of the first half, and so on."""
    half, place = divmod(level, 11)
    bits = np.asarray(keys["lo" if half else "hi"]) >> np.uint64(max(0, 64 - SPREAD_BITS * (place + 1)))
    return (bits & np.uint64(15 if place == 10 else FAN - 1)).astype(np.uint8)
