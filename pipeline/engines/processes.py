"""What the processes of every engine have in common: how they are started, and how tasks and errors travel."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import sys
import types
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace


def default_workers() -> int:
    """One for each processor that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@contextlib.contextmanager
def start_quietly() -> Iterator[None]:
    """Start processes that run nothing of the caller's, and that leave Ctrl-C to their parent."""
    # numpy would start a thread for each processor, for linear algebra that is not used here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with _anonymous_main(), _interrupts_blocked():
        yield


@contextlib.contextmanager
def _anonymous_main() -> Iterator[None]:
    """Start processes without running the caller's script again in each.

    A script that calls the library from its top level would otherwise start itself anew in every worker.
    """
    real = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = real


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that ignore the terminal's Ctrl-C, because their parent ends them."""
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # by starting it, `multiprocessing` would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def content_of(task: Any) -> bytes | memoryview | None:
    """The bytes that travel with a task: those of its block, where it has one and no worker can read them by itself."""
    return task.block.content if hasattr(task, "block") else None


def with_content(task: Any, content: bytes | None) -> Any:
    """The task with other bytes of its block, or without them."""
    return task._replace(block=replace(task.block, content=content))


def picklable(error: Exception) -> Exception:
    """The error itself where it can be pickled, else an error with its name and message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def retain_freed_memory() -> None:
    """Retain freed blocks of a few MiB for the next one: returning each to the system costs a page fault per 4 KiB."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 64 << 20)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 128 << 20)  # M_TRIM_THRESHOLD
