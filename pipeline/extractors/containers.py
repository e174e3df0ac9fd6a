"""Compressed streams: recognised by their first bytes, never by a name, and decompressed piece by piece.

Names can be wrong: Amplitude's `.json.gz` can be a zip, and S3 may return a `.gz` already decompressed
(docs/know/exports.md#containers, #amplitude). To add a codec, add one row to `CODECS`. Only Brotli has no magic bytes,
so `is_brotli` looks at the name too.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import UnreadableExport
from pipeline.storage import StoreError
from pipeline.text import pluralize

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BUFFER_BYTES = 256 * 1024
FETCH_AGAIN = "fetch the file again from its source, and check that it is complete"


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

    return stream_of(_streams(stored, "bzip2", bz2.BZ2Decompressor))


def _xz(stored: IO[bytes]) -> IO[bytes]:
    import lzma

    # With FORMAT_AUTO, almost anything after the first stream is read as the older .lzma.
    start = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)
    return stream_of(_streams(stored, "xz", start, padding=4))


def _zstd(stored: IO[bytes]) -> IO[bytes]:
    import zstandard

    start = zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj
    return stream_of(_streams(stored, "zstd", start))


def _brotli(stored: IO[bytes]) -> IO[bytes]:
    import pyarrow as pa

    stream = pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), "brotli")
    return stream_of(iter(lambda: stream.read(BUFFER_BYTES), b""))


_BZIP2_MAGIC = tuple(b"BZh%d" % n + tail for n in range(1, 10) for tail in (b"1AY&SY", b"\x17rE8P\x90"))
_SKIPPABLE = tuple(bytes([n, 0x2A, 0x4D, 0x18]) for n in range(0x50, 0x60))

CODECS: tuple[Codec, ...] = (
    Codec("gzip", (b"\x1f\x8b\x08",), _gzip),
    Codec("zstd", (b"\x28\xb5\x2f\xfd", *_SKIPPABLE), _zstd),
    Codec("bzip2", _BZIP2_MAGIC, _bzip2),
    Codec("xz", (b"\xfd7zXZ\x00",), _xz),
    Codec("brotli", (), _brotli),
)
_BY_NAME = {codec.name: codec for codec in CODECS}


def codec_of(head: bytes) -> str:
    """The name of the codec of a stream that starts with `head`; "" if it is not compressed."""
    return next((codec.name for codec in CODECS if head.startswith(codec.magic)), "")


def is_brotli(head: bytes, path: str) -> bool:
    """Whether a stream with this name begins with Brotli. It has no magic bytes, so the name has to end in `.br` as
    well. A file that the download already decompressed is recognised by its content."""
    if not path.lower().endswith(".br") or not head:
        return False
    with _brotli(io.BytesIO(head)) as stream:
        try:
            return bool(stream.read(1))
        except OSError as error:
            return "truncated" in str(error).lower()  # every head looks truncated at its end


def decompressed(stored: IO[bytes], name: str) -> IO[bytes]:
    """`stored` read through the codec `name`. Damage appears while reading; see `Checked`."""
    return _BY_NAME[name].open(stored)


class Damaged(ValueError):
    """The stored bytes are not what the container allows at that place."""


_BITE = 8 * 1024
"""Compressed bytes per call: 4 bytes of zstd may expand to 128 KiB, returned all at once."""
_MAGIC_ROOM = 16
"""No magic is longer."""


def _streams(stored: IO[bytes], name: str, start: Callable[[], Any], padding: int = 0) -> Iterator[bytes]:
    """The content of compressed streams (frames) one after another, in pieces; every stored byte is accounted for.

    The libraries' own readers will not do: zstandard's takes the end of a truncated file for the end of the content;
    those of bz2 and lzma drop whatever follows the first stream unless it is a whole stream: xz padding and damage
    alike. `start` returns a decompressor for the next stream. Zeros between and after streams are allowed in multiples
    of `padding` (xz file format 1.2.1, section 2.2). Raises Damaged or EOFError.
    """
    unread = b""
    count = 0
    first = True
    while True:
        zeros = 0
        while True:
            if padding and not first:
                content = unread.lstrip(b"\x00")
                zeros += len(unread) - len(content)
                unread = content
            if len(unread) >= _MAGIC_ROOM or not (piece := stored.read(_BITE)):
                break
            count += len(piece)
            unread += piece
        offset = count - len(unread)
        if zeros and zeros % padding:
            raise Damaged(f"{pluralize(zeros, 'zero byte')} before byte {offset:,} cannot be padding of {name}")
        if not unread:
            return
        if codec_of(unread) != name:
            if any(magic.startswith(unread) for magic in _BY_NAME[name].magic):
                raise EOFError(f"the {name} stream at byte {offset:,} has no end")
            raise Damaged(f"from byte {offset:,} onwards it is not {name} data")
        first = False
        decompressor = start()
        buffers_input = hasattr(decompressor, "needs_input")  # bz2 and lzma keep input until their output is read
        while not decompressor.eof:
            piece = b""
            if not buffers_input or decompressor.needs_input:
                if not unread:
                    unread = stored.read(_BITE)
                    count += len(unread)
                if not unread:
                    raise EOFError(f"the last {name} stream has no end")
                piece, unread = unread, b""
            yield decompressor.decompress(piece, BUFFER_BYTES) if buffers_input else decompressor.decompress(piece)
        unread = decompressor.unused_data


class _Pieces(io.RawIOBase):
    """The raw stream of `stream_of`."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._unread = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: WriteableBuffer) -> int:
        while not self._unread:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._unread = memoryview(piece)
        view = memoryview(target).cast("B")
        count = min(len(view), len(self._unread))
        view[:count] = self._unread[:count]
        self._unread = self._unread[count:]
        return count


