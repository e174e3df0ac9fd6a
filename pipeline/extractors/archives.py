"""Archives whose members are parts: zip and tar, read member by member, with every byte of the file accounted for.

A compressed tar can only be read from its beginning, so its members stay in the tar's order, and the reader stays open
between one member and the next. Nothing is unpacked to disk, so no member's name can lead out of a folder.
"""

from __future__ import annotations

import atexit
import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import IO, Literal, NamedTuple, Self

from pipeline import storage
from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import BUFFER_BYTES, Damaged, broken, decompressed, stream_of
from pipeline.storage import FileStatus

UNPACK_BOTH = "unpack both under different names and name the folder instead; the second may be a newer copy"


class Member(NamedTuple):
    """An entry of an archive: its name, its size as the archive states it, and its stream, to be read before the next.

    `stream` is None for a link or a device.
    """

    name: str
    size: int
    stream: IO[bytes] | None


@contextmanager
def member(file: str, path: str, codecs: tuple[str, ...], name: str) -> Iterator[IO[bytes]]:
    """The bytes of one member, without a zip's own compression.

    Raises UnreadableExport when the archive is gone or damaged, or no longer has this member.
    """
    with ExitStack() as stack:
        try:
            if codecs[0] == "zip":
                stream: IO[bytes] | None = stack.enter_context(_zip(*_state(file)).open(name))
            elif codecs[0] == "tar":
                stream = stack.enter_context(_tar_file(file, _tar_index(*_state(file))[name]))
            else:
                stream = None
        except KeyError:
            raise _lost(path) from None
        except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, RuntimeError, NotImplementedError) as error:
            raise broken(error, path) from error
        yield stream if stream is not None else stack.enter_context(_from_stream(file, path, codecs, name))


def members(file: str, path: str, codecs: tuple[str, ...]) -> Iterator[Member]:
    """Each file in the archive, in the order of the archive.

    Raises UnreadableExport for a truncated, damaged or encrypted archive, for bytes that belong to no member and to
    nothing else that the format knows, and for two members with the same name.
    """
    names: set[str] = set()
    walk = _zip_members(file, path) if codecs[0] == "zip" else _tar_members(file, codecs)
    try:
        for entry in walk:
            if entry.name in names:
                raise UnreadableExport(f"{path} contains two files named {entry.name}", path=path, hint=UNPACK_BOTH)
            names.add(entry.name)
            yield entry
    except UnreadableExport:
        raise
    except Exception as error:
        raise broken(error, path) from error


def _lost(path: str) -> UnreadableExport:
    return UnreadableExport(
        f"{path} is no longer in its archive", path=path, hint="plan again: the archive has changed"
    )


def _state(file: str) -> tuple[str, FileStatus, int]:
    """The key of an open archive in a cache: an archive is opened again when it changes, and in a forked process."""
    return file, storage.status(file), os.getpid()


# -- zip -------------------------------------------------------------------------------------------------


class _Zip(zipfile.ZipFile):
    """A zip that closes its file, which the library only does if it opened the file by its path."""

    def __init__(self, file: str) -> None:
        self._file = storage.opened(file)
        try:
            super().__init__(self._file)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        super().close()
        self._file.close()


@lru_cache(maxsize=1)
def _zip(file: str, status: FileStatus, process: int) -> zipfile.ZipFile:
    """The archive, kept open between members: its directory may list 20,000 of them."""
    return _Zip(file)


def _zip_members(file: str, path: str) -> Iterator[Member]:
    archive = _zip(*_state(file))
    _account(archive, file)
    for entry in archive.infolist():
        if entry.is_dir() and not entry.file_size:
            continue
        if entry.flag_bits & 1:
            raise UnreadableExport(
                f"{path} is encrypted with a password",
                path=path,
                hint="unpack it with the password, then name the folder",
            )
        with archive.open(entry) as stream:  # compares the name with that of the member's own header
            yield Member(entry.filename, entry.file_size, stream)


