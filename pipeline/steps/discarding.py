"""Removes the events of a plan that is sent and verified."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import msgspec

from pipeline.errors import UnsafePlan
from pipeline.ledger import lock_file, unlock
from pipeline.options import DiscardOptions
from pipeline.plan.in_bucket import publish_discarded, remove_objects
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.discarded import (
    Discarded,
    discarded_of,
    files_in,
    remove_people,
    with_people,
    write_discarded,
)
from pipeline.plan.sealed.manifest import Plan, read_plan
from pipeline.report.machine import update_report
from pipeline.report.state import State, read_status, step_after
from pipeline.steps.keys import Warn
from pipeline.text import pluralize, quoted
from pipeline.timestamps import utc_now


class Discarding(msgspec.Struct, frozen=True):
    """What was removed from a plan: `files` with `bytes`, at `at` (for a run that was stopped, when it began)."""

    digest: str
    state: str
    at: str
    files: int
    bytes: int
    merges_kept: bool
    format: str = "backcast.discard/1"


def discard(
    plan: Plan,
    directory: Directory,
    options: DiscardOptions,
    *,
    confirm: Callable[[], None] = lambda: None,
    warn: Warn = lambda line: None,
) -> Discarding:
    """Remove the events of a plan, and the ids and values of people in it; the report and the ledger stay.

    `confirm` raises if they must not be removed. The next call finishes one that was stopped. Raises UnsafePlan
    for a plan that is not completely sent and verified, unless `options` allow it; Busy, UsageError, BrokenLedger.
    """
    new = discarded_of(plan, directory) is None
    if new:
        _refuse_open(plan, directory, options)
        confirm()
    with ExitStack() as stack:
        for path, name in (
            (directory.path / "plan", str(directory.path)), (directory.rehearsal, "the rehearsal of this plan"),
            (directory.verification, "the verification of this plan"),
        ):  # fmt: skip
            stack.callback(unlock, lock_file(path, name))
        if new:  # again, since the answer may have taken long
            _refuse_open(plan, directory, options)
        stack.callback(unlock, lock_file(directory.ledger, "this plan"))
        marker = discarded_of(plan, directory) or Discarded(plan.digest, utc_now(), options.keep_merges)
        gone = with_people(plan, directory, merges_kept=marker.merges_kept)
        sizes = [file.stat().st_size for file in files_in(gone)]
        publish_discarded(directory, marker, {path.name for path in gone})
        write_discarded(directory, marker)
        remove_people(plan, directory, marker)
        remove_objects(directory)
    update_report(directory, plan, warn)
    state = read_status(plan, directory).state
    return Discarding(plan.digest, state, marker.at, len(sizes), sum(sizes), marker.merges_kept)


def _refuse_open(plan: Plan, directory: Directory, options: DiscardOptions) -> None:
    """Raise UnsafePlan for a plan of which something must still be sent or verified, or was refused, unless `options`
    allow that, and for a plan that another one replaced; Busy while it is being sent."""
    if read_plan(directory).digest != plan.digest:
        raise UnsafePlan(
            f"{directory.name} contains another plan by now; nothing was discarded",
            hint=f"look at it: backcast status {quoted(directory.name)}; then run the same command again",
        )
    unlock(lock_file(directory.ledger, "this plan"))
    if options.unsent:
        return
    status = read_status(plan, directory)
    if status.state in (State.VERIFIED, State.SENDING) or not plan.events.made:
        return
    events, name = pluralize(plan.events.made, "event"), quoted(directory.name)
    missing = {
        State.STOPPED: f"{status.unsent:,} of its {events} are not sent, and {status.totals.in_doubt:,} are in doubt",
        State.DIFFERS: "what landed differs from what was sent",
        State.SENT: "what was sent was not verified",
        State.SENT_WITH_REFUSALS: f"{pluralize(status.totals.refused, 'event')} refused, which --replay can plan again",
    }.get(status.state)
    command = step_after(plan, status, directory.name).command
    if missing is None:
        missing, command = f"{events} not sent", f"backcast apply {name} --to {quoted(plan.target or 'URL')}"
    raise UnsafePlan(
        f"the events of {directory.name} are still needed: {missing}; nothing was discarded",
        hint=f"{command}; or, if nobody needs them: backcast discard {name} --unsent",
    )
