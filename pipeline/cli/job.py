"""`backcast run`: a scheduled backfill, unattended."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import options
from pipeline.cli.apply import interruptible
from pipeline.cli.options import console
from pipeline.cli.progress import Reading, Sending
from pipeline.errors import UsageError


@click.command(epilog="Example: BACKCAST_PROJECT_KEY=… backcast run nightly.yaml")
@click.argument("job", metavar="JOB.yaml", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Plan what is due in a scratch folder; send and record nothing.")
@click.option("--history", is_flag=True, help="Show what the job did so far, and do nothing.")
@options.project_key_file
@options.personal_key_file
@options.allow_firing
@options.workers
@options.as_json
@options.quiet
def run(
    job: Path, dry_run: bool, history: bool, project_key_file: str | None, personal_key_file: str | None,
    allow_firing: bool, workers: int | None, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Plan, check and send every window that is due, oldest first; run again to resume or to go on.

    Nothing is asked: naming the target in the job file is the consent. With a personal key the target is looked at
    first, and what was sent is read back. Exit 3: a window's files cannot be read. Exit 4: a gate stopped a window, or
    the target is not ready. Exit 5: the service refused events or refused us. Exit 6: a window waits for its files, or
    is not sent to its end. Exit 7: a window is not at the service as it was sent. The next run does what is left.
    """
    from pipeline import config
    from pipeline.jobs import load_job, read_history, state_file
    from pipeline.jobs.run import run_job
    from pipeline.jobs.windows import Watching
    from pipeline.report import job_view
    from pipeline.sending import capture_key

    if dry_run and history:
        raise UsageError("--history does nothing, so there is nothing to try", hint="leave --dry-run out")
    found = load_job(job)
    if history:
        windows, attempts = read_history(state_file(found.state))
        with options.output():
            if as_json:
                options.emit(job_view.history_object(found.name, windows, attempts))
            else:
                job_view.show_history(console(), found.name, windows, attempts)
        return 0
    key = capture_key(found.to, project_key_file, dry_run=dry_run, warn=options.warn)
    personal = config.personal_key(personal_key_file)

    watching = Watching(
        ended=lambda ended: click.echo(job_view.window_line(ended), err=as_json),
        proved=lambda proof: click.echo(job_view.proof_line(proof), err=as_json),
        warn=options.warn,
        reading=lambda window: Reading(None, quiet=quiet),
        sending=lambda window, events: Sending(events, quiet=quiet, title=f"Sending {window}"),
    )
    with interruptible() as interrupted:
        done = run_job(
            found, key, personal_key=personal, allow_firing=allow_firing, dry_run=dry_run, workers=workers,
            interrupted=interrupted, watching=watching,
        )  # fmt: skip
    with options.output():
        if as_json:
            options.emit(job_view.run_object(done))
        elif not (done.windows or done.proofs or done.problem):
            click.echo(f"Job {done.job}: nothing is due.")
    if done.problem is not None:
        raise done.problem
    return 0
