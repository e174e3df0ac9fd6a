"""The state of a plan (docs/change/architecture.md#states), from the plan, its ledger and what was read back."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from pipeline.errors import UnsafePlan
from pipeline.ledger import LedgerSummary, Totals, is_in_use, read_summary
from pipeline.options import ApplyOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.canary import check_canary
from pipeline.report.contents import NO_RESULTS, Results, results_of
from pipeline.report.paused import PausedFunction, paused_in
from pipeline.text import quoted


class State(StrEnum):
    """The state of a plan, as JSON has it; `wording.state_in_words` has the text for people.

    `sent`: every planned event is settled. `verified`: and every one was found at the target. `sent-with-refusals`:
    every planned event is settled or refused, verified or not. `differs` comes before all but `sending`: what was read
    back since the last event settled is not what was settled.
    """

    NOT_READY = "not-ready"
    READY = "ready"
    REHEARSED = "rehearsed"
    SENDING = "sending"
    STOPPED = "stopped"
    SENT = "sent"
    SENT_WITH_REFUSALS = "sent-with-refusals"
    VERIFIED = "verified"
    DIFFERS = "differs"


class PlanStatus(msgspec.Struct, frozen=True):
    """A plan's `state`, what its ledger has (`summary`), what was read back (`results`), and the hog functions
    that are off for it (`paused`)."""

    state: State
    planned: int
    summary: LedgerSummary
    results: Results = NO_RESULTS
    paused: Sequence[PausedFunction] = ()

    @property
    def totals(self) -> Totals:
        return self.summary.totals

    @property
    def unsent(self) -> int:
        return self.planned - self.totals.settled - self.totals.refused - self.totals.in_doubt


def read_status(plan: Plan, directory: Directory, new: Results = NO_RESULTS) -> PlanStatus:
    """Read the ledger, also while a run is writing it, and report.json; `new` are results that it does not have yet.

    Raises BrokenLedger, also for a ledger that was lost; UnsafePlan.
    """
    running = is_in_use(directory.ledger)  # first: a run that ends now has written all that is read next
    summary = read_summary(directory.ledger)
    results = results_of(directory, plan, new)
    state = state_of(plan, summary, results, running=running)
    return PlanStatus(state, plan.events.made, summary, results, paused_in(directory))


def state_of(plan: Plan, summary: LedgerSummary, results: Results, *, running: bool) -> State:
    """The state of a plan. `running`: a process has its ledger open now."""
    if running:
        return State.SENDING
    if summary.history is None:
        if not plan.ready:
            return State.NOT_READY
        return State.REHEARSED if _is_rehearsed(results) else State.READY
    totals, verification = summary.totals, results.verification
    # A ledger that settled more since was not compared with what landed. Events in doubt may have been found, too.
    current = verification is not None and verification.events.expected >= totals.settled
    if verification is not None and current and verification.differs:
        return State.DIFFERS
    if totals.settled + totals.refused < plan.events.made or totals.in_doubt:
        return State.STOPPED
    if totals.refused:
        return State.SENT_WITH_REFUSALS
    return State.VERIFIED if verification is not None and current and verification.proved else State.SENT


def check_required(plan: Plan, directory: Directory, to: str, options: ApplyOptions) -> None:
    """Raise UnsafePlan where `options` require a rehearsal or a canary of this very plan, and there is none that sent
    and found all of it. A canary itself requires no other one."""
    if options.require_rehearsal:
        check_rehearsed(plan, directory)
    if options.require_canary and options.canary is None:
        check_canary(results_of(directory, plan, NO_RESULTS).canary, directory, to)


def check_rehearsed(plan: Plan, directory: Directory) -> None:
    """Raise UnsafePlan unless the last rehearsal of this very plan sent all of it and found all of it; BrokenLedger."""
    if not _is_rehearsed(results_of(directory, plan, NO_RESULTS)):
        raise UnsafePlan(
            f"{directory.name} was not rehearsed, or its rehearsal left events unsent, refused or missing",
            hint=f"backcast rehearse {quoted(directory.name)}",
        )


def _is_rehearsed(results: Results) -> bool:
    """Whether the last rehearsal sent everything, had nothing refused, and found it all."""
    run, verification = results.rehearsal, results.rehearsed
    return (
        run is not None and run.balanced and not run.events.refused and verification is not None and verification.proved
    )
