"""Archives whose members are parts: zip and tar, read in place, member by member, and accounted for to the last byte.

A compressed tar can only be read from its beginning; so its members keep the tar's order, and the place
reached after one member is kept for the next. Nothing is unpacked to disk, so no member's name can lead
anywhere.
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

from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import BUFFER_BYTES, Damaged, broken, decompressed, stream_of

UNPACK_BOTH = "unpack them under two names and name the folder instead; the second may be a newer copy of the first"


class Member(NamedTuple):
    """An entry of an archive: its name, its size as the archive gives it, and its stream to read now.

    `stream` is None for what is no file (a link, a device).
    """

    name: str
    size: int
    stream: IO[bytes] | None


@contextmanager
def member(file: str, path: str, codecs: tuple[str, ...], name: str) -> Iterator[IO[bytes]]:
    """The bytes of one member as the archive gives them (a zip's own compression taken off).

    Raises UnreadableExport when the archive is gone or damaged, or has lost the member.
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
    """Each file in the archive: a zip's and a tar's in the order of the archive.

    Raises UnreadableExport for a truncated, damaged or locked archive, for bytes of the file that belong to no member
    and to nothing else that the format knows, and for two members of one name.
    """
    names: set[str] = set()
    walk = _zip_members(file, path) if codecs[0] == "zip" else _tar_members(file, codecs)
    try:
        for found in walk:
            if found.name in names:
                raise UnreadableExport(
                    f"{path} holds two members of the name {found.name}", path=path, hint=UNPACK_BOTH
                )
            names.add(found.name)
            yield found
    except UnreadableExport:
        raise
    except Exception as error:
        raise broken(error, path) from error


def _lost(path: str) -> UnreadableExport:
    return UnreadableExport(
        f"{path} is not in its archive any more", path=path, hint="the archive has changed: plan again"
    )


def _state(file: str) -> tuple[str, int, int, int]:
    """What an open archive is remembered by: it is opened anew when it changes, and in a forked process."""
    status = os.stat(file)
    return file, status.st_size, status.st_mtime_ns, os.getpid()


# -- zip -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _zip(file: str, size: int, mtime_ns: int, process: int) -> zipfile.ZipFile:
    """The archive, kept open from one member to the next: its directory may name 20,000 of them."""
    return zipfile.ZipFile(file)


def _zip_members(file: str, path: str) -> Iterator[Member]:
    archive = _zip(*_state(file))
    _account(archive, file)
    for entry in archive.infolist():
        if entry.is_dir() and not entry.file_size:
            continue
        if entry.flag_bits & 1:
            raise UnreadableExport(
                f"{path} is locked with a password",
                path=path,
                hint="unpack it with its password, and name the folder",
            )
        with archive.open(entry) as stream:  # compares the name with the one that stands before the member
            yield Member(entry.filename, entry.file_size, stream)


def _account(archive: zipfile.ZipFile, file: str) -> None:
    """Raises Damaged or EOFError unless each byte of a zip belongs to a member that its directory lists, to the
    directory or to the end record; zeros between them hold nothing.

    The library goes by the directory alone: it passes over members that a damaged directory does not list, and over
    a whole zip before the last one. (Layout: APPNOTE.TXT 6.3.10, sections 4.3.6 to 4.3.16.)
    """
    size = os.path.getsize(file)
    with open(file, "rb") as raw:
        first = raw.seek(max(0, size - _ZIP_END - _ZIP_COMMENT))
        tail = raw.read()
        at = tail.rindex(b"PK\x05\x06")  # as the library searches for it
        end = first + at + _ZIP_END + int.from_bytes(tail[at + _ZIP_END - 2 : at + _ZIP_END], "little")
        if end > size:
            raise EOFError("the zip ends inside its comment")
        if end < size:
            raise Damaged(f"what lies from byte {end:,} on comes after the end of the zip")
        raw.seek(0)
        place = len(_SPANNED) if raw.read(len(_SPANNED)) == _SPANNED else 0
        for entry in sorted(archive.infolist(), key=lambda entry: entry.header_offset):
            _refuse_gap(raw, place, entry.header_offset)
            raw.seek(entry.header_offset)
            header = raw.read(_ZIP_LOCAL)
            names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
            place = entry.header_offset + _ZIP_LOCAL + names + entry.compress_size
            if entry.flag_bits & _SIZES_BEHIND:
                raw.seek(place)
                place += _sizes_behind(raw.read(24), entry)
        _refuse_gap(raw, place, archive.start_dir)


_ZIP_LOCAL, _ZIP_END, _ZIP_COMMENT = 30, 22, 2**16
"""Bytes of the header before a member and of the record at the end, without what varies in length; at most so many
follow that record."""
_SIZES_BEHIND = 1 << 3
_SPANNED = b"PK\x07\x08"


def _sizes_behind(found: bytes, entry: zipfile.ZipInfo) -> int:
    """The length of the checksum and the sizes that a program writing to a pipe puts behind a member; 0 without them.

    The format lets the writer choose whether a signature precedes them, and 4 or 8 bytes a size.
    """
    for width in (8, 4):
        sizes = (entry.compress_size, entry.file_size)
        if max(sizes) < 1 << (8 * width):
            sums = entry.CRC.to_bytes(4, "little") + b"".join(size.to_bytes(width, "little") for size in sizes)
            for record in (_SPANNED + sums, sums):
                if found.startswith(record):
                    return len(record)
    return 0


def _refuse_gap(raw: IO[bytes], place: int, until: int) -> None:
    """Raises Damaged unless nothing but zeros lies from `place` to `until`."""
    if until < place:
        raise Damaged(f"what lies at byte {until:,} of the zip is taken up already")
    raw.seek(place)
    while place < until:
        piece = raw.read(min(BUFFER_BYTES, until - place))
        if kept := piece.lstrip(b"\x00"):
            place += len(piece) - len(kept)
            raise Damaged(f"what lies from byte {place:,} of the zip on is in no member that its directory lists")
        place += len(piece)


# -- tar -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _tar_index(file: str, size: int, mtime_ns: int, process: int) -> dict[str, tarfile.TarInfo]:
    """The files of a tar that is not compressed, by name."""
    with _Tar.open(file, "r:", ignore_zeros=True) as archive:
        return {entry.name: entry for entry in archive if entry.isfile()}


@contextmanager
def _tar_file(file: str, entry: tarfile.TarInfo) -> Iterator[IO[bytes] | None]:
    """A file of a tar that is not compressed."""
    if entry.issparse():
        with tarfile.open(file, "r:") as archive:
            yield archive.extractfile(entry)
        return
    with open(file, "rb") as raw:
        raw.seek(entry.offset_data)
        yield stream_of(_slice(raw, entry.size))


def _slice(raw: IO[bytes], size: int) -> Iterator[bytes]:
    """The next `size` bytes of a file: what `extractfile` reads, at half the cost."""
    while size:
        piece = raw.read(min(size, BUFFER_BYTES))
        if not piece:
            raise EOFError("the tar ends inside a member")
        size -= len(piece)
        yield piece


class _Header(tarfile.TarInfo):
    """A tar header that tells a cut or damaged tar from one that ends; the library takes both for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        assert isinstance(archive, _Tar)
        try:
            found = super().fromtarfile(archive)
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
            raise tarfile.ReadError(f"a block of zeros in place of a header, before byte {archive.offset:,} of the tar")
        archive.zeros = 0
        return found


class _Tar(tarfile.TarFile):
    """A tar read to the end of its file: at least one block of zeros ends it, after two another tar may follow.

    Open it with `ignore_zeros`, which makes the library go on; `_Header` refuses all else that this lets pass.
    """

    tarinfo = _Header
    zeros = 0
    """Blocks of zeros since the last member."""


def _tar_members(file: str, codecs: tuple[str, ...]) -> Iterator[Member]:
    with ExitStack() as stack:
        cursor = _Cursor(file, codecs, stack)
        while found := cursor.next():
            yield Member(found.name, found.size, cursor.archive.extractfile(found) if found.isfile() else None)


class _Cursor:
    """A place in a tar: the files before it were passed, the ones after it can still be read."""

    def __init__(self, file: str, codecs: tuple[str, ...], stack: ExitStack) -> None:
        self.passed: set[str] = set()
        raw = stack.enter_context(open(file, "rb"))  # noqa: SIM115
        plain = codecs[0] == "tar"
        inner = raw if plain else stack.enter_context(decompressed(raw, codecs[0]))
        mode: Literal["r:", "r|"] = "r:" if plain else "r|"
        self.archive = stack.enter_context(_Tar.open(fileobj=inner, mode=mode, bufsize=BUFFER_BYTES, ignore_zeros=True))

    def next(self) -> tarfile.TarInfo | None:
        """The next file or link; None at the tar's end. Raises Damaged for an entry of another kind with content."""
        while entry := self.archive.next():
            self.archive.members.clear()  # type: ignore[attr-defined]  # tarfile keeps every header otherwise
            known = entry.isfile() or entry.isdir() or entry.issym() or entry.islnk() or entry.isdev()
            if not known and entry.size:
                kind = entry.type.decode("latin-1")
                raise Damaged(f"{entry.name} has content and the type {kind!r}, which cannot be read")
            if not entry.isdir():
                self.passed.add(entry.name)
                return entry
        return None


_parked: tuple[object, _Cursor, ExitStack] | None = None


@atexit.register
def _let_go() -> None:
    global _parked
    if _parked:
        _parked[2].close()
    _parked = None


@contextmanager
def _from_stream(file: str, path: str, codecs: tuple[str, ...], name: str) -> Iterator[IO[bytes]]:
    """A member of a compressed tar: read on from where the last member ended, if it lies ahead."""
    global _parked
    try:
        key = (_state(file), codecs)
        if _parked and _parked[0] == key and name not in _parked[1].passed:
            _, cursor, stack = _parked
            _parked = None
        else:
            _let_go()
            stack = ExitStack()
            cursor = _Cursor(file, codecs, stack)
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
        _parked = (key, cursor, stack.pop_all())
