"""What to do next with a plan: one sentence, and the command in full, to be run in the folder that contains it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from pipeline.text import pluralize

if TYPE_CHECKING:
    from pipeline.report.contents import Report


class NextStep(NamedTuple):
    """`command` is "" where nothing is left to run."""

    sentence: str
    command: str


def next_step(report: Report) -> NextStep:
    """The step that the state of the plan asks for."""
    name, plan, applied = shlex.quote(report.name), report.plan, report.results.applied
    course = applied.course if applied is not None else None
    target = shlex.quote(course.to if course is not None and course.to else plan.target or "us")
    merges = plan.events.phases.get("identities", 0)
    approve = f" --approve-merges {merges}" if merges else ""
    apply, verify = f"backcast apply {name} --to {target}{approve}", f"backcast verify {name} --to {target}"
    elsewhere = "" if plan.target or course is not None else " Write eu, or a URL, for another target."
    if report.state == "sending":
        return NextStep("A run is sending now. To see how far it is:", f"backcast status {name}")
    if report.state == "stopped":
        return NextStep("Run apply again; it resumes where it stopped:", apply)
    if report.state == "sent":
        return NextStep("Compare what landed with what was sent:", verify)
    if report.state == "sent-with-refusals":
        return NextStep("Read which events were refused, and why:", f"backcast rejects {name} --code refused_event")
    if report.state == "differs":
        return NextStep("Send again what is missing, and nothing else:", f"{verify} --repair")
    if report.state == "verified":
        return NextStep("Nothing is left to do: every planned event was found once at the target.", "")
    if not plan.ready:
        return NextStep("Fix the failed checks and plan again. Until then it can only be rehearsed:", rehearse(name))
    if not plan.events.made:
        return NextStep("This plan sends nothing.", "")
    if report.state == "rehearsed":
        undone = f" {pluralize(merges, 'merge')} cannot be undone." if merges else ""
        return NextStep(f"Send the events. Sent events cannot be deleted.{undone}{elsewhere}", apply)
    return NextStep("Rehearse the whole import on this machine; nothing is sent to the target:", rehearse(name))


def rehearse(name: str) -> str:
    """The command that rehearses the plan of a quoted name."""
    return f"backcast rehearse {name}"
