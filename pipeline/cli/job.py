"""`backcast run`: a scheduled backfill, unattended."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import common, log
from pipeline.cli.apply import interruptible
from pipeline.cli.flags import takes
from pipeline.cli.progress import Reading, Sending
from pipeline.errors import UsageError
from pipeline.options import KeyOptions, RunOptions


@click.command(epilog="Example: BACKCAST_PROJECT_KEY=… backcast run nightly.yaml")
@click.argument("job", metavar="JOB.yaml", type=click.Path(path_type=Path))
@click.option("--history", is_flag=True, help="Show the windows so far, and run nothing.")
@takes(RunOptions)
@takes(KeyOptions, "keys")
@common.as_json
@log.option
@common.quiet
def run(
    job: Path, history: bool, options: RunOptions, keys: KeyOptions,
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Plan, check and send every window that is due, oldest first; run again to resume.

    Nothing is asked: naming the target in the job file is the consent. With a personal key the target is checked first,
    and what was sent is read back. Exit 3: a window's files cannot be read. Exit 4: a check stopped a window, or the
    target is not ready. Exit 5: the service refused events or refused us. Exit 6: a window waits for its files, or is
    not completely sent. Exit 7: what a window sent is not what is found at the service. The next run continues.
    """
    from pipeline import api, config
    from pipeline.jobs.hooks import JobHooks
    from pipeline.report.terminal import job_view

    if options.dry_run and history:
        raise UsageError("--history runs nothing, so --dry-run has no effect", hint="leave --dry-run out")
    if history:
        return _show_history(job, as_json)
    with interruptible() as interrupted:
        hooks = JobHooks(
            ended=lambda ended: click.echo(job_view.window_line(ended), err=as_json),
            proved=lambda proof: click.echo(job_view.proof_line(proof), err=as_json),
            warn=common.warn,
            reading=lambda window: Reading(quiet=quiet),
            sending=lambda window, events: Sending(events, quiet=quiet, title=f"Sending {window}"),
            interrupted=interrupted,
        )
        result = api.run_job(
            job, options, project_key=config.given_project_key(keys.project_key_file),
            personal_key=config.personal_key(keys.personal_key_file), hooks=hooks,
        )  # fmt: skip
    with common.output():
        if as_json:
            common.emit(job_view.run_object(result))
        elif not (result.windows or result.proofs or result.problem):
            click.echo(f"Job {result.job}: nothing is due.")
    if result.problem is not None:
        raise result.problem
    return 0


def _show_history(file: Path, as_json: bool) -> int:
    from pipeline.jobs import load_job, read_history, state_file
    from pipeline.jobs.coverage import states_of
    from pipeline.plan.sealed.directory import Directory
    from pipeline.report.paused import paused_in
    from pipeline.report.terminal import job_view

    job = load_job(file)
    folder, *others = states_of(job)
    windows, attempts = read_history(state_file(folder))
    off = paused_in(Directory(folder))
    common.show(
        job_view.history_object(job.name, windows, attempts, off),
        lambda console: job_view.show_history(console, job.name, windows, attempts, off),
        as_json=as_json,
    )
    for other in others:
        click.echo(f"Another target of this job has its state in {other}", err=True)
    return 0