def _account(archive: zipfile.ZipFile, file: str) -> None:
    """Raises Damaged or EOFError unless each byte of a zip belongs to a member that its directory lists, to the
    directory or to the end record, or is a zero between them.

    The library reads only the directory: it ignores members that a damaged directory does not list, and a whole zip in
    front of the last one. (Layout: APPNOTE.TXT 6.3.10, sections 4.3.6 to 4.3.16.)
    """
    with storage.opened(file) as raw:
        size = raw.seek(0, os.SEEK_END)
        first = raw.seek(max(0, size - _ZIP_END - _ZIP_COMMENT))
        tail = raw.read()
        at = tail.rindex(b"PK\x05\x06")  # the library searches for the last one, too
        end = first + at + _ZIP_END + int.from_bytes(tail[at + _ZIP_END - 2 : at + _ZIP_END], "little")
        if end > size:
            raise EOFError("the zip ends inside its comment")
        if end < size:
            raise Damaged(f"bytes from {end:,} onwards come after the end of the zip")
        raw.seek(0)
        position = len(_SPANNED) if raw.read(len(_SPANNED)) == _SPANNED else 0
        for entry in sorted(archive.infolist(), key=lambda entry: entry.header_offset):
            _refuse_gap(raw, position, entry.header_offset)
            raw.seek(entry.header_offset)
            header = raw.read(_ZIP_LOCAL)
            names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
            position = entry.header_offset + _ZIP_LOCAL + names + entry.compress_size
            if entry.flag_bits & _SIZES_BEHIND:
                raw.seek(position)
                position += _sizes_behind(raw.read(24), entry)
        _refuse_gap(raw, position, archive.start_dir)


_ZIP_LOCAL, _ZIP_END, _ZIP_COMMENT = 30, 22, 2**16
"""Fixed bytes of the header before a member and of the end record; the most bytes of the comment after it."""
_SIZES_BEHIND = 1 << 3
_SPANNED = b"PK\x07\x08"


def _sizes_behind(stored: bytes, entry: zipfile.ZipInfo) -> int:
    """The length of the checksum and sizes that a program writing to a pipe adds after a member, or 0.

    A signature before them is optional, and a size may have 4 or 8 bytes.
    """
    for width in (8, 4):
        sizes = (entry.compress_size, entry.file_size)
        if max(sizes) < 1 << (8 * width):
            sums = entry.CRC.to_bytes(4, "little") + b"".join(size.to_bytes(width, "little") for size in sizes)
            for record in (_SPANNED + sums, sums):
                if stored.startswith(record):
                    return len(record)
    return 0


def _refuse_gap(raw: IO[bytes], position: int, until: int) -> None:
    """Raises Damaged unless all bytes from `position` to `until` are zero."""
    if until < position:
        raise Damaged(f"the record at byte {until:,} of the zip overlaps the one before it")
    raw.seek(position)
    while position < until:
        piece = raw.read(min(BUFFER_BYTES, until - position))
        if content := piece.lstrip(b"\x00"):
            position += len(piece) - len(content)
            raise Damaged(f"the bytes of the zip from {position:,} onwards belong to no member in its directory")
        position += len(piece)


# -- tar -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _tar_index(file: str, status: FileStatus, process: int) -> dict[str, tarfile.TarInfo]:
    """The files of an uncompressed tar, by name."""
    with storage.opened(file) as raw, _Tar.open(fileobj=raw, mode="r:", ignore_zeros=True) as archive:
        return {entry.name: entry for entry in archive if entry.isfile()}


@contextmanager
def _tar_file(file: str, entry: tarfile.TarInfo) -> Iterator[IO[bytes] | None]:
    """One file of an uncompressed tar."""
    if entry.issparse():
        with storage.opened(file) as raw, tarfile.open(fileobj=raw, mode="r:") as archive:
            yield archive.extractfile(entry)
        return
    with storage.opened(file) as raw:
        raw.seek(entry.offset_data)
        yield stream_of(_slice(raw, entry.size))


def _slice(raw: IO[bytes], size: int) -> Iterator[bytes]:
    """The next `size` bytes of a file, as `extractfile` reads them, at half the cost."""
    while size:
        piece = raw.read(min(size, BUFFER_BYTES))
        if not piece:
            raise EOFError("the tar ends inside a member")
        size -= len(piece)
        yield piece


