"""A scheduled backfill: plan, send and record every window that is due. Run again, it does what remains.

It first finishes a window that an earlier run began to send; then the others follow, oldest first. A window that cannot
be planned (a failed check, a damaged file, no files yet) is reported and tried again by the next run, while the others
go on. A problem with sending ends the run.

With a personal key, the target is checked before anything is planned, and what was sent is read back at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import msgspec

from pipeline import steps
from pipeline.config import Secret
from pipeline.errors import BackcastError, Unfinished, UsageError
from pipeline.files import private
from pipeline.jobs.coverage import at_target, find_first_live, project_of_keys, remember_target
from pipeline.jobs.earlier import add_earlier
from pipeline.jobs.hooks import JobHooks, WindowRun
from pipeline.jobs.job import Job, plan_directory
from pipeline.jobs.opening import open_state
from pipeline.jobs.proof import Proof, check_ready, difference, prove
from pipeline.jobs.state import State
from pipeline.jobs.windows import BeforeSending, WindowRunner
from pipeline.jobs.wording import error_in_job_words, in_job_words
from pipeline.options import DiscardOptions, RunOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan
from pipeline.preflight.pausing import pausing_for
from pipeline.preflight.run import PreflightRequest
from pipeline.preflight.target import planned_events
from pipeline.report.contents import NO_RESULTS, results_of
from pipeline.text import pluralize
from pipeline.verify.settle import settle_seconds, wait_to_settle

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
            runner.results.problems.append(differs)
        problem = fatal or runner.results.most_urgent_problem()
        if problem is not None:
            problem = error_in_job_words(problem)
        return JobRun(job.name, options.dry_run, runner.results.runs, problem, proofs)


@contextmanager
def functions_off(
    request: PreflightRequest, state: Path, settle: float | None, warn: Callable[[str], None]
) -> Iterator[BeforeSending]:
    """Within it, calling the value with a plan turns off hog functions that would fire on that plan, if the job pauses
    them (`functions: pause`): before the first window that would fire them.

    However it ends, they are turned on again once, `settle` seconds after the last event of the run; None means the
    option's default. Their record is in the job's state folder, so the next run, or `backcast resume-functions` with
    that folder, knows what a killed run left off.
    Raises as `pipeline.preflight.pausing.pausing_for` does, and Unfinished if one could not be turned on.
    """
    with pausing_for(request, Directory(state), None, warn, pauses=request.options.pause_functions) as pausing:
        if pausing is None:
            yield lambda plan, directory: None
            return
        ledgers: list[Path] = []

        def before_sending(plan: Plan, directory: Directory) -> None:
            functions = pausing.would_fire(planned_events(plan, directory).names)
            if functions:
                warn(pausing.notice(functions))
            ledgers.append(directory.ledger)
            pausing.pause(functions)

        try:
            yield before_sending
        finally:
            if pausing.recorded and ledgers:
                wait_to_settle(ledgers[-1], settle_seconds(request.to, settle), lambda name, done, total: None)
            resumed = pausing.resume()
            for line in resumed.warnings():
                warn(line)
        if resumed.off:
            raise Unfinished(
                f"{pluralize(len(resumed.off), 'hog function')} could not be turned on again",
                hint=f"the next run tries again; or run: backcast resume-functions {state} --to {request.to}",
            )


def discard_windows(job: Job, state: State, before: int, warn: Callable[[str], None]) -> None:
    """Discard the events of windows that were verified before that instant (µs UTC): `keep` in the job file.

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
