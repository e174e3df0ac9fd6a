"""One file on this machine or one object of a store: its status, reading it, writing it whole."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import suppress
from time import sleep

from pipeline.errors import UsageError
from pipeline.storage.store import (
    FileStatus,
    StoreError,
    answer_of,
    errors,
    file_system,
    is_remote,
    remote_range,
    scheme_of,
    status_of,
)
from pipeline.storage.streams import STRIDE_BYTES, ObjectStream, StrideStream

_BUFFER = 256 * 1024


def status(name: str) -> FileStatus:
    """The status of a file. Raises OSError."""
    if not is_remote(name):
        found = os.stat(name)
        return FileStatus(found.st_size, found.st_mtime_ns)
    with errors(name):
        info = file_system(name).info(name)
    if info["type"] != "file":
        raise FileNotFoundError(f"{name} is a prefix, not an object")
    return status_of(info)


def is_file(name: str) -> bool:
    """Whether a file with this name exists. Raises StoreError if a store does not say."""
    if not is_remote(name):
        return os.path.isfile(name)
    try:
        status(name)
    except FileNotFoundError:
        return False
    return True


def opened(name: str, size: int | None = None, *, head: bytes = b"", in_places: bool = False) -> io.BufferedReader:
    """A file for reading. Raises OSError, also from a read.

    For an object, give `size` and the first bytes (`heads`) if they are known, to save requests. It is read ahead while
    its stream is consumed; with `in_places`, only what is read is requested.
    """
    if not is_remote(name):
        return open(name, "rb", buffering=_BUFFER)  # type: ignore[return-value]  # a buffer of this size is one
    return io.BufferedReader(ObjectStream(name, status(name).size if size is None else size, head, in_places), _BUFFER)


def opened_at_strides(name: str, size: int, stride: int) -> io.BufferedReader:
    """A file of `size` bytes, mainly read just before each multiple of `stride` bytes.

    Raises OSError, also from a read.
    """
    if not is_remote(name):
        return open(name, "rb")
    return io.BufferedReader(StrideStream(name, size, stride), STRIDE_BYTES)


def read_range(name: str, offset: int, length: int) -> bytes:
    """At most `length` bytes of a file from `offset`; fewer if it ends earlier. Raises OSError."""
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
    """Write an object that must not exist yet; False if it does. Raises OSError, and UsageError if it cannot be
    written.

    `refuse_replacing` finds out whether the store respects this condition.
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
        if answer_of(error) == _TAKEN:  # the answer of stores other than Amazon's
            return False
        if answer_of(error) == _NOT_IMPLEMENTED:
            raise _no_condition(url) from error
        raise
    return True


def refuse_replacing(url: str, content: bytes) -> None:
    """Raise UsageError if `create` replaces an object: then nothing shows who was first. Raises OSError.

    `url` is an object that exists with this content.
    """
    if create(url, content):
        raise _no_condition(url)


def _no_condition(url: str) -> UsageError:
    return UsageError(
        f"the store of {url} has no conditional writes: it would replace an object that must not exist yet",
        hint="use a folder on this machine, or a store that has them (S3's header If-None-Match)",
    )


_TAKEN, _CONFLICT, _NOT_IMPLEMENTED = 412, 409, 501
_CONFLICTS = (0.1, 0.5, 2.0)
"""Seconds between attempts to write an object while another process is writing it."""


def write(url: str, content: bytes) -> None:
    """Write an object, whole or not at all. Raises OSError, and UsageError if it cannot be written."""
    _put(url, content)


def _put(url: str, content: bytes, **options: str) -> None:
    # After writing an object, adlfs takes the first part of its key for a host: what follows a colon is not a port.
    first = url.split("/")[3:4]
    if scheme_of(url) == "az" and ":" in "".join(first):
        raise UsageError(
            f"{url} cannot be written: the first part of its prefix has a colon",
            hint="name a prefix without a colon there",
        )
    with errors(url):
        file_system(url).pipe_file(url, content, **options)


def upload(path: str, url: str) -> None:
    """Copy a file on this machine into a store, whole or not at all. Raises OSError."""
    with errors(url):
        file_system(url).put_file(path, url)


def download(url: str, path: str) -> None:
    """Copy an object to a file on this machine. Raises OSError."""
    with errors(url):
        file_system(url).get_file(url, path)


def remove(urls: Sequence[str]) -> None:
    """Remove objects of one store; objects that are already gone are fine. Raises OSError."""
    if urls:
        with suppress(FileNotFoundError), errors(urls[0]):
            file_system(urls[0]).rm(list(urls))
