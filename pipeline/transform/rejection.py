"""Why a whole row is rejected, though only one of its events cannot be sent."""

from __future__ import annotations

from collections.abc import Sized

from pipeline.models import GroupUpdate, PersonUpdate, RejectReason, UnvalidatedEvent
from pipeline.validator.rules import ValidationContext, check, check_update

MOST_OUTCOMES = (1 << 16) - 1
"""A fact stores an event's position in its row in 16 bits (`pipeline.transform.facts`)."""


class RowRejected(Exception):
    """One event of a row cannot be sent, so the whole row is rejected."""

    def __init__(self, reason: RejectReason, event: UnvalidatedEvent | None) -> None:
        self.reason = reason
        self.event = event


def check_number(outcomes: Sized) -> None:
    """Raise RowRejected if a row has more events than can be distinguished."""
    if len(outcomes) > MOST_OUTCOMES:
        detail = f"the row makes {len(outcomes):,} events; the limit is {MOST_OUTCOMES:,}: split its list"
        raise RowRejected(RejectReason("bad_value", detail), None)


def require_sendable(event: UnvalidatedEvent, context: ValidationContext) -> None:
    """Raise RowRejected if an event breaks a rule."""
    reason = check(event, context)
    if reason is not None:
        raise RowRejected(reason, event)


def require_sendable_update(update: PersonUpdate | GroupUpdate, context: ValidationContext) -> None:
    """Raise RowRejected if an update breaks a rule."""
    reason = check_update(update, context)
    if reason is not None:
        if not isinstance(update, PersonUpdate):
            raise RowRejected(reason, None)
        raise RowRejected(reason, UnvalidatedEvent(None, update.distinct_id, update.time, {}))