class _Header(tarfile.TarInfo):
    """A tar header that distinguishes a truncated or damaged tar from a complete one; the library takes both for the
    end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        assert isinstance(archive, _Tar)
        try:
            header = super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            kind = type(error).__name__
            if kind == "EOFHeaderError":
                archive.zeros += 1
                raise
            if kind == "EmptyHeaderError" and archive.zeros:
                raise
            if kind in ("EmptyHeaderError", "TruncatedHeaderError"):
                raise EOFError("the tar has no end mark") from None
            raise tarfile.ReadError(f"{error}, at byte {archive.offset:,} of the tar") from None
        if archive.zeros == 1:
            raise tarfile.ReadError(f"a block of zeros instead of a header, before byte {archive.offset:,} of the tar")
        archive.zeros = 0
        return header


class _Tar(tarfile.TarFile):
    """A tar read to the end of its file: at least one block of zeros ends it; after two, another tar may follow.

    Open it with `ignore_zeros`, so that the library continues; `_Header` refuses whatever else this would let through.
    """

    tarinfo = _Header
    zeros = 0
    """Blocks of zeros since the last member."""


def _tar_members(file: str, codecs: tuple[str, ...]) -> Iterator[Member]:
    with ExitStack() as stack:
        cursor = _Cursor(file, codecs, stack)
        while entry := cursor.next():
            yield Member(entry.name, entry.size, cursor.archive.extractfile(entry) if entry.isfile() else None)


class _Cursor:
    """A position in a tar: files before it are gone, files after it can still be read."""

    def __init__(self, file: str, codecs: tuple[str, ...], stack: ExitStack) -> None:
        self.passed: set[str] = set()
        raw = stack.enter_context(storage.opened(file))
        plain = codecs[0] == "tar"
        inner = raw if plain else stack.enter_context(decompressed(raw, codecs[0]))
        mode: Literal["r:", "r|"] = "r:" if plain else "r|"
        self.archive = stack.enter_context(_Tar.open(fileobj=inner, mode=mode, bufsize=BUFFER_BYTES, ignore_zeros=True))

    def next(self) -> tarfile.TarInfo | None:
        """The next file or link; None at the tar's end. Raises Damaged for any other kind of entry that has content."""
        while entry := self.archive.next():
            self.archive.members.clear()  # type: ignore[attr-defined]  # tarfile stores every header otherwise
            readable = entry.isfile() or entry.isdir() or entry.issym() or entry.islnk() or entry.isdev()
            if not readable and entry.size:
                kind = entry.type.decode("latin-1")
                raise Damaged(f"{entry.name} has content and the type {kind!r}, which cannot be read")
            if not entry.isdir():
                self.passed.add(entry.name)
                return entry
        return None


_parked: tuple[object, _Cursor, ExitStack] | None = None


@atexit.register
def _close_parked() -> None:
    global _parked
    if _parked:
        _parked[2].close()
    _parked = None


@contextmanager
def _from_stream(file: str, path: str, codecs: tuple[str, ...], name: str) -> Iterator[IO[bytes]]:
    """A member of a compressed tar: read on from the end of the previous member, if it comes later."""
    global _parked
    try:
        key = (_state(file), codecs)
        if _parked and _parked[0] == key and name not in _parked[1].passed:
            _, cursor, stack = _parked
            _parked = None
        else:
            _close_parked()
            with ExitStack() as opened:
                cursor = _Cursor(file, codecs, opened)
                stack = opened.pop_all()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise broken(error, path) from error
    with stack:
        try:
            while (entry := cursor.next()) and entry.name != name:
                pass
        except Exception as error:
            raise broken(error, path) from error
        if entry is None:
            raise _lost(path)
        stream = cursor.archive.extractfile(entry)
        assert stream is not None
        yield stream
        _close_parked()  # a member of another archive may have been parked while this one was read
        _parked = (key, cursor, stack.pop_all())
