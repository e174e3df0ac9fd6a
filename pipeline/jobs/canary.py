"""The canary of a job: of each window a sample is sent first and read back whole, before the rest is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.config import Secret
from pipeline.delivery.send import Hooks, send_plan
from pipeline.errors import Differences, Refused, Unfinished
from pipeline.jobs.job import Job
from pipeline.options import ApplyOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import transform_config_for, workers_for
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.canary import canary_result
from pipeline.report.contents import NO_RESULTS, Results, results_of
from pipeline.report.machine import update_report
from pipeline.report.results import verify_result
from pipeline.report.verification_words import by_kind, listed
from pipeline.targets import address_of, is_loopback
from pipeline.text import pluralize
from pipeline.verify.canary import plan_canary
from pipeline.verify.settle import SETTLE_SECONDS, wait_to_settle

if TYPE_CHECKING:
    from pipeline.verify.findings import Verification

_HINT = "read its report; the next run compares once more, and without `canary` in the job file the rest is sent"


def send_canary(
    job: Job,
    plan: Plan,
    directory: Directory,
    options: ApplyOptions,
    keys: tuple[Secret, Secret],
    hooks: Hooks,
    *,
    target_known: bool,
) -> None:
    """Send the sample that `options.canary` asks for, unless one of this plan landed, and compare all of it.

    `keys` are the capture key and the personal key. Raises Differences or Refused where it did not land as it was sent,
    Unfinished where it was not sent to its end, and the errors of `send_plan`. Whatever ended it, a later call goes on.
    """
    before = results_of(directory, plan, NO_RESULTS).canary
    if options.canary is None or (before is not None and before.proved and before.to == address_of(job.to)):
        return
    sample = plan_canary(plan, directory, job.to, options, None, progress=hooks.step, warn=hooks.warn)
    assert sample is not None
    outcome = send_plan(
        plan, directory, job.to, keys[0], options, hooks, target_known=target_known, only=sample.ranges
    )  # fmt: skip
    if outcome.problem is not None:
        raise outcome.problem
    found = verify_result(_read_back(job, plan, directory, keys, options.workers, hooks), to=address_of(job.to))
    canary = canary_result(sample, outcome, found, job.to)
    update_report(directory, plan, hooks.warn, Results(canary=canary))
    size = pluralize(canary.size, "event")
    if found.differs:
        raise Differences(f"the canary of {size} did not land as it was sent: {listed(by_kind(found))}", hint=_HINT)
    if canary.refused:
        refused = pluralize(canary.refused, "event")
        raise Refused(f"the service refused {refused} of the canary of {size}", hint=_HINT)


def _read_back(
    job: Job, plan: Plan, directory: Directory, keys: tuple[Secret, Secret], workers: int | None, hooks: Hooks
) -> Verification:
    from pipeline.management import ManagementClient
    from pipeline.management.client import management_address
    from pipeline.preflight.project import find_project
    from pipeline.verify import Depth, verify

    default = 0.0 if is_loopback(address_of(job.to)) else SETTLE_SECONDS
    seconds = default if job.checks.settle is None else job.checks.settle
    wait_to_settle(directory.ledger, seconds, hooks.step)
    config = transform_config_for(plan, directory)
    with ManagementClient(management_address(job.to, job.checks.api), keys[1], job.checks.project) as client:
        project = find_project(client, keys[0])
        if not project.known:
            raise Unfinished(f"the canary cannot be read back: {project.check.detail}", hint=project.check.hint)
        depth = Depth(fields="all", among_others=True)
        return verify(plan, directory, config, client, workers=workers_for(workers, config.parts), depth=depth)
