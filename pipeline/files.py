"""How files come to lie on this machine: whole, durable, and readable by their owner alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OTHERS = 0o077
"""What a mode says of the owner's group and of everyone else."""

_lock = threading.Lock()
_inside = 0
_umask = 0


@contextmanager
def private() -> Iterator[None]:
    """What is made inside is for its owner alone, files 600 and folders 700, whatever the umask was. Also a decorator.

    Exports, plans and ledgers hold personal data, and SQLite, DuckDB and Arrow make files of their own beside ours: the
    umask alone reaches them all. It is the process's, so what other threads make meanwhile is private too. It is set
    back once nobody is inside any more.
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
    """Write a file whole or not at all, durably."""
    aside = path.with_name(path.name + ".new")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
