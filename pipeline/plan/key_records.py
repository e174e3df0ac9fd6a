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
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipeline.transform.event_keys import KEY

SPREAD_BITS = 6
FAN = 1 << SPREAD_BITS
MAX_RECORDS = 400_000
"""A file with more records is spread again before it is sorted: 32 MB of records, and as much again for their order."""


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
        self.close()
        for path in self._fan.paths():
            yield from _runs(path, 1, self.most, self._record)


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


def _runs(path: Path, level: int, most: int, record: np.dtype[np.void]) -> Iterator[NDArray[np.void] | Path]:
    if path.stat().st_size <= most * record.itemsize:
        run = np.fromfile(path, record)
        path.unlink()
        yield run.take(_order(run))
    elif _is_one(path, most, record):
        yield path
        path.unlink()
    else:
        spread = _spread(path, level, most, record)
        path.unlink()
        for one in spread:
            yield from _runs(one, level + 1, most, record)


def _order(run: NDArray[np.void]) -> NDArray[np.int64]:
    """The order that sorts records by key, stable: by the first half, then again the few that share it."""
    hi = np.ascontiguousarray(run["hi"])
    order = np.argsort(hi)
    ascending = hi[order]
    same = ascending[1:] == ascending[:-1]
    if same.any():
        places = np.flatnonzero(np.concatenate(([False], same)) | np.concatenate((same, [False])))
        some = np.sort(order[places])
        order[places] = some[np.lexsort((run["lo"][some], hi[some]))]
    return order


def _is_one(path: Path, most: int, record: np.dtype[np.void]) -> bool:
    """Whether all records of a file have one key, so that spreading them would never end."""
    first = None
    for chunk in chunks_of(path, most, record):
        first = chunk[0] if first is None else first
        if (chunk["hi"] != first["hi"]).any() or (chunk["lo"] != first["lo"]).any():
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
    return fan.paths()


def _digit(keys: NDArray[np.void], level: int) -> NDArray[np.uint8]:
    """Six bits of each key: level 0 the first ones, level 10 the last four of the first half, and so on."""
    half, place = divmod(level, 11)
    bits = np.asarray(keys["lo" if half else "hi"]) >> np.uint64(max(0, 64 - SPREAD_BITS * (place + 1)))
    return (bits & np.uint64(15 if place == 10 else FAN - 1)).astype(np.uint8)
