"""The steps of a verification: wait for the settle time, compare, resend what is missing, compare once more."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.config import Secret
from pipeline.delivery.outcome import Outcome
from pipeline.delivery.send import Hooks, send_plan
from pipeline.errors import Busy, UnsafePlan, UsageError
from pipeline.ledger import (
    BatchKey,
    Ledger,
    check_target,
    is_locked,
    read_batches,
    read_summary,
    read_totals,
    read_unanswered,
    reopen,
)
from pipeline.models import Step
from pipeline.options import ApplyOptions, VerifyOptions
from pipeline.plan.sealed.contents import check_tables
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import check_applicable
from pipeline.plan.sealed.manifest import Plan
from pipeline.targets import address_of, is_loopback
from pipeline.text import are, pluralize, quoted
from pipeline.verify.against import read_numbers
from pipeline.verify.findings import Verification
from pipeline.verify.reconcile import Depth, verify
from pipeline.verify.settle import settle_seconds, wait_to_settle
from pipeline.zone_clock import ZoneClock


class Keys(NamedTuple):
    """The keys of a repair: the one that reads, and the capture key."""

    personal: Secret
    project: Secret


class Repair(NamedTuple):
    """What was sent again, None if nothing was missing, and the verification after it."""

    outcome: Outcome | None
    verification: Verification


def compare(
    plan: Plan,
    directory: Directory,
    to: str,
    options: VerifyOptions,
    key: Secret,
    *,
    earlier: Verification | None = None,
    missing: Callable[[Sequence[BatchKey]], None] | None = None,
    progress: Step = lambda name, done, total: None,
) -> Verification:
    """Compare what landed with the ledger after the settle time; `missing` is called with the missing events.

    Raises UsageError if nothing was sent or the project is not known, Busy while a run is sending, BrokenLedger if the
    plan was sent to another target, and the errors of `pipeline.api.verify_plan`.
    """
    from pipeline.management import ManagementClient

    check_comparable(plan, directory, to)
    check_project(to, options)
    check_tables(plan, directory)
    depth = depth_of(options)._replace(ask_all=missing is not None, earlier=earlier)
    wait_to_settle(directory.ledger, settle_seconds(to, options.settle), progress)
    with ManagementClient(options.api or to, key, "1" if options.project is None else options.project) as client:
        return verify(plan, directory, client, depth=depth, missing=missing, progress=progress)


def depth_of(options: VerifyOptions) -> Depth:
    """How much these options compare. Raises UsageError for numbers or a zone that cannot be read."""
    against = "" if options.against is None else str(options.against)
    if against:
        read_numbers(against)  # before anything is read from the target
    elif options.against_timezone:
        raise UsageError("--against-timezone without --against has no effect", hint="add --against FILE")
    ZoneClock([(zone, "") for zone in filter(None, [options.against_timezone])])
    return Depth(
        options.uuids, options.fields, options.whole,  # type: ignore[arg-type]  # of the options' choices
        metrics=options.metrics or bool(against), against=against, against_timezone=options.against_timezone or "",
    )  # fmt: skip


def check_comparable(plan: Plan, directory: Directory, to: str) -> None:
    """What `compare` checks without the target and the files of the plan. Raises BrokenLedger if the plan was sent to
    another target, Busy while a run is sending (what it sends meanwhile would seem to come from someone else), and
    UsageError if nothing was sent of a plan that has events: finding no difference would prove nothing."""
    check_target(directory.ledger, address_of(to))
    if is_locked(directory.ledger):
        raise Busy(
            f"{directory.name} is being sent now; verify cannot compare events while they are being sent",
            hint=f"verify it when that run has ended; to see its progress: backcast status {quoted(directory.name)}",
        )
    totals = read_totals(directory.ledger)
    if plan.events.made and not totals.settled + totals.refused and not any(read_unanswered(directory.ledger)):
        raise UsageError(
            f"nothing of {directory.name} was sent yet, so there is nothing to verify",
            hint=f"send it first: backcast apply {quoted(directory.name)} --to {quoted(to)}",
        )


def check_project(to: str, options: VerifyOptions) -> None:
    """Raise UsageError if it is not known which project to read."""
    if options.project is None and not is_loopback(address_of(to)):
        raise UsageError(
            f"reading back from {to} needs the project's id",
            hint="add --project ID; the address of the project in the browser shows the number",
        )


def repair(
    plan: Plan,
    directory: Directory,
    to: str,
    options: VerifyOptions,
    keys: Keys,
    *,
    earlier: Verification | None = None,
    confirm: Callable[[int], None] = lambda count: None,
    hooks: Hooks | None = None,
) -> Repair:
    """Compare, send exactly what is missing again, with the same bytes and uuids, and compare once more.

    The missing events wait in the ledger that settled them, and are sent as an apply sends what is left. Events that an
    earlier repair left unsent are sent too. `confirm` is called with their number before anything is sent, and raises
    if it must not be. Raises UnsafePlan if the plan itself is not completely sent, and the errors of `compare` and
    `send_plan`.
    """
    hooks = hooks or Hooks()
    check_applicable(plan, to)
    left = _left_unsent(plan, directory, to)
    runs = _runs(directory)
    found: list[BatchKey] = []
    before = compare(
        plan, directory, to, options, keys.personal, earlier=earlier, missing=found.extend, progress=hooks.step
    )
    if not found and not left:
        return Repair(None, before)
    confirm(sum(key.events for key in found) + left)
    if found:
        ledger = Ledger(directory.ledger)
        ledger.open(plan.digest, importlib.metadata.version("backcast"), address_of(to), keys.project)
        try:
            reopen(ledger, found, runs)
            ledger.finish("done")
        finally:
            ledger.close()
    outcome = send_plan(plan, directory, to, keys.project, ApplyOptions(), hooks)
    if outcome.problem is not None:
        return Repair(outcome, before)
    return Repair(outcome, compare(plan, directory, to, options, keys.personal, earlier=earlier, progress=hooks.step))


def _left_unsent(plan: Plan, directory: Directory, to: str) -> int:
    """The events that an earlier repair left unsent. Raises UnsafePlan if the plan was never completely sent."""
    totals = read_totals(directory.ledger)
    begun = [key for state in ("begun", "waiting") for key in read_batches(directory.ledger, state)]
    left = sum(key.events for key in begun)
    unsent = plan.events.made - totals.settled - totals.refused - left
    if unsent:
        raise UnsafePlan(
            f"{pluralize(unsent, 'event')} of the plan {are(unsent)} not sent yet; only a completely sent plan can be"
            " repaired, and nothing was sent",
            hint=f"send the rest first: backcast apply {quoted(directory.name)} --to {quoted(to)}",
        )
    return left


def _runs(directory: Directory) -> int:
    history = read_summary(directory.ledger, most=0).history
    return 0 if history is None else history.runs
