"""A canary: a sample of a plan is sent first and read back whole, before the rest is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.ledger.queries import read_batches
from pipeline.models import Step
from pipeline.options import ApplyOptions, VerifyOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import check_replayed, transform_config_for, workers_for
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import pluralize
from pipeline.verify.findings import Verification

if TYPE_CHECKING:
    from pipeline.plan.canary import CanarySample


def plan_canary(
    plan: Plan,
    directory: Directory,
    to: str,
    options: ApplyOptions,
    reading: VerifyOptions | None,
    *,
    progress: Step,
    warn: Callable[[str], None],
) -> CanarySample | None:
    """The sample that `options.canary` asks for, None where it asks for none; `reading` is how it will be read back,
    None where the caller knows the project.

    Raises UsageError where that is impossible, before anything is sent; StalePlan, UnsafePlan, UnreadableExport.
    """
    if options.canary is None:
        return None
    from pipeline.plan.canary import choose_canary
    from pipeline.verify.steps import check_project

    if options.phases is not None:
        raise UsageError(
            "--canary sends its events of all phases, and --phases leaves some out", hint="leave one of the two out"
        )
    if reading is not None and not options.dry_run:
        check_project(to, reading)
    config = transform_config_for(plan, directory)
    check_replayed(plan)
    workers = workers_for(options.workers, config.parts)
    sample = choose_canary(plan, directory, config, options.canary, workers=workers, progress=progress)
    if not options.dry_run:
        _check_earlier_runs(directory, sample)
    return sample


def _check_earlier_runs(directory: Directory, sample: CanarySample) -> None:
    """Raise UsageError where an earlier run began events that are not of the sample: they would be sent with it."""
    begun = 0
    for key in read_batches(directory.ledger, "begun"):
        ranges = sample.ranges.get((key.phase, key.block), [])
        if not any(first <= key.first and key.last <= last for first, last in ranges):
            begun += key.events
    if begun:
        raise UsageError(
            f"an earlier run began to send {pluralize(begun, 'event')} that may have arrived, and a canary would send"
            " them again beside its own",
            hint="send the plan without --canary; or plan again into a new directory and send its canary first",
        )


def read_canary(
    plan: Plan, directory: Directory, to: str, reading: VerifyOptions, key: Secret, *, progress: Step
) -> Verification:
    """Compare everything that was sent of a plan so far, field by field, and its merges, profiles and groups.

    Raises what `pipeline.verify.steps.compare` does.
    """
    from pipeline.verify.steps import compare

    return compare(plan, directory, to, replace(reading, fields="all", uuids="all"), key, progress=progress)
