"""What a run of a job reports as it proceeds: each window's outcome, and its progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import msgspec

from pipeline.jobs.state import Attempt

if TYPE_CHECKING:
    from pipeline.delivery.outcome import RunCounts
    from pipeline.jobs.proof import Proof


class WindowRun(msgspec.Struct, frozen=True):
    """What a run did about one window.

    `outcome`: done, planned (a dry run), waiting (for files), stopped (by a check, or a damaged file), unfinished
    (being sent) or replaced (its files changed while it was being sent). `plan` is the directory of the plan and
    `state` that plan's state (`report.state`), both "" if there is no plan.
    """

    window: str
    outcome: str
    plan: str = ""
    attempt: Attempt | None = None
    detail: str = ""
    state: str = ""


Reading = Callable[[int, int], None]
"""Called with the numbers of rows and bytes read so far."""
Sending = Callable[["RunCounts"], None]


class JobHooks(msgspec.Struct, frozen=True):
    """What a job calls as it runs: `ended` and `proved` with each window, `warn` with a sentence for a person.

    `reading` and `sending` return a context manager for the time in which a window is planned, or sent (with its number
    of events); its value is called with the progress. Setting `interrupted` requests an orderly end.
    """

    ended: Callable[[WindowRun], None] = lambda ended: None
    proved: Callable[[Proof], None] = lambda proof: None
    warn: Callable[[str], None] = lambda line: None
    reading: Callable[[str], AbstractContextManager[Reading]] = lambda window: nullcontext(lambda rows, length: None)
    sending: Callable[[str, int], AbstractContextManager[Sending]] = lambda window, events: nullcontext(
        lambda counts: None
    )
    interrupted: threading.Event = msgspec.field(default_factory=threading.Event)
