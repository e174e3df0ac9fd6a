"""Sends the plan of a window: first its canary, which is read back completely, then the rest."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pipeline import steps
from pipeline.config import Secret
from pipeline.delivery.send import Hooks
from pipeline.delivery.target_lock import target_lock
from pipeline.errors import Differences, Refused, Unfinished
from pipeline.jobs.job import Job
from pipeline.jobs.proof import read_window
from pipeline.models import Step
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import NO_RESULTS, results_of
from pipeline.report.results import CanaryResult
from pipeline.report.verification_words import by_kind, listed
from pipeline.targets import address_of
from pipeline.text import pluralize
from pipeline.verify import Depth, Verification
from pipeline.verify.settle import settle_seconds, wait_to_settle

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome

_HINT = "read its report; the next run compares once more; to send the rest anyway, remove `canary` from the job file"


def send_window(
    job: Job, plan: Plan, directory: Directory, keys: tuple[Secret, Secret], run: Hooks, *, target_known: bool
) -> Outcome:
    """Send a plan, or what is unsent of it. `keys` are the capture key and the personal key.

    The target in the job file is the consent to send, and its `merges` is the approval of merges. Raises Differences or
    Refused for a canary that did not land as it was sent, and whatever keeps a plan from being sent. However it ended,
    a later call resumes.
    """
    hooks = steps.ApplyHooks(
        run.warn, sending=lambda events: nullcontext(run), target_known=target_known,
        read_back=partial(_read_back, job, plan, directory, keys),
    )  # fmt: skip
    merges = plan.events.phases.get("identities", 0)
    options = replace(job.apply, approve_merges=merges, allow_beside=True, require_rehearsal=False)
    send = partial(steps.apply, plan, directory, job.to, steps.KeySource(keys[0]), hooks=hooks)
    with target_lock(str(directory.path), job.to, keys[0], job.apply, run.warn):
        before = results_of(directory, plan, NO_RESULTS).canary
        if options.canary and not (before is not None and before.proved and before.to == address_of(job.to)):
            first = send(options)
            first.ended()
            _refuse_unproved(first.canary)
        return send(replace(options, canary=False)).outcome


def _refuse_unproved(canary: CanaryResult | None) -> None:
    """Raise Differences or Refused for a canary that did not land as it was sent."""
    assert canary is not None
    size = pluralize(canary.size, "event")
    if canary.verification.differs:
        wrong = listed(by_kind(canary.verification))
        raise Differences(f"the canary of {size} did not land as it was sent: {wrong}", hint=_HINT)
    if canary.refused:
        refused = pluralize(canary.refused, "event")
        raise Refused(f"the service refused {refused} of the canary of {size}", hint=_HINT)


def _read_back(job: Job, plan: Plan, directory: Directory, keys: tuple[Secret, Secret], progress: Step) -> Verification:
    """What landed of a canary. Raises Unfinished if the project of the keys is not known."""
    wait_to_settle(directory.ledger, settle_seconds(job.to, job.checks.settle), progress)
    project, found = read_window(job, plan, directory, keys, Depth(fields="all"))
    if found is None:
        raise Unfinished(f"cannot read the canary back: {project.check.detail}", hint=project.check.hint)
    return found
