"""Compressed streams: known by their first bytes, never by a name, and taken off without holding them whole.

Names lie: Amplitude's `.json.gz` can be a zip, S3 may hand a `.gz` back already decompressed
(docs/know/exports.md#containers, #amplitude). Adding a codec is one row in `CODECS`.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import UnreadableExport
from pipeline.text import pluralize

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BUFFER_BYTES = 256 * 1024
FETCH_AGAIN = "fetch the file again from where it was exported, and check that it is complete"


class Codec(NamedTuple):
    """One way to compress a stream: the magic bytes it starts with, and how to read through it."""

    name: str
    magic: tuple[bytes, ...]
    open: Callable[[IO[bytes]], IO[bytes]]


def _gzip(stored: IO[bytes]) -> IO[bytes]:
    reader: Any
    try:
        from isal.igzip import IGzipFile as reader
    except ImportError:  # isal has no wheel for a few machines
        from gzip import GzipFile as reader
    stream: IO[bytes] = reader(fileobj=stored, mode="rb")
    return stream


def _bzip2(stored: IO[bytes]) -> IO[bytes]:
    import bz2

    return io.BufferedReader(_Streams(stored, "bzip2", bz2.BZ2Decompressor), BUFFER_BYTES)


def _xz(stored: IO[bytes]) -> IO[bytes]:
    import lzma

    # Not FORMAT_AUTO: that one reads almost anything after the first stream as the older .lzma.
    start = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)
    return io.BufferedReader(_Streams(stored, "xz", start, padding=4), BUFFER_BYTES)


def _zstd(stored: IO[bytes]) -> IO[bytes]:
    import zstandard

    start = zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj
    return io.BufferedReader(_Streams(stored, "zstd", start), BUFFER_BYTES)


_BZIP2_MAGIC = tuple(b"BZh%d" % n + tail for n in range(1, 10) for tail in (b"1AY&SY", b"\x17rE8P\x90"))
_SKIPPABLE = tuple(bytes([n, 0x2A, 0x4D, 0x18]) for n in range(0x50, 0x60))

CODECS: tuple[Codec, ...] = (
    Codec("gzip", (b"\x1f\x8b\x08",), _gzip),
    Codec("zstd", (b"\x28\xb5\x2f\xfd", *_SKIPPABLE), _zstd),
    Codec("bzip2", _BZIP2_MAGIC, _bzip2),
    Codec("xz", (b"\xfd7zXZ\x00",), _xz),
)
_BY_NAME = {codec.name: codec for codec in CODECS}


def codec_of(head: bytes) -> str:
    """The name of the codec a stream that starts with `head` is compressed by, or ""."""
    return next((codec.name for codec in CODECS if head.startswith(codec.magic)), "")


def decompressed(stored: IO[bytes], name: str) -> IO[bytes]:
    """`stored` read through the codec `name`. Damage shows while reading; see `Checked`."""
    return _BY_NAME[name].open(stored)


class Damaged(ValueError):
    """What is stored is not what its container allows at that place."""


class _Streams(io.RawIOBase):
    """Compressed streams (frames) one after the other, accounted for to the last stored byte.

    Why not the libraries' own readers: zstandard's takes the end of a truncated file for the end of its content; those
    of bz2 and lzma drop what follows the first stream unless it begins a whole one, xz padding and damage alike.
    `start` gives a decompressor for the next stream. Zeros between and after streams are allowed in multiples of
    `padding` (xz file format 1.2.1, section 2.2). Input goes in by small bites, because to zstd a bite of 4 bytes
    may mean 128 KiB of output, and it gives all of that at once.
    """

    BITE = 8 * 1024
    HEAD = 16
    """No magic is longer."""

    def __init__(self, stored: IO[bytes], name: str, start: Callable[[], Any], padding: int = 0) -> None:
        self._stored = stored
        self._name = name
        self._start = start
        self._padding = padding
        self._stream: Any = None
        self._first = True
        self._taken = 0
        self._input = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: WriteableBuffer) -> int:
        view = memoryview(target).cast("B")
        while not self._ready:
            if self._stream is None and not self._begin():
                return 0
            self._more()
        taken = min(len(view), len(self._ready))
        view[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        return taken

    def _bite(self) -> bytes:
        piece = self._stored.read(self.BITE)
        self._taken += len(piece)
        return piece

    def _begin(self) -> bool:
        """Go to the next stream; False where the file ends. Raises Damaged for anything else."""
        zeros = 0
        while True:
            if self._padding and not self._first:
                kept = self._input.lstrip(b"\x00")
                zeros += len(self._input) - len(kept)
                self._input = kept
            if len(self._input) >= self.HEAD or not (piece := self._bite()):
                break
            self._input += piece
        here = self._taken - len(self._input)
        if zeros and zeros % self._padding:
            raise Damaged(f"{pluralize(zeros, 'zero byte')} before byte {here:,} cannot be padding of {self._name}")
        if not self._input:
            return False
        if codec_of(self._input) != self._name:
            if any(magic.startswith(self._input) for magic in _BY_NAME[self._name].magic):
                raise EOFError(f"the {self._name} stream at byte {here:,} has no end")
            raise Damaged(f"what is stored from byte {here:,} on is no {self._name} stream")
        self._stream = self._start()
        self._first = False
        return True

    def _more(self) -> None:
        stream = self._stream
        in_pieces = hasattr(stream, "needs_input")  # bz2 and lzma keep input until its output was asked for
        bite = b""
        if not in_pieces or stream.needs_input:
            bite = self._input or self._bite()
            self._input = b""
            if not bite:
                raise EOFError(f"the last {self._name} stream has no end")
        self._ready = memoryview(stream.decompress(bite, BUFFER_BYTES) if in_pieces else stream.decompress(bite))
        if stream.eof:
            self._input = stream.unused_data
            self._stream = None


class Rewound(io.RawIOBase):
    """A stream that gives `head` again before the rest, so that what was looked at is still there to read."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, target: WriteableBuffer) -> int:
        view = memoryview(target).cast("B")
        if not self._head:
            return _fill(self._rest, view)
        taken = min(len(view), len(self._head))
        view[:taken] = self._head[:taken]
        self._head = self._head[taken:]
        return taken


