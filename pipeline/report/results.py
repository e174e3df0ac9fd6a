"""What happened after the plan, in the shapes of the machine contract (DESIGN 9): apply, status, verify.

Delivery and verification fill these; the terminal, report.json and report.html all show them.
"""

from __future__ import annotations

import msgspec


class BatchCounts(msgspec.Struct, frozen=True):
    """Requests: `retried` took more than one try, `split` were sent in smaller pieces."""

    made: int = 0
    sent: int = 0
    retried: int = 0
    split: int = 0


class SentCounts(msgspec.Struct, frozen=True):
    """Events of a run. `made` is the sum of the others and `unsent` (law 1)."""

    made: int
    accepted: int = 0
    refused: int = 0
    in_doubt: int = 0
    already_settled: int = 0

    @property
    def unsent(self) -> int:
        return self.made - self.accepted - self.refused - self.in_doubt - self.already_settled


class ApplyResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run of apply, or of rehearse."""

    format: str = "backcast.apply/1"
    digest: str
    dry_run: bool
    balanced: bool
    seconds: float
    batches: BatchCounts
    events: SentCounts


class StatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where a plan stands. `state` is planned, running, stopped or done."""

    format: str = "backcast.status/1"
    digest: str
    state: str
    batches: BatchCounts
    events: SentCounts


class CellCounts(msgspec.Struct, frozen=True):
    """Event × UTC day: how many agree with the ledger, and how the others differ."""

    match: int = 0
    missing: int = 0
    extra: int = 0
    duplicated: int = 0
    different: int = 0


class FoundCounts(msgspec.Struct, frozen=True):
    """Events: `expected` by the ledger, `found` at the service."""

    expected: int = 0
    found: int = 0
    missing: int = 0
    extra: int = 0


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What landed against what was settled. `proved`: every event was found once, by uuid."""

    format: str = "backcast.verify/1"
    cells: CellCounts
    events: FoundCounts
    proved: bool
