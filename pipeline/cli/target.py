"""The commands that need a target: preflight, apply, run, resume-functions and verify."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.help import APPLY, GroupedHelp, example
from pipeline.cli.progress import Line, Reading, Sending
from pipeline.errors import UsageError
from pipeline.options import ApplyOptions, KeyOptions, PauseOptions, PreflightOptions, RunOptions, VerifyOptions

if TYPE_CHECKING:
    from pipeline.delivery.send import Hooks
    from pipeline.models import Step
    from pipeline.preflight.run import Preflight


@click.command(epilog=example("BACKCAST_PERSONAL_KEY=… BACKCAST_PROJECT_KEY=… backcast preflight plan/ --to eu"))
@click.argument("directory", metavar="[DIR]", required=False, type=common.PlanDirectory())
@common.target
@takes(PreflightOptions)
@takes(KeyOptions, "keys")
@common.log_format
@common.as_json
def preflight(
    directory: str | None, to: str, options: PreflightOptions, keys: KeyOptions, as_json: bool,
) -> int:  # fmt: skip
    """Check whether a target is ready for an import. Nothing is sent, and nothing is changed there.

    With the directory of a plan, its events are checked against the project: its settings, and the hog functions that
    would fire. What cannot be checked is reported as unknown. Exit 4 when something would do harm.
    """
    from pipeline import config, steps
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.preflight.run import PreflightRequest, check_target
    from pipeline.preflight.written_files import check_files
    from pipeline.report.contents import Results, project_of
    from pipeline.report.machine import update_report
    from pipeline.report.state import read_status, step_after
    from pipeline.report.terminal import preflight_view
    from pipeline.targets import files_of

    key = config.given_project_key(keys.project_key_file)
    request = PreflightRequest(to, key, config.personal_key(keys.personal_key_file), options)
    plan, folder = open_plan(directory) if directory is not None else (None, None)
    files = files_of(to) is not None
    result = check_files(plan) if files else check_target(request, plan, folder)
    following = None
    if plan is not None and folder is not None and directory is not None:
        if request.personal_key and not files:
            steps.record_preflight(request, plan, folder, result, common.warn)
            update_report(folder, plan, common.warn, Results(project=project_of(result.project, to)))
        following = step_after(plan, read_status(plan, folder), directory, to=to, project=options.project)
    common.show(
        preflight_view.preflight_object(result),
        lambda console: preflight_view.show_preflight(console, result, following),
        as_json=as_json,
    )
    return 4 if result.stops else 0


def _show_target(found: Preflight, asked: bool, *, as_json: bool, quiet: bool) -> None:
    """Show what `apply` found of the target before it sends.

    The first line on stdout names the project of the capture key, or why it is unknown, also when `quiet`; with
    `as_json` the object has it as a field, and the line goes to stderr. Other checks that are not ok go to stderr,
    unless `quiet`, or if no personal key `asked`; what stops the run is its error.
    """
    from pipeline.report.terminal.preflight_view import key_line, preflight_line, show_key

    said = {"capture_key_project", *(check.name for check in found.stops[:1])}
    open_ = [check for check in found.checks if check.level != "ok" and check.name not in said]
    lines = [preflight_line(check) for check in open_ if asked]
    if found.stops and found.stops[0].name == "capture_key_project":
        pass  # the error says it
    elif as_json:
        lines.insert(0, key_line(found))
    else:
        with common.output():
            show_key(common.console(), found)
    if lines and not quiet:
        click.echo("\n".join(lines), err=True)


@click.command(cls=GroupedHelp, groups=APPLY, epilog=example("BACKCAST_PROJECT_KEY=… backcast apply plan/ --to eu"))
@common.directory
@common.target
@takes(ApplyOptions)
@takes(PauseOptions, "checks", without=("timeout", "ca_file", "continuity", "cut_over"))
@click.option("--yes", is_flag=True, help="Do not ask.")
@takes(KeyOptions, "keys")
@common.printing_for_long
def apply(
    directory: str, to: str, options: ApplyOptions, checks: PauseOptions, yes: bool,
    keys: KeyOptions, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Send exactly the plan; run again to resume.

    The key comes from BACKCAST_PROJECT_KEY or a file, never from the command line. --to file:DIR or s3://BUCKET/PREFIX
    writes files for the service's own importer instead: no key is needed, and the service gets nothing.

    Exit 5: the service refused events, or refused us. Exit 6: not finished (also after --canary or --phases, or while a
    hog function is off): run again. Exit 7: the canary differs. Exit 130: interrupted: run again.
    """
    from pipeline import steps
    from pipeline.delivery.phases import choose_phases
    from pipeline.delivery.send import Hooks
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.preflight.written_files import check_files
    from pipeline.report.rejects import refusal, refusal_causes
    from pipeline.report.terminal.preflight_view import preflight_line
    from pipeline.report.terminal.steps import show_results
    from pipeline.targets import address_of, files_of, is_loopback

    address = address_of(to)
    choose_phases(options.phases)  # a mistyped name is reported before the plan is read
    plan, folder = open_plan(directory)
    asks = not (yes or is_loopback(address))
    mute = is_loopback(address) or (quiet and not asks)

    @contextmanager
    def sending(most: int) -> Iterator[Hooks]:
        with Sending(most, quiet=quiet) as progress, interruptible() as interrupted:
            yield Hooks(progress, common.warn, interrupted, progress.step)

    @contextmanager
    def reading() -> Iterator[Step]:
        with Line("Verifying:", quiet=quiet) as progress:
            yield progress.step

    def confirm(events: Mapping[str, int], project: str) -> None:
        if asks:
            _confirm(events, address + (f", project {project}" if project else ""), plan.sentence)

    done = steps.apply(
        plan, folder, to, steps.KeySource(files=keys), options, checks=checks,
        reading=VerifyOptions(settle=checks.settle, api=checks.api, project=checks.project),
        hooks=steps.ApplyHooks(
            common.warn, partial(_show_target, as_json=as_json, quiet=mute), confirm, sending, reading
        ),
    )  # fmt: skip
    outcome, causes = done.outcome, partial(refusal_causes, plan, folder)
    common.show(
        done.result,
        lambda console: show_results(
            console, plan, done.status, directory, applied=done.result, project=checks.project, refusals=causes()
        ),
        as_json=as_json,
        quiet=quiet and outcome.problem is None and outcome.balanced and not outcome.counts.refused,
    )
    done.ended()
    if outcome.balanced and files_of(to) is not None and not (quiet or options.dry_run):
        for check in check_files(plan).checks:
            if check.level != "ok":
                click.echo(preflight_line(check), err=True)
    if done.canary is not None and done.canary.verification.differs:
        return 7
    ended = done.canary is not None or outcome.balanced
    if outcome.counts.refused and ended and not done.left_off and not options.dry_run:
        raise refusal(folder)
    return 0 if outcome.balanced and not done.left_off else 6


