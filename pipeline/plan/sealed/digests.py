"""The digests of the files that are planned, computed while the main thread waits for its workers.

The thread has the lowest priority. It runs during the walk, not during identity resolution: that is Python code, and
the thread would wait for the interpreter's lock (measured: 1.0 s for 690 MB instead of 0.5).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from pipeline.extractors import digest_of, refuse_changed
from pipeline.extractors.containers import BUFFER_BYTES
from pipeline.models import Part, Step

_LOWEST = 19


class BackgroundDigests:
    """Computes the sha256 of each part in its own thread. A context manager.

    Leaving it early ends the thread within a moment, however long a file is.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._cancelled = False
        self._read, self._total = 0, sum(part.bytes for part in parts if not part.digest)
        self._pool = ThreadPoolExecutor(1, "digest", _lower_priority)

    def __enter__(self) -> BackgroundDigests:
        # Files of equal size and small objects already have a digest.
        self._results = [part.digest or self._pool.submit(self._digest, part) for part in self._parts]
        return self

    def __exit__(self, *_: object) -> None:
        self._cancelled = True
        self._pool.shutdown(cancel_futures=True)

    def of_unchanged(self, step: Step = lambda name, done, total: None, every: float = 0.5) -> list[str]:
        """The digests, in the order of the parts. Must be called after the walk.

        While waiting, it calls `step` with the MB read so far and the total, at intervals of `every` seconds.

        Raises UnreadableExport if a file has changed since the export was opened: the digest may be of other bytes.
        """
        digests = []
        for result in self._results:
            if isinstance(result, str):
                digests.append(result)
                continue
            while not wait([result], every).done:
                step("MB for digests", min(self._read, self._total) // 1_000_000, self._total // 1_000_000)
            digests.append(result.result())
        refuse_changed(self._parts)
        return digests

    def _digest(self, part: Part) -> str:
        return digest_of(part, self._is_cancelled)

    def _is_cancelled(self) -> bool:
        self._read += BUFFER_BYTES
        return self._cancelled


def _lower_priority() -> None:
    """Give this thread the lowest priority. Only on Linux do single threads have priorities."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
