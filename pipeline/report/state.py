"""The state of a plan (docs/change/architecture.md#states), from the plan, its ledger and what was read back; and what
to do next: one sentence, and the command in full."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from pipeline.errors import UnsafePlan
from pipeline.ledger import LedgerSummary, Totals, is_locked, read_summary
from pipeline.options import ApplyOptions
from pipeline.plan.in_bucket import file_here
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.discarded import discarded_of
from pipeline.plan.sealed.freshness import not_ready
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import NO_RESULTS, Report, Results, latest_canary, results_of
from pipeline.report.plan_command import plan_command, stop_options
from pipeline.report.records import PausedFunction, named, paused_in
from pipeline.report.results import CanaryResult, SentCounts, StatusResult, status_result
from pipeline.report.wording import to_check
from pipeline.targets import address_of, has_files, is_loopback
from pipeline.text import pluralize, printable, quoted

IDENTITIES = "identities"
"""The phase of merges."""
ANY_PROJECT = "ID"
"""Stands for the number of a project that is not known."""
ANY_TARGET = "URL"
"""Replaces the address of a service if the plan has no target."""
NO_TARGET = " No target was chosen: for PostHog, plan again with --for us or --for eu"
"""A plan for no target is in the dialect `contract`, which PostHog's own regions do not take."""


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
    """A plan's `state`, what its ledger has (`summary`), what was read back (`results`), the hog functions that are off
    for it (`paused`), and when its events were `discarded` ("" for never)."""

    state: State
    planned: int
    summary: LedgerSummary
    results: Results = NO_RESULTS
    paused: Sequence[PausedFunction] = ()
    discarded: str = ""

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
    running = is_locked(directory.ledger)  # first: a run that ends now has written all that is read next
    summary = read_summary(directory.ledger)
    results = results_of(directory, plan, new)
    state = state_of(plan, summary, results, running=running)
    gone = discarded_of(plan, directory)
    at = "" if gone is None else gone.at
    return PlanStatus(state, plan.events.made, summary, results, paused_in(directory), at)


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


def check_ready(plan: Plan, directory: Directory) -> None:
    """Raise UnsafePlan if a check stops the plan."""
    if not plan.ready:
        again = plan_command(plan, directory.name, stop_options(plan))
        rehearse = f"backcast rehearse {quoted(directory.name)}"
        raise not_ready(plan, f"read its report and plan again: {again}; or rehearse it as it is: {rehearse}")


def check_required(plan: Plan, directory: Directory, to: str, options: ApplyOptions) -> None:
    """Raise UnsafePlan if `options` require a rehearsal or a canary of exactly this plan, and none sent and found all
    of it. A canary itself requires no other one."""
    if options.require_rehearsal:
        check_rehearsed(plan, directory)
    if options.require_canary and not options.canary:
        _check_canary(plan, directory, to)


def _check_canary(plan: Plan, directory: Directory, to: str) -> None:
    canary = results_of(directory, plan, NO_RESULTS).canary
    if canary is not None and canary.proved and canary.to == address_of(to):
        return
    if canary is None:
        reason = "sent no canary that was read back"
    elif canary.to != address_of(to):
        reason = f"sent its canary to {canary.to}"
    else:
        reason = "has a canary of which events were refused or differ"
    raise UnsafePlan(
        f"{directory.name} {reason}; nothing was sent",
        hint=f"send a canary first: backcast apply {quoted(directory.name)} --to {quoted(to)} --canary",
    )


def check_rehearsed(plan: Plan, directory: Directory) -> None:
    """Raise UnsafePlan unless the last rehearsal of this very plan sent all of it and found all of it; BrokenLedger."""
    if not _is_rehearsed(results_of(directory, plan, NO_RESULTS)):
        raise UnsafePlan(
            f"{directory.name} was not rehearsed, or its rehearsal left events unsent, refused or missing",
            hint=f"rehearse it: backcast rehearse {quoted(directory.name)}",
        )


