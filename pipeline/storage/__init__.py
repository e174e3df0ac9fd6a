"""Files by their names: on this machine, or in an object store, where a name is a URL (`s3://bucket/key`).

Stores are read through fsspec's file systems, which are extras of this package. Credentials, regions and endpoints are
found where the store's own tools find them, so that no plan and no log has them; repeated attempts are the library's,
too. No listing is cached: whether a file has changed is asked of the store each time.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from glob import has_magic
from typing import Any, TypeVar

from pipeline.errors import UsageError
from pipeline.storage.store import (
    EXTRAS,
    REQUESTS,
    SCHEME,
    FileStatus,
    StoreError,
    errors,
    file_system,
    is_object,
    is_remote,
    pool,
    remote_range,
    scheme_of,
    status_of,
    statuses_of,
)
from pipeline.storage.streams import STRIDE_BYTES, ObjectStream, StrideStream

__all__ = [
    "FileStatus", "StoreError", "below", "create", "heads", "is_file", "is_remote", "listed", "names_in", "opened",
    "opened_at_strides", "read", "read_range", "refuse_foreign", "status", "statuses", "upload", "write",
]  # fmt: skip

Item = TypeVar("Item")
Result = TypeVar("Result")
_BUFFER = 256 * 1024


def refuse_foreign(name: str) -> None:
    """Raise UsageError for the URL of anything but a store, and for one with credentials."""
    found = SCHEME.match(name)
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
    with errors():
        info = file_system(name).info(name)
    if info["type"] != "file":
        raise FileNotFoundError(f"{name} is a prefix, and no object")
    return status_of(info)


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
    return io.BufferedReader(ObjectStream(name, status(name).size if size is None else size, head, in_places), _BUFFER)


def opened_at_strides(name: str, size: int, stride: int) -> io.BufferedReader:
    """A file of `size` bytes that is read a little before each multiple of `stride` bytes and at few other places.

    Raises OSError, also from a read.
    """
    if not is_remote(name):
        return open(name, "rb")
    return io.BufferedReader(StrideStream(name, size, stride), STRIDE_BYTES)


def read_range(name: str, offset: int, length: int) -> bytes:
    """At most `length` bytes of a file from `offset`; fewer where it ends before. Raises OSError."""
    if not is_remote(name):
        with open(name, "rb") as stream:
            stream.seek(offset)
            return stream.read(length)
    return remote_range(name, offset, length)


def read(name: str) -> bytes:
    """All of a small file. Raises OSError."""
    with opened(name) as stream:
        return stream.read()


def create(url: str, content: bytes) -> bool:
    """Write an object that must not be there yet. False where it is. Raises OSError."""
    with errors():
        try:
            file_system(url).pipe_file(url, content, mode="create")
        except FileExistsError:
            return False
    return True


def write(url: str, content: bytes) -> None:
    """Write an object, whole or not at all. Raises OSError."""
    with errors():
        file_system(url).pipe_file(url, content)


def upload(path: str, url: str) -> None:
    """Copy a file of this machine into a store, whole or not at all. Raises OSError."""
    with errors():
        file_system(url).put_file(path, url)


# -- many files --------------------------------------------------------------------------------------------------


def names_in(folder: str) -> list[str]:
    """The files directly in a folder, or below a prefix up to the next slash, by name. Raises OSError."""
    if not is_remote(folder):
        return sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    with errors():
        found = file_system(folder).ls(folder.rstrip("/") + "/", detail=True)
    return sorted(os.path.basename(one["name"]) for one in found if is_object(one))


def below(url: str) -> dict[str, FileStatus]:
    """Every file below a folder, or below a prefix that ends where a slash is, in the order of names; none where there
    is no such folder or bucket. Raises OSError."""
    if not is_remote(url):
        files = (os.path.join(parent, name) for parent, _, names in os.walk(url) for name in names)
        return {file: status(file) for file in sorted(files)}
    prefix = url.rstrip("/") + "/"
    try:
        with errors():
            found = file_system(url).find(prefix, detail=True)
    except FileNotFoundError:
        return {}
    # Of a URL that names an object, the libraries find that object, some as a list.
    if not isinstance(found, dict):
        return {}
    return {name: status for name, status in statuses_of(url, found).items() if name.startswith(prefix)}


def matching(pattern: str) -> tuple[dict[str, FileStatus], list[str]]:
    """The objects that a URL with `*`, `**`, `?` or `[` stands for, and the prefixes. Raises OSError."""
    with errors():
        found = file_system(pattern).glob(pattern, detail=True)
    prefixes = [f"{scheme_of(pattern)}://{name}" for name, info in found.items() if info["type"] == "directory"]
    return statuses_of(pattern, found), prefixes


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
        return below(url)
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
        yield from pool().map(work, items[start : start + _AT_ONCE])


_AT_ONCE = 4 * REQUESTS
