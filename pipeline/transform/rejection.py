"""Why a whole row is rejected, though only one of its events cannot be sent."""

from __future__ import annotations

from collections.abc import Sized

from pipeline.models import RejectReason, UnvalidatedEvent

MOST_OUTCOMES = (1 << 16) - 1
"""A key record holds the position of an event in its row in 16 bits (`event_keys.KEY`)."""


class RowRejected(Exception):
    """One event of a row cannot be sent, so the row is not."""

    def __init__(self, reason: RejectReason, event: UnvalidatedEvent | None) -> None:
        self.reason = reason
        self.event = event


def check_number(outcomes: Sized) -> None:
    """Raise RowRejected for a row of more events than can be told apart."""
    if len(outcomes) > MOST_OUTCOMES:
        detail = f"the row is {len(outcomes):,} events, and a row can be {MOST_OUTCOMES:,} at most: split its list"
        raise RowRejected(RejectReason("bad_value", detail), None)