def _is_rehearsed(results: Results) -> bool:
    """Whether the last rehearsal sent everything, had nothing refused, and found it all."""
    run, verification = results.rehearsal, results.rehearsed
    return (
        run is not None and run.balanced and not run.events.refused and verification is not None and verification.proved
    )


class NextStep(NamedTuple):
    """`command` is "" if there is nothing left to run."""

    sentence: str
    command: str


def plan_again(plan: Plan, words: Sequence[str]) -> NextStep | None:
    """The command that made a plan, whose `words` these are, with the options that its failed checks name; None if they
    name none."""
    options = stop_options(plan)
    if not words or not options:
        return None
    unsure = any("Area/City" in option for option in options)
    which = "Put the project's zone in place of Area/City" if unsure else "If this is right for your export"
    return NextStep(f"Fix what stops the plan. {which}, plan again:", plan_command(plan, "", options, words))


def next_step(report: Report) -> NextStep:
    """The step that the state of a report's plan asks for; its command runs in the folder that contains the plan."""
    applied = report.results.applied
    return _next(report.plan, report.state, report.name, report.results, applied, report.paused, report.discarded)


def step_after(
    plan: Plan, status: PlanStatus, directory: str, *, to: str | None = None, project: str | None = None
) -> NextStep:
    """The same for the plan in `directory`. `to` and `project` are the target and its project, if they are known."""
    known = to or "", project or ANY_PROJECT
    applied = status_result(plan, status)
    return _next(plan, status.state, directory, status.results, applied, status.paused, status.discarded, known)


def _next(
    plan: Plan, state: str, directory: str, results: Results, applied: StatusResult | None,
    paused: Sequence[PausedFunction], discarded: str, known: tuple[str, str] = ("", ANY_PROJECT),
) -> NextStep:  # fmt: skip
    """`known` are the target and its project."""
    if discarded and state != "verified":
        again = "To send them, plan the export again into a new directory."
        return NextStep(f"The events of this plan were discarded at {discarded}. {again}", "")
    address, merged, sent = known[0] or plan.target, SentCounts(0), 0
    if applied is not None:
        address = applied.course.to if applied.course is not None and applied.course.to else address
        merged, sent = applied.phases.get(IDENTITIES, merged), applied.events.accepted
    ended = merged.accepted + merged.already_settled + merged.refused
    step = _step(plan, state, directory, results, latest_canary(results, sent), known[1], address, ended)
    off = [function for function in paused if not function.changed]
    return step if not off or state == "sending" else _turned_on(step, off, state, quoted(directory), address or "us")


def _turned_on(step: NextStep, off: Sequence[PausedFunction], state: str, name: str, to: str) -> NextStep:
    """The step if hog functions are off for the plan and no run goes on."""
    if state == "stopped":
        again = f"{step.command} --pause-functions"
        return NextStep(f"Run apply again; it resumes, and then turns on {named(off)}, which it left off:", again)
    command = f"backcast resume-functions {name} --to {quoted(to)}"
    return NextStep(f"Turn on the hog functions that apply left off: {named(off)}.", command)


