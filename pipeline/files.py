"""Writes files atomically, durably, and readable only by their owner."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import UsageError

OTHERS = 0o077
"""The permission bits of the owner's group and of everyone else."""

_lock = threading.Lock()
_inside = 0
_umask = 0


@contextmanager
def private() -> Iterator[None]:
    """Within it, files are created with mode 600 and folders with 700, whatever the umask was. Also a decorator.

    Exports, plans and ledgers contain personal data, and SQLite, DuckDB and Arrow also create files themselves; only
    the umask reaches them all. It belongs to the process, so files that other threads create meanwhile are private too.
    It is restored when the last block ends.
    """
    global _inside, _umask
    with _lock:
        if not _inside:
            _umask = os.umask(OTHERS)
            os.umask(_umask | OTHERS)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                os.umask(_umask)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, durably."""
    aside = path.with_name(path.name + ".new")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file completely or not at all, durably, with indents."""
    import msgspec  # `backcast --help` does without it

    write_atomically(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def may_replace(path: Path, begins: tuple[bytes, ...], option: str) -> None:
    """Raise UsageError unless a file may be written here: there must be none, or one that begins in one of these ways.

    White space and a byte order mark at its start are ignored. `option` is the option that named the path.
    """
    hint = "give a path that does not exist yet"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(f"{option}: {path} is not an ordinary file", hint=hint)
    if path.exists():
        with path.open("rb") as file:
            head = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
        if head and not head.startswith(begins):
            raise UsageError(
                f"{option}: {path} exists and is another kind of file, so it is not overwritten", hint=hint
            )
    if not path.parent.is_dir():
        raise UsageError(f"{option}: the folder {path.parent} does not exist", hint="create the folder first")


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
