"""A scheduled backfill: find the windows that are due, plan each, send it, record it. Run again, it does what is left.

What began to be sent is finished first, then the windows follow, oldest first. One that cannot be planned (a gate, a
broken file, no files yet) is told and left for the next run, and others go on; what stops the sending stops the run.

With a personal key the target is looked at before anything is planned, and what was sent is read back at the end.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.config import Secret
from pipeline.errors import BackcastError, UsageError
from pipeline.files import private
from pipeline.jobs import Job, State, open_scratch, open_state
from pipeline.jobs.proof import Proof, check_ready, difference, prove
from pipeline.jobs.windows import JobHooks, WindowRun, Windows
from pipeline.ledger import lock_file, unlock
from pipeline.options import RunOptions

NO_KEY = Secret("")


@dataclass(frozen=True, slots=True)
class JobRun:
    """What a run did. `problem` is the first thing that a person has to know, as the exit code tells it.

    `proofs` are the windows that were read back, those of earlier runs included.
    """

    job: str
    dry_run: bool
    windows: list[WindowRun]
    problem: BackcastError | None
    proofs: list[Proof] = field(default_factory=list)


@private()
def run_due_windows(
    job: Job,
    project_key: Secret,
    personal_key: Secret = NO_KEY,
    options: RunOptions = RunOptions(),
    hooks: JobHooks | None = None,
    *,
    now: int | None = None,
) -> JobRun:
    """Do what is due at `now` (µs UTC; the clock where it is None). A dry run sends nothing and records nothing.

    With a `personal_key`, a target that is not ready ends the run before anything is planned. Raises UsageError, Busy
    where another run of the job goes on, BrokenLedger.
    """
    now = time.time_ns() // 1_000 if now is None else now
    hooks = hooks or JobHooks()
    proving = bool(personal_key) and not options.dry_run
    with _opened(job, options.dry_run) as (state, root):
        windows = Windows(job, state, root, project_key, options, hooks, proving=proving)
        proofs: list[Proof] = []
        try:
            if proving:
                for line in check_ready(job, project_key, personal_key, allow_firing=options.allow_firing):
                    hooks.warn(line)
            windows.go(job.windows(now))
            for attempt in state.unproved() if proving and windows.ending is None else []:
                windows.check()
                proofs.append(prove(job, state, attempt, now, project_key, personal_key, options.workers))
                hooks.proved(proofs[-1])
        except BackcastError as error:
            windows.ending = error
        differs = difference(job, proofs)
        windows.troubles += [differs] if differs is not None else []
        return JobRun(job.name, options.dry_run, windows.done, windows.problem, proofs)


@contextmanager
def _opened(job: Job, dry_run: bool) -> Iterator[tuple[State, Path]]:
    """The job's state and where its plans go; alone, or in a place that is thrown away."""
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="backcast-") as scratch:
            state = open_scratch(job, Path(scratch))
            try:
                yield state, Path(scratch)
            finally:
                state.close()
        return
    try:
        job.state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {job.state}: {error.strerror}", hint="name another `state`") from None
    lock = lock_file(job.state / "job", f"the job {job.name}")
    try:
        state = open_state(job)
        try:
            yield state, job.state
        finally:
            state.close()
    finally:
        unlock(lock)
