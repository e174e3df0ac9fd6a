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

    `concurrency` limits requests in flight, `rates` events and bytes a second by time of day (without any: as fast as
    the service accepts them). In the hours `quiet` nothing is sent. `zone` is the clock of both, "" for this machine's.
    The run stops after more than `max_refused` refused events, or after `max_seconds` (None: no limit). `ordered` and
    `per_id` are those of `pipeline.delivery.lanes.Lanes`.
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

    `refused` includes events that were refused in earlier runs, which are not sent again. During a run, `in_doubt`
    counts events that were sent but not yet settled by a response. `would_send` is what a dry run packed, else 0.
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
        """Use the ledger's totals, not what this process counted in steps that may have failed."""
        self.accepted, self.already_settled = now.settled - before.settled, before.settled
        self.refused, self.in_doubt = now.refused, now.in_doubt

    def as_dry_run(self) -> None:
        """Count what a dry run accepted as what would be sent."""
        self.would_send, self.accepted = self.accepted, 0


class RunCounts(ResultCounts):
    """What this run did, in events and in batches; at the end, what the ledger says (`pipeline.ledger.Totals`).

    `phases` has the same counts for each phase, `phase` is the one being sent, and `other_phases` counts the
    unsent events of phases that this run does not send. During the run, `limit` is how many requests may be in
    flight, `paused` how many more seconds the service asked for no requests, `quiet` how many more seconds the quiet
    hours last, `id_wait` how many more seconds a batch waits for the rate of one id, `behind` how many seconds
    ago the job's window that is being sent ended (None without a job), and `last_failure` the last failure of
    a batch that is still being sent, or ""; `last_refusal` is the last answer in this run that refused an
    event. `idle` is how many seconds no batch settled while a request was in flight; after `gives_up_in` more seconds
    of that the run gives up.
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
        """Add to the counts of a phase, and to the totals."""
        for counts in (self, self.phases[phase]):
            for name, more in events.items():
                setattr(counts, name, getattr(counts, name) + more)

    def start_from(self, before: Totals, planned: Mapping[str, int], phases: Collection[str]) -> None:
        """Start with the totals of earlier runs. `phases` are the phases of this run."""
        for phase, events in planned.items():
            settled, refused, in_doubt = before.of(phase)
            self.add(phase, already_settled=settled, refused=refused, in_doubt=in_doubt)
            if phase not in phases:
                self.other_phases += events - settled - refused

    def finish(self, before: Totals, now: Totals, batches: tuple[int, int, int, int]) -> None:
        """Set the final counts from the ledger; `batches` are this run's: made, sent, retried and split."""
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

    A dry run counts what would be sent instead of what was accepted.

    `phases` is what is planned for each phase; `omitted_phases` are phases with something unsent that this run did not
    send. `problem` is what stopped the run early, or None. `transport` is `batch` or `v1`;
    `warnings` counts, by reason, the events that the service accepted with a warning, in all runs.
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
        """Whether every planned event is settled or refused: also false if a phase was left out."""
        return self.unsent == 0 and self.counts.in_doubt == 0
