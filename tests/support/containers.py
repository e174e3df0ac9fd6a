"""Rows packed into containers and archives of every kind, and the rows read from them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import zstandard

from pipeline import extractors
from pipeline.models import Block
from tests.support.parts import opened

CONTENT = b"".join(b'{"event":"e%d","properties":{"x":"%s"}}\n' % (n, b"y" * (n % 97)) for n in range(3000))

SMALL = 4096


def zstd_frames(content: bytes) -> bytes:
    half = len(content) // 2
    return b"".join(zstandard.compress(piece) for piece in (content[:half], content[half:]))


def gzip_members(content: bytes) -> bytes:
    half = len(content) // 2
    return gzip.compress(content[:half]) + gzip.compress(b"") + gzip.compress(content[half:])


def zipped(content: bytes, method: int = zipfile.ZIP_DEFLATED, name: str = "x") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.writestr(name, content)
    return target.getvalue()


def tarred(members: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


PACKED: dict[str, tuple[Callable[[bytes], bytes], tuple[str, ...]]] = {
    "gzip": (gzip.compress, ("gzip",)),
    "gzip of many members": (gzip_members, ("gzip",)),
    "zstd": (zstandard.compress, ("zstd",)),
    "zstd of many frames": (zstd_frames, ("zstd",)),
    "bzip2": (bz2.compress, ("bzip2",)),
    "bzip2 of many streams": (lambda data: bz2.compress(data[:500]) + bz2.compress(data[500:]), ("bzip2",)),
    "xz": (lzma.compress, ("xz",)),
    "zip": (zipped, ("zip",)),
    "stored zip": (lambda data: zipped(data, zipfile.ZIP_STORED), ("zip",)),
    "zip of gzip": (lambda data: zipped(gzip.compress(data)), ("zip", "gzip")),
    "tar": (lambda data: tarred({"x": data}), ("tar",)),
    "tar in gzip": (lambda data: gzip.compress(tarred({"x": data})), ("gzip", "tar")),
    "tar in zstd": (lambda data: zstandard.compress(tarred({"x": data})), ("zstd", "tar")),
    "gzip in tar in gzip": (lambda data: gzip.compress(tarred({"x": gzip.compress(data)})), ("gzip", "tar", "gzip")),
}


def contents(path: Path) -> list[Block]:
    return list(extractors.blocks(opened(path), block_bytes=SMALL))


TRUNCATED = ["gzip", "zstd", "bzip2", "xz", "tar", "tar in gzip", "zip", "stored zip", "zip of gzip"]


_LINES = CONTENT.splitlines(keepends=True)

THIRDS = [b"".join(_LINES[:1000]), b"".join(_LINES[1000:1010]), b"".join(_LINES[1010:])]


def unlisted(method: int) -> bytes:
    """A zip of three members whose directory has lost the second."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for number, piece in enumerate(THIRDS):
            archive.writestr(f"{number}.json", piece)
        del archive.filelist[1]
    return target.getvalue()


def brotli(content: bytes) -> bytes:
    return pa.Codec("brotli").compress(content, asbytes=True)
