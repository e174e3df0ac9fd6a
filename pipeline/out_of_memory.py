"""What to say and do if the system gives no more memory.

Under a limit on address space (`ulimit -v`) an allocation fails in whatever code comes first, with that code's own
error, and libraries in C++ may crash. So code that needs much memory checks before it begins.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import BackcastError, OutOfMemory, UnreadableExport

_SIGNS = (
    "can't start new thread",
    "cannot allocate memory",
    "failed to map segment",
    "malloc failure",
    "out of memory",
    "allocation failure",
    "bad_alloc",
)
"""Words in errors of other kinds, in lower case."""
_UNSAID = re.compile("without (setting an )?exception")
"""What Python says about C code that failed without saying why, as numpy does if it gets no memory."""
_ARENAS = -8  # M_ARENA_MAX of mallopt()
_ARROW = 320 << 20
_DATABASE = 720 << 20
"""What a process needs to read with Arrow, and what one with DuckDB needs, such as the local service."""
_STACK = 8 << 20
_MOST_CAUSES = 32
_met: list[BaseException] = []


def limit() -> int | None:
    """The bytes of address space that this process may have; None without a limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def spare_address_space() -> None:
    """Under a limit, let all threads of this process and of its children share one pool of memory.

    The allocator of Linux would reserve 64 MB of address space for each thread.
    """
    if limit() is None:
        return
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENAS, 1)


def require_for_database(what: str = "this command") -> None:
    """Make sure that this process may have enough address space for DuckDB. Raises OutOfMemory.

    Called before DuckDB is imported: with less, it may crash while loading or while starting its threads.
    """
    _require(what, _DATABASE)


def require_for_service() -> None:
    """Make sure that this process may have enough address space for the local service. Raises OutOfMemory."""
    require_for_database("the local service")


def require_for_arrow() -> None:
    """Make sure of enough address space for Arrow, whose threads may crash with less. Raises OutOfMemory."""
    _require("reading Parquet or ORC", _ARROW)


def _require(what: str, least: int) -> None:
    allowed = limit()
    needed = least + _STACK * (os.cpu_count() or 1)
    if allowed is not None and allowed < needed:
        raise OutOfMemory(
            f"{what} needs {_shown(needed)} of address space; the limit is {_shown(allowed)} (ulimit -v)",
            hint=f"allow more: ulimit -v {needed >> 10}; then run the same command again",
        )


@contextmanager
def told(*, workers: bool) -> Iterator[None]:
    """Turn each error that means that memory has run out into OutOfMemory. `workers`: the command has that option."""
    _met.clear()
    try:
        yield
    except Exception as error:
        found = shortage_of(error)
        if found is None:
            raise
        _met.append(found)
        allowed = limit()
        met = "the system gives no more" if allowed is None else f"the limit is {_shown(allowed)} (ulimit -v)"
        why = next(iter(str(found).splitlines()), "")
        more = "free some memory" if allowed is None else "allow more: ulimit -v unlimited"
        less = ", or use less: --workers 1" if workers and allowed is None else ""
        raise OutOfMemory(
            f"out of memory: {met}{f' ({why})' if why else ''}", hint=f"{more}{less}; then run the same command again"
        ) from error


def was_met() -> bool:
    """Whether memory ran out in the last command of this process, which cannot be relied on afterwards."""
    return bool(_met)


def shortage_of(error: BaseException | None) -> BaseException | None:
    """The error that says that memory has run out: this one, or one that led to it, or None."""
    for _ in range(_MOST_CAUSES):
        if error is None or (isinstance(error, BackcastError) and not isinstance(error, UnreadableExport)):
            return None
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return error
        if isinstance(error, SystemError) and _UNSAID.search(str(error)) and limit() is not None:
            return error
        if not isinstance(error, BackcastError | OSError) and any(sign in str(error).lower() for sign in _SIGNS):
            return error
        error = error.__cause__ or error.__context__
    return None


def _shown(count: int) -> str:
    return f"{count / 1_000_000:,.0f} MB"
