"""How processes are started on this machine: those of the local engine, and of clusters started for a run."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import types
from collections.abc import Iterator


def default_workers() -> int:
    """One per processor that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@contextlib.contextmanager
def start_quietly() -> Iterator[None]:
    """Start processes that do not run the caller's script and that leave Ctrl-C to their parent."""
    # Otherwise numpy would start a thread per processor for linear algebra, which is not used here.
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

    resource_tracker.ensure_running()  # otherwise `multiprocessing` would start it here and unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