def _confirm(phases: Mapping[str, int], address: str, sentence: str) -> None:
    """Ask for the number of events that this run sends. Raises UsageError if the answer is another."""
    events = sum(phases.values())
    click.echo(sentence, err=True)
    click.echo(f"Phases: {', '.join(f'{name} {count:,}' for name, count in phases.items() if count)}.", err=True)
    click.echo(f"To: {address}. Imported events cannot be deleted.", err=True)
    common.ask_number(events, "send them")


def _write(level: str, message: str) -> None:
    """One message straight to the descriptor of stderr."""
    begin = {"error": "Error: ", "hint": "Try: ", "info": "\n"}[level]
    os.write(2, (common.object_of(level, message) if common.is_json() else f"{begin}{message}\n").encode())


_SHOW_CURSOR = b"\x1b[?25h\n"


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """The first Ctrl-C asks the run to finish; the second ends it at once, safely: the ledger was written ahead."""
    interrupted = threading.Event()

    def interrupt(number: int, frame: object) -> None:
        # Straight to the descriptor: the interrupted code may be in the middle of writing to the stream.
        if interrupted.is_set():
            # No exception: it would surface anywhere, and unwinding would wait for requests in flight.
            with suppress(OSError):
                os.write(2, _SHOW_CURSOR * os.isatty(2))
                _write("error", "interrupted; nothing is lost")
                _write("hint", "run the same command again")
            os._exit(130)
        interrupted.set()
        with suppress(OSError):  # `| tee` ends with the same Ctrl-C
            _write("info", "Finishing what is in flight; press Ctrl-C again to stop at once.")

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command(epilog=example("BACKCAST_PROJECT_KEY=… backcast run nightly.yaml"))
@click.argument("job", metavar="JOB.yaml", type=click.Path(path_type=Path))
@click.option("--history", is_flag=True, help="Show the windows so far, and run nothing.")
@takes(RunOptions)
@takes(KeyOptions, "keys")
@common.printing_for_long
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
    from pipeline.report.records import paused_in
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


