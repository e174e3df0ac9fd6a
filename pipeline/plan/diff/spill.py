"""Events of two plans on disk, until those of one key are matched.

Workers write what they cannot match within a block into files by the first bits of its key, compressed, each process
into files of its own. Later each pair of files is read on its own, so memory does not grow with the export.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

SIDES = ("a", "b")
MOST_BYTES = 48 * 1024 * 1024
"""A file should have about so many bytes of events."""
MOST_FILES = 4_096
_LEVEL = 1

Tags = NDArray[np.uint64]


class Entry(NamedTuple):
    """An event: the 16 bytes that it is matched by, its phase, its row (0 where no other plan has the same row), and
    its encoded bytes."""

    key: bytes
    phase: str
    tag: int
    event: bytes


class Spill(NamedTuple):
    """The files of one comparison: a folder, and over how many files each side is spread (a power of two)."""

    folder: str
    fan: int

    @classmethod
    def of(cls, folder: Path, size: int) -> Spill:
        """Files for `size` bytes of events on one side."""
        wanted = max(1, -(-size // MOST_BYTES))
        return cls(str(folder), min(MOST_FILES, 1 << (wanted - 1).bit_length()))

    def write(self, side: str, entries: Iterable[Entry]) -> None:
        """Add entries to this process's files of a side."""
        spread: dict[int, list[Entry]] = {}
        for entry in entries:
            spread.setdefault(int.from_bytes(entry.key[:4], "big") % self.fan, []).append(entry)
        compress = zstandard.ZstdCompressor(_LEVEL).compress
        for number, some in spread.items():
            frame = compress(msgspec.msgpack.encode(some))
            with self._path(side, number, str(os.getpid())).open("ab") as file:
                file.write(len(frame).to_bytes(8, "big") + frame)

    def read(self, side: str, number: int) -> Iterator[Entry]:
        """The entries of one file of a side, of all processes."""
        decode = msgspec.msgpack.Decoder(list[Entry]).decode
        decompress = zstandard.ZstdDecompressor().decompress
        for path in sorted(Path(self.folder).glob(self._path(side, number, "*").name)):
            with path.open("rb") as file:
                while length := file.read(8):
                    yield from decode(decompress(file.read(int.from_bytes(length, "big"))))

    def numbers(self) -> Iterator[int]:
        """The files that have something, on either side."""
        found = {int(path.name.split("-")[1]) for side in SIDES for path in Path(self.folder).glob(f"{side}-*")}
        yield from sorted(found)

    def _path(self, side: str, number: int, process: str) -> Path:
        return Path(self.folder) / f"{side}-{number:04d}-{process}"


class RowTags:
    """Rows of which each plan has an event that the other has not, on disk; `common` counts those of both."""

    FAN = 64

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, side: str, tags: Tags) -> None:
        for number in np.unique(tags % self.FAN).tolist():
            with self._path(side, number).open("ab") as file:
                file.write(tags[tags % self.FAN == number].tobytes())

    def common(self) -> int:
        """How many rows both sides have."""
        return sum(len(np.intersect1d(self._read("a", number), self._read("b", number))) for number in range(self.FAN))

    def _read(self, side: str, number: int) -> Tags:
        path = self._path(side, number)
        return np.fromfile(path, np.uint64) if path.exists() else np.empty(0, np.uint64)

    def _path(self, side: str, number: int) -> Path:
        return self._folder / f"tags-{side}-{number:02d}"


def tags_of(tags: Sequence[int]) -> Tags:
    """Row tags as an array, without those of 0."""
    found = np.array(tags, np.uint64)
    return found[found > 0]
