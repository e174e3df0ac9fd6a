"""Damaged containers: the right rows, or an error, or rejected rows; never fewer rows in silence.

Every damage is made from a seed, which a failure names. What no reader could notice is left out: a stream or frame
that is missing as a whole, and single bytes of a row where its container keeps no checksum of content.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import msgspec
import pytest
import zstandard

from pipeline import extractors
from pipeline.errors import UnreadableExport
from pipeline.models import BrokenRow
from tests.support.containers import tarred

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def lines(first: int, last: int) -> bytes:
    """Rows `first` to `last`, each with its number, of unequal lengths that hardly compress."""
    noise = random.Random(first)
    return b"".join(
        b'{"id":"%d","x":"%s"}\n' % (number, "".join(noise.choices(LETTERS, k=noise.randrange(80))).encode())
        for number in range(first, last)
    )


def frames(pack: Callable[[bytes], bytes], *cuts: int) -> list[bytes]:
    return [pack(lines(first, last)) for first, last in pairwise(cuts)]


class Unseekable(io.BytesIO):
    """Makes zipfile write sizes after the members, as programs do that write to a pipe."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise OSError("not seekable")


def zipped(pieces: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b"", pipe: bool = False):
    target = Unseekable() if pipe else io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.comment = comment
        for name, content in pieces.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return target.getvalue()


def zip_(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(data)


@dataclass(frozen=True)
class Container:
    """A valid container of rows 0 to 89. `streams`: those it consists of, if it stays valid without one."""

    streams: list[bytes]
    exact: bool = True
    """Whether a checksum covers every byte of a row."""

    @property
    def content(self) -> bytes:
        return b"".join(self.streams)


ROWS = [f'"{number}"' for number in range(90)]
CUTS = (0, 30, 31, 90)
PIECES = {"a.json": lines(0, 30), "b.json": lines(30, 31), "c/d.json": lines(31, 90)}
LONG = {name.replace(".json", "x" * 150 + ".json"): content for name, content in PIECES.items()}
PACKED = {name + ".gz": zip_(content) for name, content in PIECES.items()}
SKIPPED = b"\x50\x2a\x4d\x18\x08\x00\x00\x00metadata"

CONTAINERS = {
    "gzip": Container([zip_(lines(0, 90))]),
    "gzip of many members": Container(frames(zip_, *CUTS)),
    "zstd": Container([zst(lines(0, 90))]),
    "zstd of many frames": Container([SKIPPED, *frames(zst, *CUTS)]),
    "bzip2": Container([bz2.compress(lines(0, 90))]),
    "bzip2 of many streams": Container(frames(bz2.compress, *CUTS)),
    "xz": Container([lzma.compress(lines(0, 90))]),
    "xz of many streams": Container([piece for frame in frames(lzma.compress, *CUTS) for piece in (frame, bytes(4))]),
    "zip": Container([zipped(PIECES)]),
    "zip with a comment": Container([zipped(PIECES, comment=b"an export")]),
    "zip from a pipe": Container([zipped(PIECES, pipe=True)]),
    "stored zip of gzip": Container([zipped(PACKED, zipfile.ZIP_STORED)]),
    "tar": Container([tarred(PIECES)], exact=False),
    "tar of gzip": Container([tarred(PACKED)]),
    "tar of long names": Container([tarred(LONG, tarfile.GNU_FORMAT)], exact=False),
    "tar of pax names": Container([tarred(LONG)], exact=False),
    "tar in gzip": Container([zip_(tarred(PIECES))]),
    "tar in many members": Container([zip_(tarred(PIECES)[:700]), zip_(tarred(PIECES)[700:])]),
    "tar of gzip in zstd": Container([zst(tarred(PACKED))]),
    "tar in bzip2": Container([bz2.compress(tarred(PIECES))]),
    "tar in xz": Container([lzma.compress(tarred(PIECES))]),
}


class Lost(AssertionError):
    """Rows are missing or wrong, and there is no message."""


def ids(path: Path) -> Counter[str] | None:
    """How often each row was read, by its id as JSON; None if the damage is noticed."""
    try:
        source = extractors.open_source([str(path)])
        if any(note.code == "same_file" for note in source.notes):
            return None
        found: Counter[str] = Counter()
        for part in source.parts:
            for block in extractors.blocks(part, block_bytes=1000):
                for record in extractors.rows(part, block):
                    if isinstance(record, BrokenRow):
                        return None
                    found[msgspec.json.encode(record.get("id")).decode()] += 1
    except UnreadableExport as error:
        if error.path and error.hint:
            return None
        raise
    return found


def damages(container: Container, other: bytes, seed: int, count: int) -> Iterator[tuple[str, bytes, tuple[int, ...]]]:
    """(what was done, the damaged bytes, how often every row may be there) for each damage."""
    chance = random.Random(seed)
    whole = container.content
    size = len(whole)
    ends = {0, *accumulate(map(len, container.streams))}
    for _ in range(count):
        at, until = sorted(chance.sample(range(size), 2))
        flip = chance.randrange(1, 256)
        kind = chance.choice(("flip", "flip", "flip", "cut", "pad", "join", "zeros", "hole", "twice"))
        if kind == "flip":
            yield f"byte {at} ^ {flip}", bytes([*whole[:at], whole[at] ^ flip, *whole[at + 1 :]]), (1,)
        elif kind == "cut" and at not in ends:
            yield f"cut at {at}", whole[:at], (1,)
        elif kind == "pad":
            tail = bytes(chance.choice((1, 2, 4, 100, 512, 5000)))
            tail = chance.choice((tail, chance.randbytes(len(tail)), b"\n"))
            yield f"padded by {tail[:20]!r}, {len(tail)}", whole + tail, (1,)
        elif kind == "join":
            tail = chance.choice((whole, other, whole[:at]))
            yield f"joined with {len(tail)} bytes, {at}", whole + tail, (2,) if tail in (whole, other) else (1,)
        elif kind == "zeros":
            until = min(until, at + chance.choice((1, 8, 512)))
            yield f"zeros from {at} to {until}", whole[:at] + bytes(until - at) + whole[until:], (1,)
        elif kind == "hole" and not ({at, until} <= ends):
            yield f"without {at} to {until}", whole[:at] + whole[until:], (1,)
        elif kind == "twice" and not ({at, until} <= ends):
            yield f"{at} to {until} twice", whole[:until] + whole[at:], (1,)


def check(name: str, folder: Path, seed: int, count: int) -> None:
    container = CONTAINERS[name]
    chance = random.Random(name + str(seed))
    for done, content, times in damages(container, chance.choice([*CONTAINERS.values()]).content, seed, count):
        path = folder / "export"
        path.write_bytes(content)
        found = ids(path)
        if found is None:
            continue
        right = [Counter(dict.fromkeys(ROWS, number)) for number in times]
        enough = not container.exact and any(found.total() >= expected.total() for expected in right)
        if not enough and found not in right:
            raise Lost(f"{name}, seed {seed}, {done}: {found.total()} rows of 90, in silence")


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_damaged_container_loses_no_row_in_silence(tmp_path: Path, name: str) -> None:
    """Undamaged, every row is there once; cut, padded, joined, flipped, zeroed: the right rows, an error or rejected
    rows. `make soak` tries it ten thousand times."""
    (tmp_path / "whole").write_bytes(CONTAINERS[name].content)
    assert ids(tmp_path / "whole") == Counter(ROWS)
    check(name, tmp_path, 2, 40)
