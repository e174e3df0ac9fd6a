"""Many files: what is in a folder or below a prefix, and statuses and first bytes of many objects at once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import has_magic
from typing import TYPE_CHECKING, TypeVar

from pipeline.storage import listing
from pipeline.storage.one_file import read_range, status
from pipeline.storage.store import REQUESTS, FileStatus, errors, file_system, forget, is_remote, pool, read_ahead

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")
SMALL_BYTES = 256 * 1024
"""An object up to this size is requested as a whole: a request takes longer than these bytes do."""


def names_in(folder: str) -> list[str]:
    """The names of the files directly in a folder, or below a prefix up to the next slash. Raises OSError."""
    if not is_remote(folder):
        return sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    with errors(folder):
        found = file_system(folder).ls(folder.rstrip("/") + "/", detail=True)
    return sorted(os.path.basename(one["name"]) for one in found if one["type"] == "file" and one["name"][-1:] != "/")


def folders_in(url: str) -> list[str]:
    """The names of the prefixes directly below a prefix, each up to the next slash. Raises OSError."""
    with errors(url):
        found = file_system(url).ls(url.rstrip("/") + "/", detail=True)
    return sorted(os.path.basename(one["name"].rstrip("/")) for one in found if one["type"] == "directory")


def below(url: str) -> dict[str, FileStatus]:
    """Every file below a folder, or below a prefix that ends at a slash, sorted by name; none if there is no such
    folder or bucket. Raises OSError."""
    if not is_remote(url):
        files = (os.path.join(parent, name) for parent, _, names in os.walk(url) for name in names)
        return {file: status(file) for file in sorted(files)}
    return dict(sorted(listing.below(url.rstrip("/") + "/")))


def listed(url: str) -> Iterator[tuple[str, FileStatus]]:
    """Every object that a URL stands for: the one with this name, those below it, or those that match a pattern; none
    if there is no such bucket. Yields them one by one as they are listed.

    Raises OSError, even after the first objects; the listing is incomplete then.
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
    """Whether any object is below a prefix. Raises OSError."""
    return any(True for _ in listing.below(url.rstrip("/") + "/"))


def statuses(names: Sequence[str]) -> Iterator[FileStatus | OSError]:
    """The status of each file in turn, or why it has none.

    Many objects are asked for at once. If many have neighbouring names, they are looked up in listings, each of which
    answers for 1,000.
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
    """The first bytes of each object, at most `most`, or why they cannot be read; many objects are read at once.

    `files` are names with their sizes. None for a file on this machine, which is not read.
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
    """Whether a file is an object that one request reads whole, however little of it is wanted."""
    return size <= SMALL_BYTES and is_remote(name)


def ahead(items: Iterable[Item], file: Callable[[Item], tuple[str, int]]) -> Iterator[Item]:
    """The items in turn; the small objects of later items are already being read meanwhile.

    `file` returns the name and size of what is read for an item. Without this, a loop over many small objects would
    wait for the store once for each. Items are taken ahead as long as each has a small object.
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
    """The result for each item, in order. Works only a few items ahead of the one asked for."""
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
"""How many names one thread looks up in listings, and how many all threads look up at once."""
