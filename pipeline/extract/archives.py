"""Archives whose members are parts: zip and tar, read in place, member by member.

A compressed tar can only be read from its beginning; so its members keep the tar's order, and the place
reached after one member is kept for the next. Nothing is unpacked to disk, so no member's name can lead
anywhere.
"""

from __future__ import annotations

import atexit
import io
import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import IO, NamedTuple, Self, cast

from pipeline.errors import UnreadableExport
from pipeline.extract.containers import BUFFER_BYTES, broken, decompressed

UNPACK = "unpack the archive and name the folder instead"


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
                stream = stack.enter_context(_slice_of(file, *_tar_index(*_state(file))[name]))
            else:
                stream = None
        except KeyError:
            raise _lost(path) from None
        except (OSError, zipfile.BadZipFile, tarfile.TarError, RuntimeError, NotImplementedError) as error:
            raise broken(error, path, 0) from error
        yield stream if stream is not None else stack.enter_context(_from_stream(file, path, codecs, name))


def members(file: str, path: str, codecs: tuple[str, ...]) -> Iterator[Member]:
    """Each file in the archive: a zip's and a tar's in the order of the archive.

    Raises UnreadableExport for a truncated, damaged or locked archive, and for two members of one name.
    """
    names: set[str] = set()
    walk = _zip_members(file, path) if codecs[0] == "zip" else _tar_members(file, codecs)
    try:
        for found in walk:
            if found.name in names:
                raise UnreadableExport(f"{path} holds two members of the name {found.name}", path=path, hint=UNPACK)
            names.add(found.name)
            yield found
    except UnreadableExport:
        raise
    except Exception as error:
        raise broken(error, path, 0) from error


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
    for entry in archive.infolist():
        if entry.is_dir():
            continue
        if entry.flag_bits & 1:
            raise UnreadableExport(
                f"{path} is locked with a password",
                path=path,
                hint="unpack it with its password, and name the folder",
            )
        with archive.open(entry) as stream:
            yield Member(entry.filename, entry.file_size, stream)


# -- tar -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _tar_index(file: str, size: int, mtime_ns: int, process: int) -> dict[str, tuple[int, int]]:
    """Where each file lies in a tar that is not compressed: name → (offset, size)."""
    with tarfile.open(file, "r:", tarinfo=_Header) as archive:
        return {entry.name: (entry.offset_data, entry.size) for entry in archive if entry.isfile()}


class _Header(tarfile.TarInfo):
    """A tar header that tells a cut or damaged tar from one that ends; the library takes both for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            kind = type(error).__name__
            if kind == "EOFHeaderError":  # the two blocks of zeros: a whole tar ends with them
                raise
            if kind in ("EmptyHeaderError", "TruncatedHeaderError"):
                raise EOFError("the tar has no end mark") from None
            raise tarfile.ReadError(str(error)) from None


def _tar_members(file: str, codecs: tuple[str, ...]) -> Iterator[Member]:
    if codecs[0] == "tar":
        with tarfile.open(file, "r:", tarinfo=_Header) as archive:
            for entry in archive:
                if entry.isfile():
                    with _slice_of(file, entry.offset_data, entry.size) as stream:
                        yield Member(entry.name, entry.size, stream)
                elif not entry.isdir():
                    yield Member(entry.name, 0, None)
        return
    with ExitStack() as stack:
        cursor = _Cursor(file, codecs, stack)
        while found := cursor.next():
            yield Member(found.name, found.size, cursor.archive.extractfile(found) if found.isfile() else None)


class _Slice(io.RawIOBase):
    """A run of bytes in an open file."""

    def __init__(self, raw: IO[bytes], size: int) -> None:
        self._raw = raw
        self._left = size

    def readable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        wanted = self._left if count < 0 else min(count, self._left)
        piece = self._raw.read(wanted)
        if len(piece) < wanted:
            raise EOFError("the tar ends inside a member")
        self._left -= wanted
        return piece


@contextmanager
def _slice_of(file: str, offset: int, size: int) -> Iterator[IO[bytes]]:
    with open(file, "rb") as raw:
        raw.seek(offset)
        yield cast("IO[bytes]", _Slice(raw, size))


class _Cursor:
    """A place in a compressed tar: the files before it were passed, the ones after it can still be read."""

    def __init__(self, file: str, codecs: tuple[str, ...], stack: ExitStack) -> None:
        self.passed: set[str] = set()
        raw = stack.enter_context(open(file, "rb"))  # noqa: SIM115
        inner = stack.enter_context(decompressed(raw, codecs[0]))
        archive = tarfile.open(fileobj=inner, mode="r|", bufsize=BUFFER_BYTES, tarinfo=_Header)  # noqa: SIM115
        self.archive = stack.enter_context(archive)

    def next(self) -> tarfile.TarInfo | None:
        """The next file or link; None at the tar's end."""
        while entry := self.archive.next():
            self.archive.members.clear()  # type: ignore[attr-defined]  # tarfile keeps every header otherwise
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
        raise broken(error, path, 0) from error
    with stack:
        try:
            while (entry := cursor.next()) and entry.name != name:
                pass
        except Exception as error:
            raise broken(error, path, 0) from error
        if entry is None:
            raise _lost(path)
        stream = cursor.archive.extractfile(entry)
        assert stream is not None
        yield stream
        _parked = (key, cursor, stack.pop_all())
