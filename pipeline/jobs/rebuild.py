"""Make a lost state again, from the plans and ledgers of the windows: nothing that was settled is ever forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import UnsafePlan, UsageError
from pipeline.jobs.job import Job
from pipeline.jobs.paths import counts_of, parts_of, windows_folder
from pipeline.jobs.state import State
from pipeline.ledger import read_batches, read_totals, was_ever_applied
from pipeline.plan.directory import Directory
from pipeline.plan.event_uuids import settled_uuids
from pipeline.plan.manifest import Plan, load
from pipeline.plan.window_index import WindowIndex


def rebuild(state: State, job: Job) -> None:
    """Note every plan that was sent, in whole or in part, in an empty state. Raises UnsafePlan, BrokenLedger."""
    for label in sorted(windows_folder(job.state).iterdir()):
        sent = list(_sent(label))
        for number, directory, plan in sent:
            totals = read_totals(directory.ledger)
            ended = totals.settled + totals.refused == plan.events.made and not totals.in_doubt
            attempt = state.attempt(state.begin(label.name, number))
            state.note(attempt.id, started=_time(directory.plan), **counts_of(plan))
            settled = settled_uuids(directory, read_batches(directory.ledger, "settled"))
            told = {"sent": totals.settled, "refused": totals.refused}
            if ended:
                state.record(
                    attempt, parts_of(plan, job.folder), settled, WindowIndex.from_plan(plan, directory), **told
                )
            elif number != sent[-1][0]:
                state.replace(
                    attempt,
                    settled,
                    WindowIndex.from_unfinished_plan(directory),
                    "its files changed while it was being sent",
                    **told,
                )
            else:
                state.send(attempt)


def _sent(window: Path) -> Iterator[tuple[int, Directory, Plan]]:
    """The plans of a window that were sent, or had nothing to send, by number."""
    found = [(int(name[1]), path) for path in window.iterdir() if (name := re.fullmatch(r"plan-(\d+)", path.name))]
    for number, path in sorted(found):
        directory = Directory(path)
        try:
            plan = load(directory)
        except (UsageError, UnsafePlan):
            if was_ever_applied(directory.ledger):
                raise
            continue  # half made, and nothing was sent
        if was_ever_applied(directory.ledger) or (plan.ready and not plan.events.made):
            yield number, directory, plan


def _time(path: Path) -> str:
    return datetime.fromtimestamp(int(path.stat().st_mtime), UTC).isoformat().replace("+00:00", "Z")
