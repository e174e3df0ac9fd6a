"""Files by their names: on this machine, or in an object store, where a name is a URL (`s3://bucket/key`).

Stores are read through fsspec's file systems, which are extras of this package. Credentials, regions and endpoints are
found where the store's own tools find them, so that no plan and no log has them; repeated attempts are the library's,
too. No listing is cached: whether a file has changed is asked of the store each time.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from glob import has_magic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from _typeshed import WriteableBuffer

Item = TypeVar("Item")
Result = TypeVar("Result")

EXTRAS: Mapping[str, str] = {"s3": "s3", "gs": "gcs", "az": "azure"}
"""The scheme of each store's URLs, and the extra of this package that reads them."""
REQUESTS = 32
"""Requests to a store at once, where many small ones are due."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FIRST_BYTES, _MOST_BYTES = 256 << 10, 8 << 20
"""What the first request of a stream asks for, since a head is often enough, and at most each that follows."""


class FileStatus(NamedTuple):
    """What says whether a file is still the same one.

    `mtime_ns` is the time of its last change, in nanoseconds UTC. `etag` is the store's name for its content, or its
    generation; "" on this machine.
    """

    size: int
    mtime_ns: int
    etag: str = ""

    def is_same(self, other: FileStatus) -> bool:
        """Whether nothing says that the content differs. The time of an object does not matter where its etag says
        that its content is the same: a copy has another time."""
        if self.etag and other.etag:
            return (self.size, self.etag) == (other.size, other.etag)
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


class StoreError(OSError):
    """A store did not answer as expected. The message says why, and not for which file."""


def is_remote(name: str) -> bool:
    """Whether a name is the URL of a store that can be read."""
    found = _SCHEME.match(name)
    return found is not None and found[1] in EXTRAS


def refuse_foreign(name: str) -> None:
    """Raise UsageError for the URL of anything but a store, and for one with credentials."""
    found = _SCHEME.match(name)
    if found is None:
        return
    if found[1] not in EXTRAS:
        stores = ", ".join(f"{scheme}://" for scheme in EXTRAS)
        raise UsageError(
            f"{name} is an address that cannot be read",
            hint=f"name files, folders or {stores} URLs; fetch anything else into a folder first",
        )
    bucket = name[found.end() :].partition("/")[0]
    if "@" in bucket:
        raise UsageError(
            "the URL of a store holds no user, password or key",
            hint="give them as the store's own tools take them, such as in the environment",
        )
    if not bucket:
        raise UsageError(f"{name} names no bucket", hint=f"write {found[0]}BUCKET/PREFIX")


# -- one file ----------------------------------------------------------------------------------------------------


def status(name: str) -> FileStatus:
    """The status of a file. Raises OSError."""
    if not is_remote(name):
        found = os.stat(name)
        return FileStatus(found.st_size, found.st_mtime_ns)
    with _errors(name):
        info = _file_system(name).info(name)
    if info["type"] != "file":
        raise FileNotFoundError(f"{name} is a prefix, and no object")
    return _status(info)


def is_file(name: str) -> bool:
    """Whether there is a file of this name. Raises StoreError where a store does not say."""
    if not is_remote(name):
        return os.path.isfile(name)
    try:
        status(name)
    except FileNotFoundError:
        return False
    return True


def opened(name: str, size: int | None = None, *, head: bytes = b"", in_places: bool = False) -> io.BufferedReader:
    """A file for reading. Raises OSError, also from a read.

    Of an object, `size` and the first bytes (`heads`) are not requested again where they are given. It is read ahead
    while its stream is consumed; `in_places`, only what is read is requested.
    """
    if not is_remote(name):
        return open(name, "rb", buffering=_BUFFER)  # type: ignore[return-value]  # a buffer of this size is one
    return io.BufferedReader(_Object(name, status(name).size if size is None else size, head, in_places), _BUFFER)


def opened_at_strides(name: str, size: int, stride: int) -> io.BufferedReader:
    """A file of `size` bytes that is read a little before each multiple of `stride` bytes and at few other places.

    Raises OSError, also from a read.
    """
    if not is_remote(name):
        return open(name, "rb")
    return io.BufferedReader(_Strides(name, size, stride), _STRIDE_BYTES)


_BUFFER = 256 * 1024
_STRIDE_BYTES = 32 * 1024
_STRIDES = 32
"""What is read at one place, and how many places at once."""


def read_range(name: str, offset: int, length: int) -> bytes:
    """At most `length` bytes of a file from `offset`; fewer where it ends before. Raises OSError."""
    if not is_remote(name):
        with open(name, "rb") as stream:
            stream.seek(offset)
            return stream.read(length)
    with _errors(name):
        content: bytes = _file_system(name).cat_file(name, start=offset, end=offset + length)
    return content


def read(name: str) -> bytes:
    """All of a small file. Raises OSError."""
    with opened(name) as stream:
        return stream.read()


# -- many files --------------------------------------------------------------------------------------------------


def names_in(folder: str) -> list[str]:
    """The files directly in a folder, or below a prefix up to the next slash, by name. Raises OSError."""
    if not is_remote(folder):
        return sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    with _errors(folder):
        found = _file_system(folder).ls(folder.rstrip("/") + "/", detail=True)
    return sorted(os.path.basename(one["name"]) for one in found if _is_object(one))


def below(url: str) -> dict[str, FileStatus]:
    """Every object below a prefix that ends where a slash is, by URL in the order of the keys. Raises OSError."""
    prefix = url.rstrip("/") + "/"
    with _errors(url):
        found = _file_system(url).find(prefix, detail=True)
    # Of a URL that names an object, the libraries find that object, some as a list.
    if not isinstance(found, dict):
        return {}
    return {name: status for name, status in _statuses(url, found).items() if name.startswith(prefix)}


def matching(pattern: str) -> tuple[dict[str, FileStatus], list[str]]:
    """The objects that a URL with `*`, `**`, `?` or `[` stands for, and the prefixes. Raises OSError."""
    with _errors(pattern):
        found = _file_system(pattern).glob(pattern, detail=True)
    prefixes = [f"{_scheme(pattern)}://{name}" for name, info in found.items() if info["type"] == "directory"]
    return _statuses(pattern, found), prefixes


def listed(url: str) -> dict[str, FileStatus]:
    """Every object that a URL stands for: that of this name, those below it, or those that a pattern means; none where
    there is no such bucket. Raises OSError."""
    try:
        single = None if url.endswith("/") else status(url)
    except FileNotFoundError:
        single = None
    if single is not None:
        return {url: single}
    if not has_magic(url):
        try:
            return below(url)
        except FileNotFoundError:
            return {}
    objects, prefixes = matching(url)
    for prefix in prefixes:
        objects |= below(prefix)
    return objects


def statuses(names: Sequence[str]) -> Iterator[FileStatus | OSError]:
    """The status of each file in turn, or why it has none; of objects many are asked for at once."""
    return _of_each(_status_or_error, names)


def heads(files: Sequence[tuple[str, int]], most: int) -> Iterator[bytes | OSError | None]:
    """The first bytes of each object, at most `most`, or why they cannot be read; of objects many are read at once.

    `files` are names with their sizes. None for a file of this machine, which is not read.
    """

    def head(file: tuple[str, int]) -> bytes | OSError | None:
        name, size = file
        if not is_remote(name):
            return None
        if not size:
            return b""  # a range of an empty object is an error
        try:
            return read_range(name, 0, min(size, most))
        except OSError as error:
            return error

    return _of_each(head, files, lambda file: file[0])


def _status_or_error(name: str) -> FileStatus | OSError:
    try:
        return status(name)
    except OSError as error:
        return error


def _of_each(
    work: Callable[[Item], Result], items: Sequence[Item], name: Callable[[Item], Any] = lambda item: item
) -> Iterator[Result]:
    """The result for each item, in order. No more than a few of them are ahead of the one that is asked for."""
    if not any(is_remote(name(item)) for item in items):
        yield from map(work, items)
        return
    for start in range(0, len(items), _AT_ONCE):
        yield from _pool().map(work, items[start : start + _AT_ONCE])


_AT_ONCE = 4 * REQUESTS


@cache
def _pool() -> ThreadPoolExecutor:
    """The threads that wait for the store."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(REQUESTS, "store")


