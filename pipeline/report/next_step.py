"""What to do next with a plan: one sentence, and the command in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipeline.plan.in_bucket import file_here
from pipeline.report.canary import latest_canary
from pipeline.report.paused import named
from pipeline.text import pluralize, printable, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.ledger import RunHistory
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.report.contents import Report, Results
    from pipeline.report.paused import PausedFunction
    from pipeline.report.results import CanaryResult
    from pipeline.report.state import PlanStatus

IDENTITIES = "identities"
"""The phase of merges."""
ANY_PROJECT = "ID"
"""Stands for the number of a project that is not known."""
ANY_TARGET = "URL"
"""Stands for the address of a service where the plan has no target."""
NO_TARGET = " No target was chosen: for PostHog, plan again with --for us or --for eu"
"""A plan for no target is in the dialect `contract`, which PostHog's own regions do not take."""


class NextStep(NamedTuple):
    """`command` is "" where nothing is left to run."""

    sentence: str
    command: str


def next_step(report: Report) -> NextStep:
    """The step that the state of a report's plan asks for; its command runs in the folder that contains the plan."""
    applied = report.results.applied
    course = applied.course if applied is not None else None
    merged = applied.phases.get(IDENTITIES) if applied is not None else None
    ended = merged.accepted + merged.already_settled + merged.refused if merged is not None else 0
    sent = applied.events.accepted if applied is not None else 0
    results = msgspec.structs.replace(report.results, canary=latest_canary(report.results, sent))
    step = _step(report.plan, report.state, report.name, course, results, ANY_PROJECT, ended=ended)
    return _with_paused(step, report.paused, report.state, report.name, course, report.plan.target)


def step_after(
    plan: Plan, status: PlanStatus, directory: str, *, to: str | None = None, project: str | None = None
) -> NextStep:
    """The same for the plan in `directory`. `to` and `project` are the target and its project, where they are known."""
    course, merged = status.summary.history, status.totals.of(IDENTITIES)
    ended = merged.settled + merged.refused
    canary = latest_canary(status.results, status.totals.settled)
    results = msgspec.structs.replace(status.results, canary=canary)
    step = _step(plan, status.state, directory, course, results, project or ANY_PROJECT, to or "", ended=ended)
    return _with_paused(step, status.paused, status.state, directory, course, to or plan.target)


def _with_paused(
    step: NextStep, paused: Sequence[PausedFunction], state: str, directory: str, course: RunHistory | None, to: str
) -> NextStep:
    """The step, or first another one where hog functions are off for the plan and no run goes on."""
    off = [function for function in paused if not function.changed]
    if not off or state == "sending":
        return step
    if state == "stopped":
        again = f"{step.command} --pause-functions"
        return NextStep(f"Run apply again; it resumes, and then turns on {named(off)}, which it left off:", again)
    target = quoted(course.to if course is not None and course.to else to or "us")
    return NextStep(
        f"Turn on the hog functions that apply left off: {named(off)}.",
        f"backcast resume-functions {quoted(directory)} --to {target}",
    )


def _step(
    plan: Plan,
    state: str,
    directory: str,
    course: RunHistory | None,
    results: Results,
    project: str,
    to: str = "",
    *,
    ended: int,
) -> NextStep:
    """The step; `ended` are the merges that are settled or refused, which need no approval any more."""
    from pipeline.targets import has_files, is_loopback

    name = quoted(directory)
    # The dialect `posthog` without a target was chosen for the service itself; `contract` is that of any other.
    default = "us" if plan.options.dialect == "posthog" else ANY_TARGET
    address = course.to if course is not None and course.to else to or plan.target or default
    target = quoted(address)
    merges = plan.events.phases.get(IDENTITIES, 0)
    local = "://" in address and is_loopback(address)
    approve = f" --approve-merges {merges}" if merges > ended and not local else ""
    of_project = "" if local and project == ANY_PROJECT else f" --project {quoted(project)}"
    asks = " ID is the number in the project's URL." if of_project.endswith(f" {ANY_PROJECT}") else ""
    apply, verify = f"backcast apply {name} --to {target}{approve}", f"backcast verify {name} --to {target}{of_project}"
    another = {"us": " Write eu for the EU.", ANY_TARGET: f"{NO_TARGET}; URL is the address of another service."}
    elsewhere = another[default] if address == default else ""
    refused = f"backcast rejects {name} --code refused_event"
    if has_files(address) and (step := _with_files(state, name, target)) is not None:
        return step
    if state == "sending":
        return NextStep("A run is sending now. To see how far it is:", f"backcast status {name}")
    if results.canary is not None and state in ("stopped", "differs"):
        return _after_canary(results.canary, apply, of_project, refused, directory)
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
    if state == "verified":
        return NextStep(
            "Every planned event was found once at the target. Keep a receipt, which others can check:",
            f"backcast receipt write {name}",
        )
    if not plan.ready:
        return NextStep("Fix the failed checks and plan again. Until then it can only be rehearsed:", rehearse(name))
    if not plan.events.made:
        return NextStep("This plan sends nothing.", "")
    if state == "rehearsed":
        undone = f" {pluralize(merges, 'merge')} cannot be undone." if merges > ended else ""
        open_ = f"First decide {pluralize(len(plan.gates), 'open check')}, then send" if plan.gates else "Send"
        return NextStep(f"{open_} the events. Sent events cannot be deleted.{undone}{elsewhere}", apply)
    if results.rehearsal is not None and results.rehearsal.events.refused:
        return NextStep("Read which events the rehearsal refused, and why:", refused)
    open_ = f"Read {pluralize(len(plan.gates), 'open check')}, then rehearse" if plan.gates else "Rehearse"
    first = f"{NO_TARGET} first." if address == ANY_TARGET else ""
    sentence = f"{open_} the whole import on this machine; nothing is sent to the target"
    return NextStep(f"{sentence}.{first}" if first else f"{sentence}:", rehearse(name))


def _with_files(state: str, name: str, target: str) -> NextStep | None:
    """The step where files are written, None where it is that of any target."""
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
    again = f"{apply}{of_project} --canary {canary.most}"
    return NextStep(
        f"The canary did not land as it was sent. Read each difference with its row in {file} before the rest is sent."
        " To compare once more:",
        again,
    )


def rehearse(name: str) -> str:
    """The command that rehearses the plan of a quoted name."""
    return f"backcast rehearse {name}"
