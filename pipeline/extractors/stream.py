"""The bytes of a part: taken out of its archive, decompressed, UTF-16 as UTF-8; and the part's digest."""

from __future__ import annotations

import codecs
import hashlib
import io
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO

from pipeline import storage
from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import BUFFER_BYTES, FETCH_AGAIN, Checked, broken, decompressed, stream_of
from pipeline.models import Block, Part

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""The longest possible record: a line or a quoted cell that never ends must not fill the memory."""

ARCHIVES = ("zip", "tar")
WIDE = ("utf-16", "utf-16-le", "utf-16-be", "utf-32")
"""Encodings in which a newline is not one byte, so that a part is turned into UTF-8 before it is cut."""


def is_plain(part: Part) -> bool:
    """Whether the file has the part's bytes as they are read, so that a worker can seek to a block."""
    return not part.codecs and part.dialect.encoding not in WIDE


@contextmanager
def opened(part: Part) -> Iterator[io.BufferedReader]:
    """The decompressed part as UTF-8 (or its own single-byte encoding), byte order mark included.

    Raises UnreadableExport if the file is gone, truncated or damaged, from this call or from a read.
    """
    with ExitStack() as stack:
        stream = stack.enter_context(stored(part))
        for codec in inner_codecs(part.codecs):
            stream = stack.enter_context(decompressed(stream, codec))
        if part.dialect.encoding in WIDE:
            stream = stream_of(_as_utf8(stream, part.dialect.encoding))
        yield stack.enter_context(io.BufferedReader(Checked(stream, part.path), BUFFER_BYTES))


def inner_codecs(names: tuple[str, ...]) -> tuple[str, ...]:
    """The codecs inside the archive, or all of them if there is no archive."""
    at = max((names.index(archive) for archive in ARCHIVES if archive in names), default=-1)
    return names[at + 1 :]


@contextmanager
def stored(part: Part, *, in_places: bool = False) -> Iterator[IO[bytes]]:
    """The bytes that are digested: the file's, or the member's as the archive returns them.

    `in_places`: an object is not read from beginning to end.
    """
    if part.member:
        from pipeline.extractors import archives

        with archives.member(part.file, part.path, part.codecs, part.member) as stream:
            yield stream
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(storage.opened(part.file, part.bytes, in_places=in_places))
        except OSError as error:
            raise broken(error, part.path) from error
        yield file


@contextmanager
def seekable(part: Part) -> Iterator[IO[bytes]]:
    """The decompressed part as a file that is read at its end first, and then in places.

    A part in a container is unpacked to a temporary file. Raises UnreadableExport.
    """
    if not part.codecs:
        with stored(part, in_places=True) as plain:
            yield plain
        return
    with tempfile.TemporaryFile(prefix="backcast-") as spool, opened(part) as stream:
        shutil.copyfileobj(stream, spool, BUFFER_BYTES)
        spool.seek(0)
        yield spool


def read_range(part: Part, offset: int, length: int) -> bytes:
    """`length` bytes of a plain part from `offset`. Raises UnreadableExport if the file is shorter now."""
    try:
        content = storage.read_range(part.file, offset, length)
    except OSError as error:
        raise broken(error, part.path) from error
    if len(content) < length:
        raise UnreadableExport(
            f"{part.path} has shrunk since it was first read: it ends before byte {offset + length:,}",
            path=part.path,
            hint="wait until the export is complete, then plan again",
        )
    return content


def in_turn(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts in turn; small objects are requested a little before they are read."""
    return storage.ahead(parts, object_of)


def object_of(part: Part) -> tuple[str, int]:
    """The file of a part that is a whole object, and its size; "" for a member of an archive."""
    return "" if part.member else part.file, part.bytes


def digest_of(part: Part, cancelled: Callable[[], bool] = lambda: False) -> str:
    """sha256 of the part's stored bytes as lower-case hex; for a member, of its bytes as the archive stores them.

    `cancelled` is called for every piece of 256 KiB; if it returns True, this function returns "".
    """
    digest = hashlib.sha256()
    piece = memoryview(bytearray(BUFFER_BYTES))
    with stored(part) as stream, Checked(stream, part.path) as checked:
        while length := checked.readinto(piece):
            if cancelled():
                return ""
            digest.update(piece[:length])
    return digest.hexdigest()


def refuse_changed(parts: Sequence[Part]) -> None:
    """Raises UnreadableExport if the file of a part has changed since the plan began (`FileStatus`)."""
    for part, status in zip(parts, storage.statuses([part.file for part in parts]), strict=True):
        if isinstance(status, OSError):
            raise broken(status, part.path) from status
        if not status.is_same(part.status):
            raise UnreadableExport(
                f"{part.path} changed while it was read: it had {part.bytes:,} bytes, now {status.size:,}",
                path=part.path,
                hint="wait until the export is complete, then plan again",
            )


def too_long(part: Part, offset: int) -> UnreadableExport:
    """The error for a record that never ends."""
    unit = "line" if part.format == "jsonl" else "row (or a quote that is never closed)"
    return UnreadableExport(
        f"{part.path} has a {unit} of more than {MAX_RECORD_BYTES >> 20} MiB at byte {offset:,}",
        path=part.path,
        hint=f"correct the file at that byte, or {FETCH_AGAIN}",
    )


def content_of(part: Part, block: Block) -> bytes:
    """The bytes of a block, read from the file if the block has none. Raises UnreadableExport."""
    if block.content is not None:
        return block.content if isinstance(block.content, bytes) else bytes(block.content)
    assert is_plain(part)
    return read_range(part, block.offset, block.length)


def _as_utf8(stored: IO[bytes], encoding: str) -> Iterator[bytes]:
    """UTF-16 or UTF-32 text as UTF-8, without its byte order mark.

    A lone surrogate becomes the three bytes that UTF-8 forbids, so that only its row is rejected.
    """
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
    mark = "\ufeff"
    ended = False
    while not ended:
        piece = stored.read(BUFFER_BYTES)
        ended = not piece
        try:
            text = decoder.decode(piece, ended)
        except UnicodeDecodeError as error:
            raise EOFError(str(error)) from error
        if text:
            yield text.removeprefix(mark).encode("utf-8", "surrogatepass")
            mark = ""
