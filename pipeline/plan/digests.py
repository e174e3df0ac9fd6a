"""The digests of the files that are planned, computed while the main thread waits for its workers.

The thread has the lowest priority. It runs beside the walk, not beside identity resolution: that is Python code, and
the thread would wait for the interpreter's lock (measured: 1.0 s for 690 MB instead of 0.5).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pipeline.extractors import digest_of, refuse_changed
from pipeline.models import Part

_LOWEST = 19


class BackgroundDigests:
    """Computes the sha256 of each part in a thread of its own. Use as a context manager.

    Leaving it early ends the thread within a moment, however long a file is.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._cancelled = False
        self._pool = ThreadPoolExecutor(1, "digest", _lower_priority)

    def __enter__(self) -> BackgroundDigests:
        self._results = [self._pool.submit(self._digest, part) for part in self._parts]
        return self

    def __exit__(self, *_: object) -> None:
        self._cancelled = True
        self._pool.shutdown(cancel_futures=True)

    def of_unchanged(self) -> list[str]:
        """The digests, in the order of the parts. To be called after the walk.

        Raises UnreadableExport where a file has changed since the export was opened: the digest may be of other bytes.
        """
        digests = [result.result() for result in self._results]
        for part in self._parts:
            refuse_changed(part)
        return digests

    def _digest(self, part: Part) -> str:
        return part.digest or digest_of(part, lambda: self._cancelled)  # files of equal size have one already


def _lower_priority() -> None:
    """Give this thread the lowest priority. Only Linux has priorities of single threads."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
