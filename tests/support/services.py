"""Local services of the tests: one for all tests that want the same, or a new one whose end is not waited for.

Starting and ending one takes 40 ms of work and a quarter of a second of waiting.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.local_service import Keyring, LocalService, Settings

NOW = 1_700_000_000_000_000
"""2023-11-14T22:13:20Z, in microseconds: the fixed time of most of their clocks."""
_kept: list[LocalService] = []


@contextmanager
def running(keys: Keyring | None = None, settings: Settings | None = None, **more: Any) -> Iterator[LocalService]:
    """A service that is not shared. If it is in memory, the end of the block does not wait for it."""
    service = LocalService(keys=keys, settings=settings, **more).start()
    try:
        yield service
    finally:
        if more.get("store") is None:
            threading.Thread(target=service.close).start()
        else:
            service.close()


def kept(**options: Any) -> LocalService:
    """A service that runs until the tests of this process have ended."""
    service = LocalService(**options).start()
    _kept.append(service)
    return service


def wait_for(true: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds; an error if it takes longer than that."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


@atexit.register
def _end() -> None:
    for service in _kept:
        service._server.should_exit = True  # so that none waits for another
    for service in _kept:
        service.close()
