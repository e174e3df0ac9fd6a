"""What can be set of the local service: points where the facts are unsettled, and the limits.

A point the facts call open is a named setting here, never a guess (service-behaviour 7).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

MIB = 1024 * 1024


def now_micros() -> int:
    """The present, in microseconds since 1970 (UTC)."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """How one local service behaves. All sizes are bytes."""

    token_validation: Literal["off", "enforce"] = "off"
    """A well-shaped capture key that no project owns: `off` answers 200, stores nothing and counts the
    request as rejected; `enforce` answers 401 (service-behaviour 1.5, 7.3)."""

    oversize_event: Literal["reject", "keep_earlier"] = "reject"
    """One event too large for the queue answers 413. `reject` stores nothing of its batch; `keep_earlier`
    stores the events that stood before it, as the real service is thought to do (service-behaviour 1.5)."""

    batch_wire_limit: int = 20 * MIB
    """The body of `/batch` as it travels (service-behaviour 1.4)."""

    event_wire_limit: int = 2 * MIB
    """The body of the other event routes as it travels (service-behaviour 1.4)."""

    decoded_limit: int = 100 * MIB
    """The body after decompression (service-behaviour 1.4)."""

    stored_event_limit: int = 1_000_000
    """One event as it is queued: its JSON encoded once more inside JSON (service-behaviour 1.4)."""

    clock: Callable[[], int] = now_micros
    """The service's own clock, in microseconds since 1970 (UTC)."""