def stream_of(pieces: Iterator[bytes]) -> io.BufferedReader:
    """A stream of these bytes. An error of the iterator is raised by the read that reaches it."""
    return io.BufferedReader(_Pieces(pieces), BUFFER_BYTES)


def rewound(head: bytes, stream: IO[bytes]) -> io.BufferedReader:
    """The stream from its beginning again, after its `head` was read."""
    return stream_of(chain((head,), iter(partial(stream.read, BUFFER_BYTES), b"")))


class Checked(io.RawIOBase):
    """A stream that raises UnreadableExport from a read if its container is truncated or damaged. The error says which
    file, after how many bytes, and what to do."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self._stream = stream
        self._path = path
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: WriteableBuffer) -> int:
        view = memoryview(target).cast("B")
        try:
            piece = self._stream.read(len(view))
        except UnreadableExport:
            raise
        except Exception as error:
            raise broken(error, self._path, self._count) from error
        count = len(piece)
        view[:count] = piece
        self._count += count
        return count


@contextmanager
def readable(path: str, problem: str, kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Turns whatever a library raises for a damaged file, its own errors or Python's, into UnreadableExport.

    `problem` follows the path in the message, such as `is not a whole Parquet file`.
    """
    try:
        yield
    except UnreadableExport:
        raise
    except kinds as error:
        cause = (str(error) or type(error).__name__).split("\n")[0]
        raise UnreadableExport(f"{path} {problem}: {cause}", path=path, hint=FETCH_AGAIN) from error


_DAMAGE = (OSError, zlib.error, ValueError, RuntimeError, NotImplementedError)
_CODEC_MODULES = {"zipfile", "tarfile", "zstd", "zstandard", "_lzma", "lzma", "isal", "igzip_lib"}


def broken(error: Exception, path: str, count: int = 0) -> UnreadableExport:
    """The UnreadableExport for an error of a decompressor, an archive or the disk after `count` decompressed bytes.

    Any other error is raised again.
    """
    if isinstance(error, EOFError) or "truncated" in str(error).lower() or "unexpected end of data" in str(error):
        what = f"{path} is cut short: its container ends in the middle, after {count:,} decompressed bytes"
    elif "not a zip file" in str(error):
        what = f"{path} is cut short: the directory at the end of a zip is missing"
    elif isinstance(error, PermissionError):
        return UnreadableExport(
            f"{path} cannot be read: permission denied", path=path, hint="give this account the right to read it"
        )
    elif isinstance(error, FileNotFoundError):
        return UnreadableExport(f"{path} does not exist", path=path, hint="check the path")
    elif isinstance(error, StoreError):
        hint = "check the name, the credentials and the network, then run the same command again"
        return UnreadableExport(f"{path} cannot be read from its store: {error}", path=path, hint=hint)
    elif isinstance(error, _DAMAGE) or type(error).__module__.split(".")[0] in _CODEC_MODULES:
        what = f"{path} is damaged after {count:,} decompressed bytes: {error}"
    else:
        raise error
    return UnreadableExport(what, path=path, hint=FETCH_AGAIN)
