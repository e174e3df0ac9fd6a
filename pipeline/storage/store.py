"""The stores behind the URLs: which URLs are refused, their libraries, object statuses, errors, ranges, and the threads
that wait for them."""

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
_QUERY = re.compile(r"\?[\w.~-]+=|\bX-(Amz|Goog)-Signature=", re.IGNORECASE)
"""What a signed URL, or one with a shared access signature, contains; any other `?` belongs to a pattern."""
_USER = re.compile(r"//[^/]*@")
_LIBRARIES = ("adlfs", "aiobotocore", "azure", "botocore", "fsspec", "gcsfs", "google", "msal", "s3fs")
REQUESTS = 32
"""How many requests to a store run at once if many small ones are needed."""


class FileStatus(NamedTuple):
    """Shows whether a file is still the same one.

    `mtime_ns` is the time of its last change, in nanoseconds UTC. `etag` is the store's name for its content, or its
    generation number; "" on this machine.
    """

    size: int
    mtime_ns: int
    etag: str = ""

    def is_same(self, other: FileStatus) -> bool:
        """Whether nothing shows that the content differs. If the etags of an object agree, its time does not matter: a
        copy has another time."""
        if self.etag and other.etag:
            return (self.size, self.etag) == (other.size, other.etag)
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


class StoreError(OSError):
    """A store did not answer as expected. The message is the cause; `url` is an object, a prefix or a pattern; `hint`
    is what to do before running the same command again."""

    hint = "check the credentials and the network"

    def __init__(self, message: str, url: str = "") -> None:
        super().__init__(message)
        self.url = url


def is_remote(name: str) -> bool:
    """Whether a name is the URL of a store that can be read."""
    found = SCHEME.match(name)
    return found is not None and found[1] in EXTRAS


def refuse_foreign(name: str) -> None:
    """Raise UsageError for a URL that is not a store's, and for one with credentials."""
    found = SCHEME.match(name)
    if found is None:
        return
    if found[1] not in EXTRAS:
        stores = ", ".join(f"{scheme}://" for scheme in EXTRAS)
        raise UsageError(
            f"backcast cannot read from {without_credentials(name)}",
            hint=f"name files, folders or {stores} URLs; download anything else into a folder first",
        )
    bucket = name[found.end() :].partition("/")[0]
    if "@" in bucket or _QUERY.search(name):
        pattern = "; if it is a pattern, write * instead of ?" if "?" in name else ""
        raise UsageError(
            "the URL of a store contains a user, a password, a key or a signature",
            hint=f"remove it; set the credentials as the store's own tools expect, such as in the environment{pattern}",
        )
    if not bucket:
        raise UsageError(f"{name} names no bucket", hint=f"write {found[0]}BUCKET/PREFIX")


def without_credentials(address: str) -> str:
    """An address that is safe to show: without its query, and with *** for a user and a password."""
    return _USER.sub("//***@", address.partition("?")[0])


def pool() -> ThreadPoolExecutor:
    """The threads that wait for the store: a forked process has none of its parent's threads."""
    return _pool_of(os.getpid())


@cache
def _pool_of(process: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(REQUESTS, "store")


def scheme_of(url: str) -> str:
    return url.partition("://")[0]


def file_system(url: str) -> Any:
    """The file system of a URL. Raises UsageError if its package is not installed."""
    extra = EXTRAS[scheme_of(url)]
    _prepare()
    try:
        import fsspec

        # The library keeps one for each process, so it is not carried over into another process.
        found = fsspec.filesystem(scheme_of(url), use_listings_cache=False)
        if scheme_of(url) == "s3" and found.session is None:
            found.session = _session(found.kwargs)
        return found
    except ImportError as error:
        raise UsageError(
            f"{url} needs a package that is not installed: {error.name or error}",
            hint=f"install it: pip install 'backcast[{extra}]'",
        ) from None


@cache
def _prepare() -> None:
    """Settle how the libraries behave in this process, before the first of them is imported.

    What they log would be printed, tracebacks included, if nothing else takes it; their errors are raised anyway.
    Google's store is used only through the one request that writes an object if it does not exist yet: for some buckets
    the library would choose another, which replaces it, and it would ask which kind each bucket is.
    """
    for library in _LIBRARIES:
        logging.getLogger(library).addHandler(logging.NullHandler())
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


def _session(options: Mapping[str, Any]) -> Any:
    """The session that the library would make, except that it reads the times in a listing faster.

    In a long listing, they would otherwise take three quarters of the processor time.
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
    """A time from a store's library, in nanoseconds UTC; 0 if it has none."""
    if isinstance(changed, str):
        changed = datetime.fromisoformat(changed)
    if not isinstance(changed, datetime):
        return 0
    since = (changed if changed.tzinfo else changed.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return microseconds * 1_000


@contextmanager
def errors(url: str) -> Iterator[None]:
    """Turns errors of a store's library into FileNotFoundError, PermissionError or StoreError, each with the URL.

    Errors of the local file that an object is copied from or to stay as they are.
    """
    try:
        yield
    except (FileExistsError, StoreError, UsageError, ImportError):
        raise
    except Exception as error:  # each library has errors of its own and of libraries that it uses
        if isinstance(error, OSError) and (error.filename or error.errno in _OF_A_DISK):
            raise
        cause, *more = (getattr(error, "strerror", None) or str(error) or type(error).__name__).split("\n")
        code = answer_of(error)
        if code == 404 or isinstance(error, FileNotFoundError):
            raise FileNotFoundError(errno.ENOENT, cause, url) from error
        if cause.startswith("Forbidden: "):  # gcsfs writes the address, then the reason
            code, cause = 403, more[0] if more else cause
        if code in (401, 403) or isinstance(error, PermissionError):
            raise PermissionError(errno.EACCES, cause, url) from error
        raise StoreError(cause, url) from error


_OF_A_DISK = (errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.EROFS)
_AHEAD: dict[tuple[int, str], Future[bytes]] = {}
"""Small objects read ahead, whole, by name, for the process that is reading them."""


def read_ahead(name: str, size: int) -> None:
    """Begin to read a small object, which is kept until `forget`."""
    key = os.getpid(), name
    if key not in _AHEAD:
        _AHEAD[key] = pool().submit(_requested, name, 0, size)


def forget(name: str) -> None:
    """Release an object that was read ahead."""
    if (content := _AHEAD.pop((os.getpid(), name), None)) is not None:
        content.cancel()


def answer_of(error: BaseException) -> int:
    """The HTTP status of a store's answer, if its library gives it; otherwise 0."""
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
