"""Files by their names: on this machine, or in an object store, where a name is a URL (`s3://bucket/key`).

Stores are read through fsspec's file systems, which are extras of this package. Credentials, regions and endpoints are
found where the store's own tools find them, so that no plan and no log has them; repeated attempts are the library's,
too. No listing is cached: whether a file has changed is asked of the store each time.
"""

from __future__ import annotations

import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from glob import has_magic
from time import sleep
from typing import TYPE_CHECKING, TypeVar

from pipeline.errors import UsageError
from pipeline.storage import listing
from pipeline.storage.store import (
    EXTRAS,
    REQUESTS,
    SCHEME,
    FileStatus,
    StoreError,
    answer_of,
    errors,
    file_system,
    forget,
    is_remote,
    pool,
    read_ahead,
    remote_range,
    scheme_of,
    status_of,
)
from pipeline.storage.streams import STRIDE_BYTES, ObjectStream, StrideStream

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = [
    "SMALL_BYTES", "FileStatus", "StoreError", "ahead", "below", "create", "download", "folders_in", "heads", "is_file",
    "is_prefix", "is_remote", "is_small_object", "listed", "names_in", "opened", "opened_at_strides", "read",
    "read_range", "refuse_foreign", "refuse_replacing", "remove", "status", "statuses", "upload",
    "without_credentials", "write",
]  # fmt: skip

Item = TypeVar("Item")
Result = TypeVar("Result")
_BUFFER = 256 * 1024
_QUERY = re.compile(r"\?[\w.~-]+=|\bX-(Amz|Goog)-Signature=", re.IGNORECASE)
"""What a URL has that was signed, or has a shared access signature; other `?` are characters of a pattern."""
SMALL_BYTES = 256 * 1024
"""An object up to this size is requested as a whole: one request takes longer than its bytes."""


def refuse_foreign(name: str) -> None:
    """Raise UsageError for the URL of anything but a store, and for one with credentials."""
    found = SCHEME.match(name)
    if found is None:
        return
    if found[1] not in EXTRAS:
        stores = ", ".join(f"{scheme}://" for scheme in EXTRAS)
        raise UsageError(
            f"{without_credentials(name)} is an address that cannot be read",
            hint=f"name files, folders or {stores} URLs; fetch anything else into a folder first",
        )
    bucket = name[found.end() :].partition("/")[0]
    if "@" in bucket or _QUERY.search(name):
        pattern = "; a ? of a pattern is written * where a name and = follow it" if "?" in name else ""
        raise UsageError(
            "the URL of a store contains a user, a password, a key or a signature",
            hint=f"leave it out, and give it as the store's own tools take it, such as in the environment{pattern}",
        )
    if not bucket:
        raise UsageError(f"{name} names no bucket", hint=f"write {found[0]}BUCKET/PREFIX")


def without_credentials(address: str) -> str:
    """An address as it may be shown: without its query, and with *** in place of a user and a password."""
    return _USER.sub("//***@", address.partition("?")[0])


_USER = re.compile(r"//[^/]*@")


# -- one file ----------------------------------------------------------------------------------------------------


def status(name: str) -> FileStatus:
    """The status of a file. Raises OSError."""
    if not is_remote(name):
        found = os.stat(name)
        return FileStatus(found.st_size, found.st_mtime_ns)
    with errors(name):
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
    """Write an object that must not be there yet. False where it is. Raises OSError, and UsageError where it cannot be.

    Whether the store looks at this condition is asked with `refuse_replacing`.
    """
    try:
        for pause in _CONFLICTS:
            try:
                _put(url, content, mode="create")
            except StoreError as error:
                if answer_of(error) != _CONFLICT:
                    raise
                sleep(pause)  # another writer has not finished
            else:
                return True
        _put(url, content, mode="create")
    except FileExistsError:
        return False
    except StoreError as error:
        if answer_of(error) == _TAKEN:  # as stores other than Amazon's put it
            return False
        if answer_of(error) == _NOT_IMPLEMENTED:
            raise _no_condition(url) from error
        raise
    return True


def refuse_replacing(url: str, content: bytes) -> None:
    """Raise UsageError where `create` replaces an object: then nothing there shows who was first. Raises OSError.

    `url` is an object that is there with this content.
    """
    if create(url, content):
        raise _no_condition(url)


def _no_condition(url: str) -> UsageError:
    return UsageError(
        f"the store of {url} replaces an object that was to be written only if it is not there yet",
        hint="use a folder of this machine, or a store with conditional writes (the header If-None-Match of S3)",
    )


_TAKEN, _CONFLICT, _NOT_IMPLEMENTED = 412, 409, 501
_CONFLICTS = (0.1, 0.5, 2.0)
"""Seconds between attempts to write an object that somebody else is writing."""


def write(url: str, content: bytes) -> None:
    """Write an object, whole or not at all. Raises OSError, and UsageError where it cannot be."""
    _put(url, content)


def _put(url: str, content: bytes, **options: str) -> None:
    # Having written an object, adlfs takes the first part of its key for a host: what follows a colon is no port.
    first = url.split("/")[3:4]
    if scheme_of(url) == "az" and ":" in "".join(first):
        raise UsageError(
            f"{url} cannot be written: the first part of its prefix has a colon", hint="name a prefix without one"
        )
    with errors(url):
        file_system(url).pipe_file(url, content, **options)


