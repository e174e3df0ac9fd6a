"""The limits of a run, its counts, and how it ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import BackcastError
from pipeline.ledger import PhaseTotals, Totals
from pipeline.options.pace import Hours, RateLimit
from pipeline.plan.sealed.directory import PHASES


@dataclass(frozen=True, slots=True)
class SendLimits:
    """How fast to send, and when to give up.

    `concurrency` bounds requests in flight, `rates` events and bytes a second, by time of day (none: as fast as the
    service accepts them), and in the hours `quiet` nothing is sent; `zone` is the clock of both, "" for this machine's.
    More than `max_refused` refused events stop the run; so does `max_seconds` (None: no limit). `ordered` and `per_id`
    are those of `pipeline.delivery.lanes.Lanes`.
    """

    concurrency: int = 8
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_refused: int = 100
    rates: tuple[RateLimit, ...] = ()
    quiet: tuple[Hours, ...] = ()
    zone: str = ""
    max_seconds: float | None = None
    ordered: bool = False
    per_id: int | None = None


class ResultCounts(msgspec.Struct):
    """Events by result; `already_settled` is the work of earlier runs, `made` the sum of the others.

    `refused` includes the events refused in earlier runs, which are not sent again. While a run goes on, `in_doubt`
    counts events that were sent and not settled by a response. `would_send` is what a dry run packed, else 0.
    """

    accepted: int = 0
    refused: int = 0
    in_doubt: int = 0
    already_settled: int = 0
    would_send: int = 0

    @property
    def made(self) -> int:
        return self.accepted + self.refused + self.in_doubt + self.already_settled + self.would_send

    def take_totals(self, before: Totals | PhaseTotals, now: Totals | PhaseTotals) -> None:
        """Take the totals of the ledger, not what this process counted of steps that may have failed."""
        self.accepted, self.already_settled = now.settled - before.settled, before.settled
        self.refused, self.in_doubt = now.refused, now.in_doubt

    def as_dry_run(self) -> None:
        """Count what a dry run accepted as what would be sent."""
        self.would_send, self.accepted = self.accepted, 0


class RunCounts(ResultCounts):
    """What this run did, in events and in batches; at the end those of the ledger, as `pipeline.ledger.Totals` counts.

    `phases` has the same counts for each phase, `phase` is the one that is being sent, and `other_phases` counts the
    unsent events of phases that this run does not send. While the run goes on, `limit` is how many requests may be in
    flight, `paused` for how many more seconds the service asked for no requests, `quiet` for how many more quiet hours
    last, `id_wait` for how many more seconds a batch waits for the rate of one id, `behind` how many seconds
    ago the window of a job ended that is being sent (None for no job), and `last_failure` the last failure of
    a batch that is still being sent, "" where there is none; `last_refusal` is the last answer that refused an event in
    this run. `idle` is for how many seconds no batch settled while a
    request was in flight; in `gives_up_in` more seconds of that the run gives up.
    """

    phases: dict[str, ResultCounts] = msgspec.field(default_factory=lambda: {phase: ResultCounts() for phase in PHASES})
    phase: str = ""
    other_phases: int = 0
    batches_made: int = 0
    batches_sent: int = 0
    batches_retried: int = 0
    batches_split: int = 0
    bytes_sent: int = 0
    in_flight: int = 0
    limit: int = 0
    paused: float = 0.0
    quiet: float = 0.0
    id_wait: float = 0.0
    behind: float | None = None
    last_failure: str = ""
    last_refusal: str = ""
    idle: float = 0.0
    gives_up_in: float = 0.0

    def add(self, phase: str, **events: int) -> None:
        """Add to the counts of a phase, and of all."""
        for counts in (self, self.phases[phase]):
            for name, more in events.items():
                setattr(counts, name, getattr(counts, name) + more)

    def start_from(self, before: Totals, planned: Mapping[str, int], phases: Collection[str]) -> None:
        """Start with the totals of earlier runs. `phases` are those of this run."""
        for phase, events in planned.items():
            settled, refused, in_doubt = before.of(phase)
            self.add(phase, already_settled=settled, refused=refused, in_doubt=in_doubt)
            if phase not in phases:
                self.other_phases += events - settled - refused

    def finish(self, before: Totals, now: Totals, batches: tuple[int, int, int, int]) -> None:
        """Set the final counts by the ledger; `batches` are those of this run: made, sent, retried and split."""
        self.in_flight = 0
        self.batches_made, self.batches_sent, self.batches_retried, self.batches_split = batches
        self.take_totals(before, now)
        for phase, counts in self.phases.items():
            counts.take_totals(before.of(phase), now.of(phase))

    def as_dry_run(self) -> None:
        super().as_dry_run()
        self.batches_sent = 0
        for counts in self.phases.values():
            counts.as_dry_run()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `planned` = settled before + accepted + refused + in doubt + `unsent`
    (docs/know/promises.md#balance).

    In a dry run, what would be sent is counted instead of what was accepted.

    `phases` is what is planned for each phase, `omitted_phases` those with something unsent that were not among
    those of the run. `problem` is what stopped the run early, None where nothing did. `transport` is `batch` or `v1`;
    `warnings` counts the events that the service accepted with a warning, in all runs, by its reason.
    """

    digest: str
    dry_run: bool
    planned: int
    counts: RunCounts
    seconds: float
    problem: BackcastError | None = None
    phases: Mapping[str, int] = field(default_factory=dict)
    omitted_phases: tuple[str, ...] = ()
    transport: str = "batch"
    warnings: Mapping[str, int] = field(default_factory=dict)

    @property
    def unsent(self) -> int:
        return self.planned - self.counts.made

    @property
    def balanced(self) -> bool:
        """Whether every planned event is settled or refused: false also where a phase was left out."""
        return self.unsent == 0 and self.counts.in_doubt == 0
