"""The stores behind the URLs: their libraries, what they say of objects, their errors, and the threads that wait."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

EXTRAS: Mapping[str, str] = {"s3": "s3", "gs": "gcs", "az": "azure"}
"""The scheme of each store's URLs, and the extra of this package that reads them."""
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LIBRARIES = ("adlfs", "aiobotocore", "azure", "botocore", "fsspec", "gcsfs", "google", "msal", "s3fs")
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
    """A store did not answer as expected. The message is the cause; `url` is an object, a prefix or a pattern, and
    `hint` what to do before the same command is run again."""

    hint = "check the credentials and the network"

    def __init__(self, message: str, url: str = "") -> None:
        super().__init__(message)
        self.url = url


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
    _prepare()
    try:
        import fsspec

        # The library keeps one for each process, so that it is not carried over into another one.
        found = fsspec.filesystem(scheme_of(url), use_listings_cache=False)
        if scheme_of(url) == "s3" and found.session is None:
            found.session = _session(found.kwargs)
        return found
    except ImportError as error:
        raise UsageError(
            f"{url} needs a package that is not installed: {error.name or error}",
            hint=f"pip install 'backcast[{extra}]'",
        ) from None


@cache
def _prepare() -> None:
    """Settle how the libraries behave in this process, before the first of them is imported.

    What they log would be printed where nothing else takes it, tracebacks among it; their errors are raised as well.
    Google's store is asked in one way only, that which writes an object if it is not there yet: for some buckets the
    library would choose another, which replaces it, and would ask for each bucket which kind it is.
    """
    for library in _LIBRARIES:
        logging.getLogger(library).addHandler(logging.NullHandler())
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


def _session(options: Mapping[str, Any]) -> Any:
    """The session that the library would make, which reads times in the form of a listing faster.

    Where a listing is long, three quarters of its processor time are its times otherwise.
    """
    from aiobotocore.session import AioSession  # type: ignore[import-untyped]
    from botocore.utils import parse_timestamp  # type: ignore[import-untyped]

    def time_of(text: str) -> datetime:
        try:
            return datetime.fromisoformat(text)
        except (TypeError, ValueError):
            other: datetime = parse_timestamp(text)
            return other

    session = AioSession(**options)
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=time_of)
    return session


def status_of(info: Mapping[str, Any]) -> FileStatus:
    etag = str(info.get("generation") or info.get("ETag") or info.get("etag") or "").strip('"')
    changed = next((info[key] for key in ("LastModified", "last_modified", "mtime", "updated") if info.get(key)), None)
    return FileStatus(int(info["size"]), nanoseconds(changed), etag)


def nanoseconds(changed: object) -> int:
    """A time as a store's library has it, in nanoseconds UTC; 0 where it has none."""
    if isinstance(changed, str):
        changed = datetime.fromisoformat(changed)
    if not isinstance(changed, datetime):
        return 0
    since = (changed if changed.tzinfo else changed.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return microseconds * 1_000


@contextmanager
def errors(url: str) -> Iterator[None]:
    """Errors of a store's library as FileNotFoundError, PermissionError or StoreError, each with the URL.

    Those of a file of this machine, which an object is copied from or to, stay as they are.
    """
    try:
        yield
    except (FileExistsError, StoreError, UsageError, ImportError):
        raise
    except Exception as error:  # each library has errors of its own, and of those below it
        if isinstance(error, OSError) and (error.filename or error.errno in _OF_A_DISK):
            raise
        cause, *more = (getattr(error, "strerror", None) or str(error) or type(error).__name__).split("\n")
        code = answer_of(error)
        if code == 404 or isinstance(error, FileNotFoundError):
            raise FileNotFoundError(errno.ENOENT, cause, url) from error
        if cause.startswith("Forbidden: "):  # gcsfs: the address, and then the reason
            code, cause = 403, more[0] if more else cause
        if code in (401, 403) or isinstance(error, PermissionError):
            raise PermissionError(errno.EACCES, cause, url) from error
        raise StoreError(cause, url) from error


_OF_A_DISK = (errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.EROFS)
_AHEAD: dict[tuple[int, str], Future[bytes]] = {}
"""Small objects that are read already, whole, by the process that reads them and their names."""


def read_ahead(name: str, size: int) -> None:
    """Begin to read a small object, until it is forgotten."""
    key = os.getpid(), name
    if key not in _AHEAD:
        _AHEAD[key] = pool().submit(_requested, name, 0, size)


def forget(name: str) -> None:
    """Release an object that was read ahead."""
    if (content := _AHEAD.pop((os.getpid(), name), None)) is not None:
        content.cancel()


def answer_of(error: BaseException) -> int:
    """The HTTP status that a store answered with, as its library gives it; 0 where it does not."""
    while True:
        response = getattr(error, "response", None)
        if isinstance(response, dict):  # botocore
            return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        code = getattr(error, "status_code", None) or getattr(error, "code", None)  # azure.core, gcsfs
        if str(code).isdecimal():
            return int(str(code))
        if error.__cause__ is None:
            return 0
        error = error.__cause__


def remote_range(name: str, offset: int, length: int) -> bytes:
    """At most `length` bytes of an object from `offset`. Raises OSError."""
    if (content := _AHEAD.get((os.getpid(), name))) is not None:
        with suppress(CancelledError):
            return content.result()[offset : offset + length]
    return _requested(name, offset, length)


def _requested(name: str, offset: int, length: int) -> bytes:
    with errors(name):
        content: bytes = file_system(name).cat_file(name, start=offset, end=offset + length)
    return content
