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
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Item = TypeVar("Item")
Result = TypeVar("Result")

EXTRAS: Mapping[str, str] = {"s3": "s3", "gs": "gcs", "az": "azure"}
"""The scheme of each store's URLs, and the extra of this package that reads them."""
REQUESTS = 32
"""Requests to a store at once, where many small ones are due."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_AHEAD_BYTES, _AHEAD_BLOCKS = 4 << 20, 4
"""What a stream that is read from its beginning to its end gets with one request, and has in memory at most."""
_SPOT_BYTES, _SPOT_BLOCKS = 1 << 20, 64
"""The same for a file that is read in places."""


class FileStatus(NamedTuple):
    """What says whether a file is still the same one.

    `mtime_ns` is the time of its last change, in nanoseconds UTC. `etag` is the store's name for its content, "" on
    this machine.
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


def opened(name: str, *, in_places: bool = False) -> io.BufferedReader:
    """A file for reading. Raises OSError, also from a read.

    An object is read ahead while its stream is consumed or, `in_places`, block by block where it is read.
    """
    if not is_remote(name):
        return open(name, "rb", buffering=_BUFFER)  # type: ignore[return-value]  # a buffer of this size is one
    return io.BufferedReader(_Object(name, in_places=in_places), _BUFFER)


def opened_after(name: str, head: bytes | None, size: int) -> io.BufferedReader:
    """A file of `size` bytes for reading, where `heads` gave its first bytes: no more is requested before they are
    used up. Raises OSError, also from a read."""
    if head is None:
        return opened(name)
    return io.BufferedReader(_Object(name, head, size), _BUFFER)


def opened_at_strides(name: str, stride: int) -> io.BufferedReader:
    """A file that is read a little before each multiple of `stride` bytes and at few other places.

    Raises OSError, also from a read.
    """
    if not is_remote(name):
        return open(name, "rb")
    return io.BufferedReader(_Strides(name, stride), _STRIDE_BYTES)


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
    # Of a URL that names an object, the library finds that object.
    return {name: status for name, status in _statuses(url, found).items() if name.startswith(prefix)}


def matching(pattern: str) -> tuple[dict[str, FileStatus], list[str]]:
    """The objects that a URL with `*`, `**`, `?` or `[` stands for, and the prefixes. Raises OSError."""
    with _errors(pattern):
        found = _file_system(pattern).glob(pattern, detail=True)
    prefixes = [f"{_scheme(pattern)}://{name}" for name, info in found.items() if info["type"] == "directory"]
    return _statuses(pattern, found), prefixes


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
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(REQUESTS, "store") as pool:
        for start in range(0, len(items), _AT_ONCE):
            yield from pool.map(work, items[start : start + _AT_ONCE])


_AT_ONCE = 4 * REQUESTS


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
    etag = str(info.get("ETag") or info.get("etag") or "").strip('"')
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


class _Object(io.RawIOBase):
    """An object of a store as a stream, which is opened by the first read that its `head` cannot answer."""

    def __init__(self, name: str, head: bytes = b"", size: int | None = None, *, in_places: bool = False) -> None:
        self._name = name
        self._in_places = in_places
        self._head = head
        self._size = size
        self._at = 0
        self._stream: IO[bytes] | None = None
        if size is None:
            self._opened()

    def _opened(self) -> IO[bytes]:
        if self._stream is None:
            kind, size, count = (
                ("blockcache", _SPOT_BYTES, _SPOT_BLOCKS) if self._in_places
                else ("background", _AHEAD_BYTES, _AHEAD_BLOCKS)
            )  # fmt: skip
            with _errors(self._name):
                self._stream = _file_system(self._name).open(
                    self._name, "rb", block_size=size, cache_type=kind, cache_options={"maxblocks": count}
                )
        return self._stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            with _errors(self._name):
                self._at = self._opened().seek(offset, whence)
        else:
            self._at = offset + (self._at if whence == io.SEEK_CUR else 0)
        return self._at

    def readinto(self, target: WriteableBuffer) -> int:
        view = memoryview(target).cast("B")
        piece = self._head[self._at : self._at + len(view)]
        if not piece and (self._size is None or self._at < self._size):
            with _errors(self._name):
                stream = self._opened()
                stream.seek(self._at)
                piece = stream.read(len(view))
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        if self._stream is not None and not self.closed:
            self._stream.close()
        super().close()


class _Strides(io.RawIOBase):
    """An object that is read at one byte before each multiple of `stride`, where many places are requested at once."""

    def __init__(self, name: str, stride: int) -> None:
        self._name = name
        self._stride = stride
        self._size = status(name).size
        self._at = 0
        self._read: dict[int, bytes | OSError] = {}

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
        if self._at >= self._size:
            return 0
        if self._at not in self._read:
            count = _STRIDES if (self._at + 1) % self._stride == 0 else 1
            places = [at for n in range(count) if (at := self._at + n * self._stride) < self._size]
            pieces = _of_each(self._piece, places, lambda at: self._name) if count > 1 else map(self._piece, places)
            self._read = dict(zip(places, pieces, strict=True))
        piece = self._read[self._at]
        if isinstance(piece, OSError):
            raise piece
        piece = piece[: len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _piece(self, at: int) -> bytes | OSError:
        try:
            return read_range(self._name, at, min(_STRIDE_BYTES, self._size - at))
        except OSError as error:
            return error
