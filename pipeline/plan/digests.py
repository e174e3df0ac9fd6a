"""The digest of each file that is planned, taken in time that nothing else has a use for.

A walk waits now and then for its workers: a thread of the lowest priority fills what is left. Beside the people, who
are Python, it would wait for the interpreter's lock as long as it works (measured: 1.0 s for 690 MB instead of 0.5).
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


class Digests:
    """Begins with the first part on entering. Leaving it early ends within a moment, however long a file is."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._given_up = False
        self._pool = ThreadPoolExecutor(1, "digest", _give_way)

    def __enter__(self) -> Digests:
        self._found = [self._pool.submit(self._digest, part) for part in self._parts]
        return self

    def __exit__(self, *_: object) -> None:
        self._given_up = True
        self._pool.shutdown(cancel_futures=True)

    def of_unchanged(self) -> list[str]:
        """The digests, in the order of the parts. To be asked when all has been read.

        Raises UnreadableExport where a file has changed since it was found: what was walked is not what was digested.
        """
        found = [one.result() for one in self._found]
        for part in self._parts:
            refuse_changed(part)
        return found

    def _digest(self, part: Part) -> str:
        return part.digest or digest_of(part, lambda: self._given_up)  # of files of one size it is known already


def _give_way() -> None:
    """Let this thread run where no other wants to. Only Linux has priorities of single threads."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
