"""The stores behind the URLs: their libraries, what they say of objects, their errors, and the threads that wait."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

EXTRAS: Mapping[str, str] = {"s3": "s3", "gs": "gcs", "az": "azure"}
"""The scheme of each store's URLs, and the extra of this package that reads them."""
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
REQUESTS = 32
"""Requests to a store at once, where many small ones are due."""


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
    found = SCHEME.match(name)
    return found is not None and found[1] in EXTRAS


def pool() -> ThreadPoolExecutor:
    """The threads that wait for the store: a forked process has none of its parent's."""
    return _pool_of(os.getpid())


@cache
def _pool_of(process: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(REQUESTS, "store")


def scheme_of(url: str) -> str:
    return url.partition("://")[0]


def file_system(url: str) -> Any:
    """The file system of a URL. Raises UsageError where its package is not installed."""
    extra = EXTRAS[scheme_of(url)]
    try:
        import fsspec

        # The library keeps one for each process, so that it is not carried over into another one.
        return fsspec.filesystem(scheme_of(url), use_listings_cache=False)
    except ImportError as error:
        raise UsageError(
            f"{url} needs a package that is not installed: {error.name or error}",
            hint=f"pip install 'backcast[{extra}]'",
        ) from None


def is_object(info: Mapping[str, Any]) -> bool:
    """Whether an entry of a listing is an object, and none that a console made to show a folder."""
    return bool(info["type"] == "file" and not info["name"].endswith("/"))


def statuses_of(url: str, found: Mapping[str, Mapping[str, Any]]) -> dict[str, FileStatus]:
    scheme = scheme_of(url)
    return {f"{scheme}://{info['name']}": status_of(info) for info in found.values() if is_object(info)}


def status_of(info: Mapping[str, Any]) -> FileStatus:
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
def errors() -> Iterator[None]:
    """Errors of a store's library as FileNotFoundError, PermissionError or StoreError."""
    try:
        yield
    except (FileNotFoundError, FileExistsError, PermissionError, StoreError, UsageError):
        raise
    except ImportError:
        raise
    except Exception as error:  # each library has errors of its own, and of those below it
        cause = (str(error) or type(error).__name__).split("\n")[0]
        raise StoreError(cause) from error


def remote_range(name: str, offset: int, length: int) -> bytes:
    """At most `length` bytes of an object from `offset`. Raises OSError."""
    with errors():
        content: bytes = file_system(name).cat_file(name, start=offset, end=offset + length)
    return content
