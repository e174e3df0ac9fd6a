"""Discards the events of a job's windows some time after they were sent and verified: `keep` in the job file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pipeline import steps
from pipeline.errors import BackcastError
from pipeline.jobs.job import Job, plan_directory
from pipeline.jobs.state import State
from pipeline.options import DiscardOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import NO_RESULTS, results_of


def discard_windows(job: Job, state: State, before: int, warn: Callable[[str], None]) -> None:
    """Discard the windows that were verified before that instant (µs UTC).

    Windows with refused events stay whole, since these events can be corrected. Merges are kept: later windows must not
    contradict them. Earlier plans that such a window replaced are discarded too. A window that cannot be discarded is a
    warning, and the next run tries again.
    """
    for done in state.done():
        if done.refused or not (done.proof == "proved" or not done.events):
            continue
        for attempt in (done, *state.replaced_by(done)):
            folder = plan_directory(job.state, attempt.window, attempt.number)
            if not folder.facts.exists():
                continue  # already discarded
            try:
                plan, directory = open_plan(folder.path, discarded=True)
                if _verified(plan, directory, attempt.ended) < before:
                    options = DiscardOptions(keep_merges=True, unsent=attempt is not done)
                    steps.discard(plan, directory, options, warn=warn)
            except (BackcastError, OSError) as error:
                warn(f"could not discard the events of window {attempt.window}: {error}")


def _verified(plan: Plan, directory: Directory, ended: str | None) -> int:
    """When a window was read back (µs UTC), or when it ended if it had nothing to send."""
    verification = results_of(directory, plan, NO_RESULTS).verification
    at = verification.at if verification is not None else ended
    return 0 if at is None else int(datetime.fromisoformat(at).timestamp() * 1_000_000)
