"""What plans that were sent before a job settled (`earlier` of a job file): none of it is sent again.

Such a plan is planned once more as if it were a window of the job, which gives the job its uuids, ids, pairs and
groups. For that, its export is read once.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pipeline.errors import StalePlan, UnsafePlan, UsageError
from pipeline.jobs.job import Job
from pipeline.jobs.state import State
from pipeline.ledger import read_batches, read_summary, state_digest
from pipeline.options import PlanOptions
from pipeline.plan.create import create_plan
from pipeline.plan.replay import inherited
from pipeline.plan.requests.query import every_batch
from pipeline.plan.sealed.directory import EVENTS, Directory
from pipeline.plan.sealed.discarded import refuse_discarded
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan, as_name
from pipeline.plan.series import Series
from pipeline.plan.settled_facts import settled_facts
from pipeline.plan.window_index import WindowIndex
from pipeline.targets import address_of


def add_earlier(job: Job, state: State, workers: int | None) -> None:
    """Add what the job's earlier plans settled to its state, unless it is already there. Raises UsageError, UnsafePlan
    for a plan that is not completely sent, StalePlan if its export has changed, UnreadableExport."""
    for path in job.plan.earlier or ():
        plan, directory = open_plan(path, discarded=True)
        sent = state_digest(directory.ledger)
        if state.facts().get(f"earlier {plan.digest}") != sent:
            refuse_discarded(plan, directory)
            _check(job, plan, directory)
            _add(plan, directory, state, workers)
            state.remember(**{f"earlier {plan.digest}": sent})


def _check(job: Job, plan: Plan, directory: Directory) -> None:
    summary = read_summary(directory.ledger, most=0)
    to, totals = summary.history.to if summary.history is not None else "", summary.totals
    if to != address_of(job.to):
        raise UsageError(
            f"{directory.name} was sent to {to or 'no target'}, but the job sends to {job.to}",
            hint="remove it from `earlier` in the job file",
        )
    if totals.settled + totals.refused != plan.events.made or totals.in_doubt:
        raise UnsafePlan(
            f"{directory.name} is not completely sent",
            hint=f"run backcast apply {directory.name} --to {to}, then the job",
        )


def _add(plan: Plan, directory: Directory, state: State, workers: int | None) -> None:
    """Plan the same files with the same options, as a window."""
    files = [as_name(part.file) for part in plan.parts]
    lookups = "lookups.json" in plan.files
    options = inherited(PlanOptions(earlier=(), workers=workers, max_rejects="100%"), plan, directory)
    with tempfile.TemporaryDirectory(prefix="backcast-") as scratch:
        again = Directory(Path(scratch) / "plan")
        series = Series(state.settled, state.identities, None, state.groups, {*files})
        sources = [os.path.commonpath(map(os.path.dirname, files))] if lookups else files
        made = create_plan(sources, again.path, options, series=series)
        known = made.skips.get("already_settled", 0)
        if made.events.phases[EVENTS] + known != plan.events.phases[EVENTS]:
            raise StalePlan(
                f"the export of {directory.name} now gives other events, so the job cannot tell which were sent",
                differences=["events"],
                hint="restore the files from which it was planned",
            )
        with state.transaction():
            state.settled.add(settled_facts(again, every_batch(again)), 0)
            others = (batch for batch in read_batches(directory.ledger, "settled") if batch.phase != EVENTS)
            state.settled.add(settled_facts(directory, others), 0)
            index = WindowIndex.from_plan(made, again)
            state.identities.add(index)
            state.groups.add(index)