def _step(
    plan: Plan, state: str, directory: str, results: Results, canary: CanaryResult | None, project: str, to: str,
    ended: int,
) -> NextStep:  # fmt: skip
    """The step; `ended` are the merges that are settled or refused, which need no approval any more."""
    name = quoted(directory)
    # The dialect `posthog` without a target was chosen for the service itself; `contract` is that of any other.
    default = "us" if plan.options.dialect == "posthog" else ANY_TARGET
    address = to or default
    target = quoted(address)
    merges = plan.events.phases.get(IDENTITIES, 0)
    local = "://" in address and is_loopback(address)
    approve = f" --approve-merges {merges}" if merges > ended and not local else ""
    of_project = "" if local and project == ANY_PROJECT else f" --project {quoted(project)}"
    asks = " ID is the number in the project's URL." if of_project.endswith(f" {ANY_PROJECT}") else ""
    apply, verify = f"backcast apply {name} --to {target}{approve}", f"backcast verify {name} --to {target}{of_project}"
    another = {"us": " Write eu for the EU.", ANY_TARGET: f"{NO_TARGET}; URL is the address of another service."}
    elsewhere = another[default] if address == default else ""
    rehearse, refused = f"backcast rehearse {name}", f"backcast rejects {name} --code refused_event"
    if has_files(address) and (step := _with_files(state, name, target)) is not None:
        return step
    if state == "sending":
        return NextStep("A run is sending now. To see how far it is:", f"backcast status {name}")
    if canary is not None and state in ("stopped", "differs"):
        return _after_canary(canary, apply, of_project, refused, directory)
    if state == "stopped":
        return NextStep("Run apply again; it resumes where it stopped:", apply)
    if state == "sent":
        return NextStep(f"Compare what landed with what was sent.{asks}", verify)
    if state == "sent-with-refusals":
        return NextStep(
            "Read which events were refused, and why. Once the mapping or the rows are corrected,"
            f" `backcast plan EXPORT --replay {name} -o NEW` plans only these:",
            refused,
        )
    last = results.verification
    if last is not None and last.values.fields == "all":
        verify += " --fields all"  # as deep as what found the difference
    if state == "differs" and last is not None and last.events.missing:
        return NextStep(
            f"Send what is missing again, with the same uuids, and compare once more.{asks}", f"{verify} --repair"
        )
    if state == "differs":
        file = printable(file_here(directory, "differences.jsonl"), 1_000)
        return NextStep(f"Read each difference with its row in {file}. To compare once more, as deep:{asks}", verify)
    if state == "verified" and last is not None and last.more_differs:
        return NextStep("Every planned event was found once at the target, but other numbers differ: read them.", "")
    if state == "verified":
        return NextStep(
            "Every planned event was found once at the target. Keep a receipt, which others can check:",
            f"backcast receipt write {name}",
        )
    if not plan.ready:
        return NextStep("Fix the failed checks and plan again. Until then it can only be rehearsed:", rehearse)
    if not plan.events.made:
        return NextStep("This plan sends nothing.", "")
    points = len(to_check(plan, to))
    if state == "rehearsed":
        undone = f" {pluralize(merges, 'merge')} cannot be undone." if merges > ended else ""
        open_ = f"Look at {pluralize(points, 'thing')} to check, then send" if points else "Send"
        return NextStep(f"{open_} the events. Sent events cannot be deleted.{undone}{elsewhere}", apply)
    if results.rehearsal is not None and results.rehearsal.events.refused:
        return NextStep("Read which events the rehearsal refused, and why:", refused)
    open_ = f"Read {pluralize(points, 'thing')} to check, then rehearse" if points else "Rehearse"
    first = f"{NO_TARGET} first." if address == ANY_TARGET else ""
    sentence = f"{open_} the whole import on this machine; nothing is sent to the target"
    return NextStep(f"{sentence}.{first}" if first else f"{sentence}:", rehearse)


def _with_files(state: str, name: str, target: str) -> NextStep | None:
    """The step if files are written, None if it is the same as for any target."""
    if state == "sent":
        return NextStep(
            "Compare the written files with the plan before they are imported.", f"backcast verify {name} --to {target}"
        )
    if state == "differs":
        return NextStep(
            "Restore the files, or plan again and write that plan to another folder. To compare once more:",
            f"backcast verify {name} --to {target}",
        )
    if state == "verified":
        return NextStep(
            "The files have every planned event once. Import the folder of each phase from a bucket, one after the"
            " other: a managed migration from S3 at the service, content type posthog. What to know before:",
            f"backcast preflight {name} --to {target}",
        )
    return None


def _after_canary(canary: CanaryResult, apply: str, of_project: str, refused: str, directory: str) -> NextStep:
    if canary.proved:
        return NextStep("The canary landed as it was sent. Send the rest, which cannot be deleted either:", apply)
    if not canary.verification.differs:
        return NextStep("The service refused events of the canary. Read which, and why, before the rest:", refused)
    file = printable(file_here(directory, "differences.jsonl"), 1_000)
    again = f"{apply}{of_project} --canary"
    return NextStep(
        f"The canary did not land as it was sent. Read each difference with its row in {file} before the rest is sent."
        " To compare once more:",
        again,
    )