class Checked(io.RawIOBase):
    """A stream whose damage is told as the export's: which file, after how many bytes, and what to do.

    Raises UnreadableExport from any read that meets a truncated or damaged container.
    """

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self._stream = stream
        self._path = path
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: WriteableBuffer) -> int:
        try:
            count = _fill(self._stream, memoryview(target).cast("B"))
        except UnreadableExport:
            raise
        except Exception as error:
            raise broken(error, self._path, self._given) from error
        self._given += count
        return count


def _fill(stream: IO[bytes], view: memoryview) -> int:
    piece = stream.read(len(view))
    count = len(piece)
    view[:count] = piece
    return count


_DAMAGE = (OSError, zlib.error, ValueError, RuntimeError, NotImplementedError)
_CODEC_MODULES = {"zipfile", "tarfile", "zstd", "zstandard", "_lzma", "lzma", "isal", "igzip_lib"}


def broken(error: Exception, path: str, given: int) -> UnreadableExport:
    """The UnreadableExport for what a decompressor, an archive or the disk said after `given` bytes."""
    if isinstance(error, EOFError) or "truncated" in str(error) or "unexpected end of data" in str(error):
        what = f"{path} is cut short: its container ends in the middle, {given:,} decompressed bytes in"
    elif "not a zip file" in str(error):
        what = f"{path} is cut short: a zip keeps its directory at its end, and there is none"
    elif isinstance(error, PermissionError):
        return UnreadableExport(f"{path} may not be read", path=path, hint="give this account the right to")
    elif isinstance(error, FileNotFoundError):
        hint = "check the path; --source-root finds parts that moved"
        return UnreadableExport(f"{path} is not there", path=path, hint=hint)
    elif isinstance(error, _DAMAGE) or type(error).__module__.split(".")[0] in _CODEC_MODULES:
        what = f"{path} is damaged, {given:,} decompressed bytes in: {error}"
    else:
        raise error
    return UnreadableExport(what, path=path, hint=FETCH_AGAIN)
