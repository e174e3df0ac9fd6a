"""How a run is paced, what it counts, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from pipeline.deliver.retry import Patience, Sent
from pipeline.deliver.sink import Answer, Receipt
from pipeline.errors import BackcastError, Refused, Unfinished


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard to push, and when to give up.

    `concurrency` bounds requests in flight, `rate` events a second (None: as fast as the service takes them).
    `max_refused` events may be refused; `max_seconds` is how long a run may last (None: to its end).
    """

    concurrency: int = 8
    patience: Patience = field(default_factory=Patience)
    max_refused: int = 100
    rate: float | None = None
    max_seconds: float | None = None


class Counts(msgspec.Struct):
    """What this run did, in events and in batches; `already_settled` is the work of earlier runs.

    `refused` holds what earlier runs were refused too: it is no more sent. `batches_made` counts halves of split ones.
    While the run goes, `in_doubt` counts events that left and had no answer that settles them; `limit` is how many
    requests may be in flight now, `held` for how many seconds the service asked to be left alone, and `trouble` the
    last failure of a batch that is still tried, "" where there is none.
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
    limit: int = 0
    held: float = 0.0
    trouble: str = ""


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
    key = "check the project key (BACKCAST_PROJECT_KEY or --project-key-file) and that it is of this host"
    quota = "raise the quota of the project"
    hints = {0: "mend the cause", 200: quota, 401: key, 402: quota, 403: key}
    hint = hints.get(receipt.status, "see what answers at this address, and mend --to or the cause")
    if receipt.hint:
        hint = receipt.hint
    return Refused(
        f"{address} answered {receipt.status}: {receipt.detail}" if receipt.status else f"{address}: {receipt.detail}",
        status=receipt.status,
        hint=f"{hint}; nothing is lost: run the same command again to resume",
    )


def unanswered(address: str, sent: Sent, patience: Patience) -> Unfinished:
    """Patience is at its end."""
    receipt, tries = sent.receipt, f"{sent.tries} tries" if sent.tries != 1 else "1 try"
    last = f"the last answer was {receipt.status or 'none'}: {receipt.detail}"
    if receipt.answer is Answer.UNREACHABLE:
        return Unfinished(
            f"{address} cannot be reached: {receipt.detail}",
            hint=f"{receipt.hint or 'check the address'}; then run the same command again",
        )
    if receipt.retry_after > patience.seconds:
        return Unfinished(
            f"{address} asks to be left alone for {receipt.retry_after:,.0f} s, longer than --retry-for"
            f" ({patience.seconds:,.0f} s); {last}",
            hint="run the same command again after that time; it resumes",
        )
    if receipt.answer is Answer.DOUBT:
        return Unfinished(
            f"{address} gave no answer that settles a batch in {tries}; {last}",
            hint="see who answers in the service's place (a proxy, a sign-in page); then run the same command again",
        )
    return Unfinished(
        f"{address} settled nothing in {tries}; {last}",
        hint="run the same command again to resume",
    )


def out_of_time(seconds: float) -> Unfinished:
    """`--max-duration` is over."""
    return Unfinished(
        f"the run lasted as long as it may (--max-duration, {seconds:,.0f} s); what was in flight is settled",
        hint="run the same command again to resume",
    )