@click.command("resume-functions", epilog=example("BACKCAST_PERSONAL_KEY=… backcast resume-functions plan/ --to eu"))
@common.directory
@common.target
@takes(PreflightOptions, without=("allow_firing", "max_already_there", "allow_already_there", "continuity", "cut_over"))
@takes(KeyOptions, "keys")
@common.printing_for_long
def resume_functions(
    directory: str, to: str, options: PreflightOptions, keys: KeyOptions, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Turn on the hog functions that `apply --pause-functions` left off because a run was killed.

    DIR is the plan's directory, or the state directory of a job with `functions: pause`. A function that was changed
    meanwhile is left as it is, and named. Exit 5 if the service refuses, 6 if it did not answer; run it again.
    """
    from pipeline import config
    from pipeline.jobs import state_file
    from pipeline.plan.sealed.directory import Directory
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.preflight.pausing import resume_functions as resume
    from pipeline.preflight.run import PreflightRequest
    from pipeline.report.machine import update_report

    job = state_file(Path(directory)).exists()
    plan, folder = (None, Directory(Path(directory))) if job else open_plan(directory, discarded=True)
    key, personal = config.given_project_key(keys.project_key_file), config.personal_key(keys.personal_key_file)
    resumed = resume(PreflightRequest(to, key, personal, options), folder)
    if plan is not None:
        update_report(folder, plan, common.warn)
    for line in resumed.warnings():
        common.warn(line)
    names = {kind: [str(one) for one in getattr(resumed, kind)] for kind in ("on", "changed", "off")}
    words = f"Turned on: {', '.join(names['on'])}." if resumed.on else "No hog function was turned on."
    common.show_words({"format": "backcast.resume-functions/1", **names}, words, as_json=as_json, quiet=quiet)
    if resumed.problem is not None:
        raise resumed.problem
    return 0


@click.command(epilog=example("BACKCAST_PERSONAL_KEY=… backcast verify plan/ --to eu --project 12345"))
@common.directory
@common.target
@takes(VerifyOptions)
@click.option("--yes", is_flag=True, help="Do not ask before --repair sends.")
@takes(KeyOptions, "keys")
@common.printing_for_long
def verify(
    directory: str, to: str, options: VerifyOptions, yes: bool, keys: KeyOptions, as_json: bool, quiet: bool
) -> int:
    """Compare what landed with the ledger: events, their values, and people.

    Every event is compared by (uuid, event, distinct_id, timestamp), and of some or all every property; each difference
    is named with its row, all of them in DIR/differences.jsonl. Exit 7 when anything differs. Interrupted (exit 130),
    the next run continues. --repair needs the capture key too; altered and extra events are never sent over. Files
    (--to file:DIR or s3://…) are compared by their digests, and by what an import into the local service makes of them.
    With --metrics, exit 7 also when the numbers of the plan and the target differ; all are in DIR/metrics.jsonl. With
    --source, also when the source has what no plan explains; all events are in DIR/source-differences.jsonl.
    """
    from pipeline import steps
    from pipeline.delivery.send import Hooks
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.report.rejects import refusal
    from pipeline.report.terminal.steps import show_results
    from pipeline.targets import address_of, is_loopback

    plan, folder = open_plan(directory)
    address = address_of(to)
    with Line("Verifying:", quiet=quiet) as progress:
        asks = not (yes or is_loopback(address))
        confirm = partial(_confirm_repair, progress, address) if asks else lambda events: None
        hooks = Hooks(warn=common.warn, step=progress.step)
        done = steps.verify(plan, folder, to, steps.KeySource(files=keys), options, confirm=confirm, hooks=hooks)
    for fault in done.faults:
        common.warn(fault)
    result = done.result
    common.show(
        result,
        lambda console: show_results(console, plan, done.status, directory, verified=result, project=options.project),
        as_json=as_json,
        quiet=quiet and not (result.differs or result.more_differs),
    )
    if done.problem is not None:
        raise done.problem
    if result.differs or result.more_differs:
        return 7
    if done.outcome is not None and done.outcome.counts.refused:
        raise refusal(folder)
    return 0


def _confirm_repair(progress: Line, address: str, events: int) -> None:
    """Ask for the number of events that are sent again. Raises UsageError if the answer is another."""
    progress.pause()
    click.echo(f"To: {address}. {events:,} missing events would be sent again, with the same uuids.", err=True)
    common.ask_number(events, "send them again")
