"""How a run is paced, what it counts, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from pipeline.deliver.retry import Patience, Sent
from pipeline.deliver.sink import Receipt
from pipeline.errors import BackcastError, Refused, Unfinished


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard to push: requests in flight, patience with each, refused events before giving up."""

    concurrency: int = 8
    patience: Patience = field(default_factory=Patience)
    max_refused: int = 100


class Counts(msgspec.Struct):
    """What this run did, in events and in batches; `already_settled` is the work of earlier runs.

    `refused` holds what earlier runs were refused too: it is no more sent. `batches_made` counts halves of split ones.
    """

    made: int = 0
    accepted: int = 0
    refused: int = 0
    in_doubt: int = 0
    already_settled: int = 0
    batches_made: int = 0
    batches_sent: int = 0
    batches_retried: int = 0
    batches_split: int = 0
    bytes_sent: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `planned` = settled before + accepted + refused + in doubt + `unsent` (law 1).

    `problem` is what stopped it before its end, None when nothing did.
    """

    digest: str
    dry_run: bool
    planned: int
    counts: Counts
    seconds: float
    problem: BackcastError | None = None

    @property
    def unsent(self) -> int:
        counts = self.counts
        return self.planned - counts.already_settled - counts.accepted - counts.refused - counts.in_doubt

    @property
    def balanced(self) -> bool:
        return self.unsent == 0 and self.counts.in_doubt == 0


def too_many_refused(refused: int, receipt: Receipt) -> Refused:
    """More events were refused than was allowed."""
    return Refused(
        f"the service refused {refused} events; the last: {receipt.status} {receipt.detail}",
        status=receipt.status,
        hint="see refused_events in ledger.sqlite; raise --max-refused to go on all the same",
    )


def turned_away(address: str, receipt: Receipt) -> Refused:
    """The service refused us, not our events."""
    hints = {
        401: "check the project key (BACKCAST_PROJECT_KEY) and that it is of this host",
        403: "check the project key (BACKCAST_PROJECT_KEY) and that it is of this host",
        402: "raise the quota of the project",
        200: "raise the quota of the project",
    }
    hint = hints.get(receipt.status, "mend the cause")
    return Refused(
        f"{address} answered {receipt.status or 'nothing'}: {receipt.detail}",
        status=receipt.status,
        hint=f"{hint}; nothing is lost: run the same command again to resume",
    )


def unanswered(address: str, sent: Sent) -> Unfinished:
    """Patience is at its end."""
    return Unfinished(
        f"{address} gave no answer that settles a batch in {sent.tries} tries; the last:"
        f" {sent.receipt.status or 'none'} {sent.receipt.detail}",
        hint="run the same command again to resume",
    )
