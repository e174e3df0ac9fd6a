"""A canary: a sample of a plan that is sent first and read back completely, before the rest is sent."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.ledger.queries import read_batches
from pipeline.models import Step
from pipeline.options import ApplyOptions, VerifyOptions
from pipeline.plan.requests.store import read_requests
from pipeline.plan.sealed.directory import PHASES, Directory
from pipeline.plan.sealed.facts import Canary
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import pluralize
from pipeline.verify.findings import Verification


def canary_to_send(
    plan: Plan, directory: Directory, to: str, options: ApplyOptions, reading: VerifyOptions | None
) -> Canary | None:
    """The sample to send, None if `options` do not ask for it; `reading` is how it will be read back, None if the
    caller knows the project. Raises UsageError before anything is sent, if that is impossible."""
    if not options.canary:
        return None
    from pipeline.verify.steps import check_project

    if options.phases is not None:
        raise UsageError(
            "--canary needs all phases, but --phases leaves some out", hint="leave --canary or --phases out"
        )
    canary = plan.canary
    if canary is msgspec.UNSET or not canary.persons:
        raise _without(plan, canary)
    if reading is not None and not options.dry_run:
        check_project(to, reading)
    if not options.dry_run:
        _check_earlier_runs(directory)
    return canary


def _without(plan: Plan, canary: Canary | msgspec.UnsetType) -> UsageError:
    if not plan.events.made:
        return UsageError("the plan sends nothing, so a canary shows nothing", hint="leave --canary out")
    if canary is msgspec.UNSET:
        return UsageError("the plan was made without a canary", hint="plan again with --canary 500")
    return UsageError(
        f"a canary of {pluralize(canary.most, 'event')} is too small: it sends all events of whole people, and the"
        f" smallest one examined needs {canary.least:,} with the first group of each type",
        hint=f"plan again with --canary {max(canary.least, 1_000)}",
    )


def _check_earlier_runs(directory: Directory) -> None:
    """Raise UsageError if an earlier run began events outside the sample: they would be sent with it."""
    begun = list(read_batches(directory.ledger, "begun"))
    if not begun:
        return
    canary = {(one.phase, one.number) for phase in PHASES for one in read_requests(directory, phase) if one.canary}
    if events := sum(key.events for key in begun if (key.phase, key.request) not in canary):
        raise UsageError(
            f"an earlier run began to send {pluralize(events, 'event')} that may have arrived, and a canary would send"
            " them again too",
            hint="send the plan without --canary; or plan again into a new directory and send its canary first",
        )


def read_canary(
    plan: Plan, directory: Directory, to: str, reading: VerifyOptions, key: Secret, progress: Step
) -> Verification:
    """Compare everything that was sent of a plan so far, field by field, and its merges, profiles and groups.

    Raises what `pipeline.verify.steps.compare` does.
    """
    from pipeline.verify.steps import compare

    return compare(plan, directory, to, replace(reading, fields="all", uuids="all"), key, progress=progress)
