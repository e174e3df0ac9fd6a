"""The results of apply, status and verify as JSON objects; the terminal, report.json and report.html show them, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pipeline.ledger import FailureCount, InDoubtBatch, PhaseTotals, RefusalRecord, RunHistory
from pipeline.plan.sealed.directory import PHASES
from pipeline.plan.sealed.facts import Canary
from pipeline.report.verification_words import by_kind
from pipeline.timestamps import utc_now
from pipeline.verify.findings import RepairCounts, Verification

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome, ResultCounts
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.report.state import PlanStatus


class BatchCounts(msgspec.Struct, frozen=True):
    """Batches, each once, whatever number of runs and tries it took; people see those `sent` as requests.

    `sent` may have reached the service, `retried` took more than one request, in any run, `split` were sent in pieces.
    `made` are all rows of the ledger: also the split ones, and parts that were never sent by themselves.
    """

    made: int = 0
    sent: int = 0
    retried: int = 0
    split: int = 0


class SentCounts(msgspec.Struct, frozen=True):
    """Events of a run. `made` is the sum of the next four; with `unsent` it is what was planned
    (docs/know/promises.md#balance).

    In a dry run, `would_send` is what was packed and is left to send; there it is part of `made`.
    """

    made: int
    accepted: int = 0
    refused: int = 0
    in_doubt: int = 0
    already_settled: int = 0
    unsent: int = 0
    would_send: int | msgspec.UnsetType = msgspec.UNSET


class CaptureKeyStatus(msgspec.Struct, frozen=True):
    """Whether the capture key is proved to be the project's, and why; the service answers 200 to any key."""

    proved: bool
    detail: str


class ApplyResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run of apply, or of rehearse. `phases` are the `events` of each phase, `held` the phases that `--phases`
    left out.

    `transport` is `batch` or `v1`, the per-event endpoint; `warnings` counts the events that the service accepted with
    a warning, in all runs, by its reason. `to` is the address it was for, "" for the embedded local service; `ended` is
    when (ISO 8601, UTC). `capture_key` is absent if it was not checked, as in a dry run or a rehearsal. `state` is the
    plan's state after it; results in a report have none, since the report has it. `canary` is there after one.
    """

    format: str = "backcast.apply/1"
    digest: str
    dry_run: bool
    balanced: bool
    seconds: float
    batches: BatchCounts
    events: SentCounts
    phases: dict[str, SentCounts] = {}
    held: list[str] = []
    transport: str = "batch"
    warnings: dict[str, int] = {}
    to: str = ""
    ended: str = ""
    capture_key: CaptureKeyStatus | msgspec.UnsetType = msgspec.UNSET
    state: str | msgspec.UnsetType = msgspec.UNSET
    canary: CanaryResult | msgspec.UnsetType = msgspec.UNSET


class Verified(msgspec.Struct, frozen=True):
    """When and where a plan was last verified, and with which result; `differences` are counted by kind, in words."""

    at: str
    to: str
    proved: bool
    found: int
    expected: int
    differences: dict[str, int] = {}


class StatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a plan. `state` is one of `report.state.State`. `events` and `batches` are those of all runs.

    `course` is where it was applied to and when, `verified` when what landed was last compared, `rehearsed` the same
    for the embedded local service; null for never. `canary` is the same for the sample that was sent first.

    `doubts` are the first 100 batches in doubt (during a run, those in flight), `refusals` the first 100 refused
    events, `failures` all failed requests by status. The ledger has all. `transport` is "" if none was chosen;
    `warnings` are as in ApplyResult. `paused_functions` are hog functions that are off for this plan (`id`, `name`, and
    `changed` if it was changed since, so it is left as it is). `discarded` is when the events of the plan were
    discarded, absent if they were not. `import_plan` is the mark of its events, absent without one.
    """

    format: str = "backcast.status/1"
    digest: str
    state: str
    batches: BatchCounts
    events: SentCounts
    phases: dict[str, SentCounts] = {}
    course: RunHistory | None = None
    verified: Verified | None = None
    rehearsed: Verified | None = None
    canary: Verified | None = None
    doubts: list[InDoubtBatch] = []
    refusals: list[RefusalRecord] = []
    failures: list[FailureCount] = []
    transport: str = ""
    warnings: dict[str, int] = {}
    paused_functions: list[dict[str, str | bool]] = []
    discarded: str | msgspec.UnsetType = msgspec.UNSET
    import_plan: str | msgspec.UnsetType = msgspec.UNSET


class CanaryResult(Canary, frozen=True, kw_only=True):
    """A canary that was sent before the rest of a plan, and what was read back of it.

    `refused` and `settled` are those of the plan when it was read back. `verification` compared everything that was
    sent until then.
    """

    refused: int = 0
    settled: int = 0
    to: str = ""
    verification: Verification

    @property
    def proved(self) -> bool:
        """Whether all of it was accepted and landed as it was sent."""
        return not self.refused and self.verification.proved


def apply_result(outcome: Outcome, *, to: str = "") -> ApplyResult:
    counts = outcome.counts

    def sent(events: ResultCounts, unsent: int) -> SentCounts:
        would_send = events.would_send if outcome.dry_run else msgspec.UNSET
        return SentCounts(
            events.made, events.accepted, events.refused, events.in_doubt, events.already_settled, unsent, would_send
        )

    return ApplyResult(
        digest=outcome.digest,
        dry_run=outcome.dry_run,
        balanced=outcome.balanced,
        seconds=round(outcome.seconds, 3),
        batches=BatchCounts(counts.batches_made, counts.batches_sent, counts.batches_retried, counts.batches_split),
        events=sent(counts, outcome.unsent),
        phases={name: sent(phase, outcome.phases.get(name, 0) - phase.made) for name, phase in counts.phases.items()},
        held=list(outcome.omitted_phases),
        transport=outcome.transport,
        warnings=dict(outcome.warnings),
        to=to,
        ended=utc_now(),
    )


def canary_result(canary: Canary, outcome: Outcome, verification: Verification) -> CanaryResult:
    return CanaryResult(
        **msgspec.structs.asdict(canary),
        refused=outcome.counts.refused,
        settled=outcome.counts.accepted + outcome.counts.already_settled,
        to=verification.to,
        verification=verification,
    )


def status_result(plan: Plan, status: PlanStatus) -> StatusResult:
    """The state of a plan as `status --json` shows it."""
    totals = status.totals
    return StatusResult(
        digest=plan.digest,
        state=status.state,
        batches=BatchCounts(totals.batches_made, totals.batches_sent, totals.batches_retried, totals.batches_split),
        events=_so_far(PhaseTotals(totals.settled, totals.refused, totals.in_doubt), status.planned),
        phases={name: _so_far(totals.of(name), plan.events.phases.get(name, 0)) for name in PHASES},
        course=status.summary.history,
        verified=_verified(status.results.verification),
        rehearsed=_verified(status.results.rehearsed),
        canary=None if status.results.canary is None else _verified(status.results.canary.verification),
        doubts=status.summary.doubts,
        refusals=status.summary.refusals,
        failures=status.summary.failures,
        transport=status.summary.transport,
        warnings={one.detail: one.events for one in status.summary.warnings},
        paused_functions=[{"id": one.id, "name": one.name, "changed": one.changed} for one in status.paused],
        discarded=status.discarded or msgspec.UNSET,
        import_plan=plan.import_plan,
    )


def _so_far(totals: PhaseTotals, planned: int) -> SentCounts:
    made = sum(totals)
    return SentCounts(made, totals.settled, totals.refused, totals.in_doubt, 0, planned - made)


def _verified(result: Verification | None) -> Verified | None:
    if result is None:
        return None
    return Verified(result.at, result.to, result.proved, result.events.found, result.events.expected, by_kind(result))


def repair_counts(outcome: Outcome | None, *, asked: bool) -> RepairCounts | msgspec.UnsetType:
    """What a repair sent again; UNSET if none was asked for."""
    if not asked:
        return msgspec.UNSET
    if outcome is None:
        return RepairCounts(0)
    counts = outcome.counts
    sent = outcome.planned - counts.already_settled
    return RepairCounts(sent, counts.accepted, counts.refused, counts.in_doubt)


def verify_result(
    verification: Verification, *, to: str = "", repair: RepairCounts | msgspec.UnsetType = msgspec.UNSET
) -> Verification:
    return msgspec.structs.replace(verification, to=to, at=utc_now(), repair=repair)