# -- the store ---------------------------------------------------------------------------------------------------


def _scheme(url: str) -> str:
    return url.partition("://")[0]


def _file_system(url: str) -> Any:
    """The file system of a URL. Raises UsageError where its package is not installed."""
    extra = EXTRAS[_scheme(url)]
    try:
        import fsspec

        # The library keeps one for each process, so that it is not carried over into another one.
        return fsspec.filesystem(_scheme(url), use_listings_cache=False)
    except ImportError as error:
        raise UsageError(
            f"{url} needs a package that is not installed: {error.name or error}",
            hint=f"pip install 'backcast[{extra}]'",
        ) from None


def _is_object(info: Mapping[str, Any]) -> bool:
    """Whether an entry of a listing is an object, and none that a console made to show a folder."""
    return bool(info["type"] == "file" and not info["name"].endswith("/"))


def _statuses(url: str, found: Mapping[str, Mapping[str, Any]]) -> dict[str, FileStatus]:
    scheme = _scheme(url)
    return {f"{scheme}://{info['name']}": _status(info) for info in found.values() if _is_object(info)}


def _status(info: Mapping[str, Any]) -> FileStatus:
    etag = str(info.get("generation") or info.get("ETag") or info.get("etag") or "").strip('"')
    changed = next((info[key] for key in ("LastModified", "last_modified", "mtime", "updated") if info.get(key)), None)
    if isinstance(changed, str):
        changed = datetime.fromisoformat(changed)
    if not isinstance(changed, datetime):
        return FileStatus(int(info["size"]), 0, etag)
    since = (changed if changed.tzinfo else changed.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return FileStatus(int(info["size"]), microseconds * 1_000, etag)


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """Errors of a store's library as FileNotFoundError, PermissionError or StoreError."""
    try:
        yield
    except (FileNotFoundError, PermissionError, StoreError, UsageError):
        raise
    except ImportError:
        raise
    except Exception as error:  # each library has errors of its own, and of those below it
        cause = (str(error) or type(error).__name__).split("\n")[0]
        raise StoreError(cause) from error


class _Ranges(io.RawIOBase):
    """An object of a store as a stream, which is requested in ranges. `_fetch` returns bytes from a position on."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._at = 0
        self._start, self._piece = 0, b""

    def _fetch(self, wanted: int) -> bytes:
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, target: WriteableBuffer) -> int:
        view = memoryview(target).cast("B")
        if self._at >= self._size or not len(view):
            return 0
        if not self._start <= self._at < self._start + len(self._piece):
            self._start, self._piece = self._at, self._fetch(len(view))
        piece = memoryview(self._piece)[self._at - self._start :][: len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


class _Object(_Ranges):
    """One that is read from its beginning to its end, in ranges that grow, or in places."""

    def __init__(self, name: str, size: int, head: bytes, in_places: bool) -> None:
        super().__init__(name, size)
        self._piece = head
        self._in_places = in_places
        self._length = _FIRST_BYTES
        self._next: tuple[int, Future[bytes]] | None = None

    def _fetch(self, wanted: int) -> bytes:
        at = self._at
        if self._in_places:
            return read_range(self._name, at, min(max(wanted, _FIRST_BYTES), self._size - at))
        if at != self._start + len(self._piece):
            self._length, self._next = _FIRST_BYTES, None
        elif at:
            self._length = min(2 * self._length, _MOST_BYTES)
        if self._next is not None and self._next[0] == at:
            piece = self._next[1].result()
        else:
            piece = read_range(self._name, at, min(self._length, self._size - at))
        after = at + len(piece)
        self._next = None
        if self._length > _FIRST_BYTES and after < self._size:
            length = min(2 * self._length, _MOST_BYTES, self._size - after)
            self._next = after, _pool().submit(read_range, self._name, after, length)
        return piece


class _Strides(_Ranges):
    """One that is read at one byte before each multiple of `stride`, where many places are requested at once."""

    def __init__(self, name: str, size: int, stride: int) -> None:
        super().__init__(name, size)
        self._stride = stride
        self._read: dict[int, bytes | OSError] = {}

    def _fetch(self, wanted: int) -> bytes:
        if self._at not in self._read:
            count = _STRIDES if (self._at + 1) % self._stride == 0 else 1
            places = [at for n in range(count) if (at := self._at + n * self._stride) < self._size]
            self._read = dict(zip(places, _pool().map(self._piece_at, places), strict=True))
        piece = self._read[self._at]
        if isinstance(piece, OSError):
            raise piece
        return piece

    def _piece_at(self, at: int) -> bytes | OSError:
        try:
            return read_range(self._name, at, min(_STRIDE_BYTES, self._size - at))
        except OSError as error:
            return error
