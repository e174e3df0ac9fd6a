"""Compressed streams: known by their first bytes, never by a name, and taken off without holding them whole.

Names lie: Amplitude's `.json.gz` can be a zip, S3 may hand a `.gz` back already decompressed
(export-formats 1.4, 3.1). Adding a codec is one row in `CODECS`.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import UnreadableExport

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

    return bz2.BZ2File(stored, "rb")


def _xz(stored: IO[bytes]) -> IO[bytes]:
    import lzma

    return lzma.LZMAFile(stored, "rb")


def _zstd(stored: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(_ZstdFrames(stored), BUFFER_BYTES)


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


class _ZstdFrames(io.RawIOBase):
    """Zstandard frames one after the other.

    Why not the library's own reader: it takes the end of a truncated file for the end of its content.
    Input goes in by small bites, because a bite of 4 bytes may mean 128 KiB of output.
    """

    BITE = 8 * 1024

    def __init__(self, stored: IO[bytes]) -> None:
        import zstandard

        self._stored = stored
        self._library = zstandard.ZstdDecompressor(max_window_size=2**31)
        self._frame: Any = self._library.decompressobj()
        self._started = False
        self._input = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: WriteableBuffer) -> int:
        view = memoryview(target).cast("B")
        while not self._ready:
            if not self._more():
                return 0
        taken = min(len(view), len(self._ready))
        view[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        return taken

    def _more(self) -> bool:
        bite = self._input or self._stored.read(self.BITE)
        self._input = b""
        if not bite:
            if self._started:
                raise EOFError("a zstd frame has no end")
            return False
        self._ready = memoryview(self._frame.decompress(bite))
        self._started = True
        if self._frame.eof:
            self._input = self._frame.unused_data
            self._frame = self._library.decompressobj()
            self._started = False
        return True


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