def upload(path: str, url: str) -> None:
    """Copy a file of this machine into a store, whole or not at all. Raises OSError."""
    with errors(url):
        file_system(url).put_file(path, url)


def download(url: str, path: str) -> None:
    """Copy an object to a file of this machine. Raises OSError."""
    with errors(url):
        file_system(url).get_file(url, path)


def remove(urls: Sequence[str]) -> None:
    """Remove objects of one store; those that are gone do not matter. Raises OSError."""
    if urls:
        with suppress(FileNotFoundError), errors(urls[0]):
            file_system(urls[0]).rm(list(urls))


# -- many files --------------------------------------------------------------------------------------------------


def names_in(folder: str) -> list[str]:
    """The files directly in a folder, or below a prefix up to the next slash, by name. Raises OSError."""
    if not is_remote(folder):
        return sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    with errors(folder):
        found = file_system(folder).ls(folder.rstrip("/") + "/", detail=True)
    return sorted(os.path.basename(one["name"]) for one in found if one["type"] == "file" and one["name"][-1:] != "/")


def folders_in(url: str) -> list[str]:
    """The prefixes directly below a prefix, by the part up to the next slash. Raises OSError."""
    with errors(url):
        found = file_system(url).ls(url.rstrip("/") + "/", detail=True)
    return sorted(os.path.basename(one["name"].rstrip("/")) for one in found if one["type"] == "directory")


def below(url: str) -> dict[str, FileStatus]:
    """Every file below a folder, or below a prefix that ends where a slash is, in the order of names; none where there
    is no such folder or bucket. Raises OSError."""
    if not is_remote(url):
        files = (os.path.join(parent, name) for parent, _, names in os.walk(url) for name in names)
        return {file: status(file) for file in sorted(files)}
    return dict(sorted(listing.below(url.rstrip("/") + "/")))


def listed(url: str) -> Iterator[tuple[str, FileStatus]]:
    """Every object that a URL stands for: that of this name, those below it, or those that a pattern means; none where
    there is no such bucket. One after the other, as they are listed.

    Raises OSError, also after the first objects: those that were listed are not all then.
    """
    try:
        single = None if url.endswith("/") else status(url)
    except FileNotFoundError:
        single = None
    if single is not None:
        yield url, single
    elif has_magic(url):
        yield from listing.matching(url)
    else:
        yield from listing.below(url.rstrip("/") + "/")


def is_prefix(url: str) -> bool:
    """Whether there is an object below a prefix. Raises OSError."""
    return any(True for _ in listing.below(url.rstrip("/") + "/"))


def statuses(names: Sequence[str]) -> Iterator[FileStatus | OSError]:
    """The status of each file in turn, or why it has none.

    Of objects many are asked for at once. Where many lie beside each other, they are looked for in listings, of which
    one answers for 1,000.
    """
    if not any(map(is_remote, names)):
        yield from map(_status_or_error, names)
        return
    for start in range(0, len(names), _LISTED_AT_ONCE):
        some = names[start : start + _LISTED_AT_ONCE]
        sought = sorted(set(filter(is_remote, some)))
        runs = (sought[at : at + _LISTED_BY_ONE] for at in range(0, len(sought), _LISTED_BY_ONE))
        known: dict[str, FileStatus] = {}
        for found in _of_each(listing.statuses_in_listings, [run for run in runs if len(run) >= listing.ENOUGH]):
            known |= found
        unknown = _of_each(_status_or_error, [name for name in some if name not in known])
        yield from (known[name] if name in known else next(unknown) for name in some)


def heads(files: Iterable[tuple[str, int]], most: int) -> Iterator[bytes | OSError | None]:
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

    return _of_each(head, files)


def is_small_object(name: str, size: int) -> bool:
    """Whether a file is an object that one request reads whole, whatever of it is wanted."""
    return size <= SMALL_BYTES and is_remote(name)


def ahead(items: Iterable[Item], file: Callable[[Item], tuple[str, int]]) -> Iterator[Item]:
    """The items in turn, while the small objects of those that follow are being read already.

    `file` returns the name and the size of what is read of an item. Without this a loop over many small objects waits
    for the store once for each. Items are taken beforehand as long as each is of a small object.
    """
    coming = iter(items)
    begun: deque[tuple[Item, str]] = deque()
    try:
        while True:
            while len(begun) < REQUESTS and (not begun or begun[-1][1]):
                try:
                    item = next(coming)
                except StopIteration:
                    break
                name, size = file(item)
                small = name if size and is_small_object(name, size) else ""
                if small:
                    read_ahead(small, size)
                begun.append((item, small))
            if not begun:
                return
            item, small = begun[0]
            yield item
            begun.popleft()
            if all(small != other for _, other in begun):
                forget(small)
    finally:
        for _, small in begun:
            forget(small)


def _status_or_error(name: str) -> FileStatus | OSError:
    try:
        return status(name)
    except OSError as error:
        return error


def _of_each(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The result for each item, in order. No more than a few of them are ahead of the one that is asked for."""
    begun: deque[Future[Result]] = deque()
    try:
        for item in items:
            begun.append(pool().submit(work, item))
            if len(begun) == _AT_ONCE:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()


_AT_ONCE = 4 * REQUESTS
_LISTED_BY_ONE = 4_000
_LISTED_AT_ONCE = REQUESTS * _LISTED_BY_ONE
"""Names that are looked for in listings: by one thread, and at once."""
