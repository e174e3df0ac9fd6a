"""The settle time: the service shows events some time after it accepts them, so reading waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pipeline.ledger import read_last_settled
from pipeline.models import Step
from pipeline.targets import address_of, is_loopback

SETTLE_SECONDS = 600.0
"""Reading begins this long after the last accepted event, unless another time is given."""


def settle_seconds(to: str, given: float | None) -> float:
    """How long after the last event a target is read: the given time, if any; else none on this machine."""
    return given if given is not None else 0.0 if is_loopback(address_of(to)) else SETTLE_SECONDS


def wait_to_settle(ledger: Path, seconds: float, progress: Step, sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait until the last accepted event is this old. `progress` is called each second with the seconds that passed."""
    while (age := settled_for(ledger)) is not None and age < seconds:
        progress("settle time, seconds", int(age), int(seconds))
        sleep(min(1.0, seconds - age))


def settled_for(ledger: Path) -> float | None:
    """How many seconds ago the last event was accepted; None if none was."""
    last = read_last_settled(ledger)
    return None if last is None else max(0.0, (datetime.now(UTC) - last).total_seconds())
