"""A scheduled backfill: plan, send and record every window that is due. Run again, it does what remains.

It first finishes a window that an earlier run began to send; then the others follow, oldest first. A window that cannot
be planned (a failed check, a damaged file, no files yet) is reported and tried again by the next run, while the others
go on. A problem with sending ends the run.

With a personal key, the target is checked before anything is planned, and what was sent is read back at the end.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

import msgspec

from pipeline.config import Secret
from pipeline.errors import BackcastError, UsageError
from pipeline.files import private
from pipeline.jobs.coverage import at_target, find_first_live, project_of_keys, remember_target
from pipeline.jobs.discarding import discard_windows
from pipeline.jobs.earlier import add_earlier
from pipeline.jobs.functions import functions_off
from pipeline.jobs.hooks import JobHooks, WindowRun
from pipeline.jobs.job import Job
from pipeline.jobs.opening import open_state
from pipeline.jobs.proof import Proof, check_ready, difference, prove
from pipeline.jobs.windows import WindowRunner
from pipeline.jobs.wording import error_in_job_words, in_job_words
from pipeline.options import RunOptions
from pipeline.preflight.run import PreflightRequest

NO_KEY = Secret("")


class JobRun(msgspec.Struct, frozen=True):
    """What a run did. `problem` is the most urgent error, which decides the exit code.

    `proofs` are the windows that were read back, those of earlier runs included.
    """

    job: str
    dry_run: bool
    windows: list[WindowRun]
    problem: BackcastError | None
    proofs: list[Proof] = msgspec.field(default_factory=list)


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
    """Process what is due at `now` (µs UTC; None means the clock). A dry run sends nothing and records nothing.

    With a `personal_key`, a target that is not ready ends the run before anything is planned. A dry run asks the target
    only what decides what a run would send: which project it is, and its first live event. Raises UsageError, Busy if
    another run of the job is going on, BrokenLedger.
    """
    now = time.time_ns() // 1_000 if now is None else now
    hooks = hooks or JobHooks()
    warn = hooks.warn
    hooks = msgspec.structs.replace(hooks, warn=lambda line: warn(in_job_words(line)))
    read_back = bool(personal_key) and not options.dry_run
    if job.apply.canary and not (read_back or options.dry_run):
        raise UsageError(
            "a job with `canary` reads the canary back, which needs the personal key",
            hint="set BACKCAST_PERSONAL_KEY, or leave `canary` out of the job file",
        )
    checks = replace(job.checks, reach=False, events=False, allow_firing=options.allow_firing)
    request = PreflightRequest(job.to, project_key, personal_key, checks)
    project = project_of_keys(request)
    job = at_target(job, project, project_key, hooks.warn)
    with open_state(job, dry_run=options.dry_run) as (state, root):
        runner = WindowRunner(job, state, root, project_key, options, hooks, request)
        proofs: list[Proof] = []
        fatal: BackcastError | None = None
        try:
            if not options.dry_run:
                remember_target(state, project, project_key)
            for warning in check_ready(request) if read_back else []:
                hooks.warn(warning)
            add_earlier(job, state, options.workers)
            runner.until = find_first_live(job, state, request, now, hooks.warn)
            off = (
                nullcontext(runner.before_sending)
                if options.dry_run
                else functions_off(request, job.state, job.checks.settle, hooks.warn)
            )
            with off as runner.before_sending:
                runner.process(job.windows(now))
            for attempt in state.unproved() if read_back else []:
                runner.check_interrupted()
                proofs.append(prove(job, state, attempt, now, project_key, personal_key))
                hooks.proved(proofs[-1])
            if job.keep is not None and not options.dry_run:
                discard_windows(job, state, now - job.keep, hooks.warn)
        except BackcastError as error:
            fatal = error
        if (differs := difference(job, proofs)) is not None:
            runner.problems.append(differs)
        problem = fatal or runner.most_urgent_problem()
        if problem is not None:
            problem = error_in_job_words(problem)
        return JobRun(job.name, options.dry_run, runner.runs, problem, proofs)
