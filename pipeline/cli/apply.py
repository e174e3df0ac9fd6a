"""`backcast apply`: send exactly the plan."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import click

from pipeline.cli import common, log
from pipeline.cli.flags import takes
from pipeline.cli.preflight import before_sending
from pipeline.cli.progress import Canary, Sending, Verifying
from pipeline.options import ApplyOptions, KeyOptions, PauseOptions, VerifyOptions


@click.command(epilog="Example: BACKCAST_PROJECT_KEY=… backcast apply plan/ --to eu")
@common.directory
@common.target
@takes(ApplyOptions)
@takes(PauseOptions, "checks", without=("timeout", "ca_file"))
@click.option("--yes", is_flag=True, help="Do not ask.")
@takes(KeyOptions, "keys")
@common.as_json
@log.option
@common.quiet
def apply(
    directory: str, to: str, options: ApplyOptions, checks: PauseOptions, yes: bool,
    keys: KeyOptions, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Send exactly the plan; run again to resume.

    The key comes from BACKCAST_PROJECT_KEY or a file, never from the command line. --to file:DIR or s3://BUCKET/PREFIX
    writes files for the service's own importer instead, without a key and without asking: the service gets nothing.
    Exit 5: the service refused events or refused us. Exit 6: not finished, a --canary was sent, --phases left a phase
    out, or a hog function is still off; run again. Exit 7: the canary did not land as it was sent. Exit 130:
    interrupted, run again.
    """
    import msgspec

    from pipeline import config
    from pipeline.delivery.phases import choose_phases
    from pipeline.delivery.send import Hooks, capture_key, check_send, send_plan
    from pipeline.delivery.target_lock import target_lock
    from pipeline.ledger import read_totals
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.preflight.pausing import paused, pausing_for
    from pipeline.preflight.run import PreflightRequest
    from pipeline.preflight.written_files import check_files
    from pipeline.report.canary import canary_result
    from pipeline.report.contents import Results, project_of
    from pipeline.report.machine import update_report
    from pipeline.report.rejects import refusal, refusal_causes
    from pipeline.report.results import apply_result, verify_result
    from pipeline.report.state import check_required, read_status
    from pipeline.report.terminal import steps
    from pipeline.report.terminal.preflight_view import key_status, preflight_line
    from pipeline.targets import address_of, files_of, is_loopback
    from pipeline.verify.canary import plan_canary, read_canary
    from pipeline.verify.settle import SETTLE_SECONDS

    address = address_of(to)
    phases = choose_phases(options.phases)  # a mistyped name is reported before the plan is read
    plan, folder = open_plan(directory)
    key = capture_key(to, keys.project_key_file, dry_run=options.dry_run, warn=common.warn)
    check_send(plan, folder, to, key, options)
    check_required(plan, folder, to, options)
    click.get_current_context().with_resource(target_lock(to, key, options, common.warn))
    reads = options.canary is not None and not options.dry_run
    personal = config.required_personal_key if reads else config.personal_key
    reader = personal(keys.personal_key_file)
    reading = VerifyOptions(
        settle=checks.settle, api=checks.api, project=checks.project,
        workers=options.workers,
    )  # fmt: skip
    with Canary(quiet=quiet or options.canary is None) as progress:
        sample = plan_canary(plan, folder, to, options, reading, progress=progress.step, warn=common.warn)
    events = {phase: (plan.events.phases if sample is None else sample.events).get(phase, 0) for phase in phases}
    preflight, off = None, False
    local = is_loopback(address)
    online = not options.dry_run and files_of(to) is None
    totals = read_totals(folder.ledger)
    pauses = checks.pause_functions and totals.settled + totals.refused < plan.events.made
    checks = replace(
        checks, ca_file=options.ca_file, redirect_hosts=options.redirect_hosts,
        reach=False,
    )  # fmt: skip
    request = PreflightRequest(to, key, reader, checks)
    with ExitStack() as stack:
        pausing, functions = None, []
        if online:
            pausing = stack.enter_context(pausing_for(request, folder, plan, common.warn, pauses=pauses))
        if sum(events.values()) and online:
            asks = not (yes or local)
            preflight = before_sending(request, plan, folder, as_json=as_json, quiet=local or (quiet and not asks))
            if pausing is not None:
                functions = pausing.would_fire()
                if notice := pausing.notice(functions):
                    common.warn(notice)
            if asks:
                named = f", project {preflight.project}" if preflight.project else ""
                _confirm(events, address + named, plan.sentence)
        settle = checks.settle if checks.settle is not None else 0.0 if local else SETTLE_SECONDS
        most = plan.events.made if sample is None else totals.settled + totals.refused + sample.size
        with Sending(most, quiet=quiet) as progress, interruptible() as interrupted:
            hooks = Hooks(progress, common.warn, interrupted, progress.step)
            with paused(pausing, functions, settle, progress.step, common.warn):
                if pausing is not None and pausing.recorded:
                    update_report(folder, plan, common.warn)  # a kill from here on leaves a report that names them
                only = None if sample is None else sample.ranges
                outcome = send_plan(plan, folder, to, key, options, hooks, only=only)
        off = pausing is not None and any(not function.changed for function in pausing.recorded)
    result = apply_result(outcome, msgspec.UNSET if preflight is None else key_status(preflight), to=address)
    canary = None
    if sample is not None and reads and outcome.problem is None:
        with Verifying(quiet=quiet) as reading_back:
            found = read_canary(plan, folder, to, reading, reader, progress=reading_back.step)
        canary = canary_result(sample, outcome, verify_result(found, to=address), to)
        result = msgspec.structs.replace(result, canary=canary)
    project = project_of("" if preflight is None else preflight.project, address)
    status = read_status(plan, folder, Results(canary=canary))
    common.show(
        msgspec.structs.replace(result, state=status.state),
        lambda console: steps.show_results(
            console,
            plan,
            status,
            directory,
            applied=result,
            project=checks.project,
            refusals=refusal_causes(plan, folder),
        ),
        as_json=as_json,
        quiet=quiet and outcome.problem is None and outcome.balanced and not outcome.counts.refused,
    )
    if not options.dry_run:
        update_report(folder, plan, common.warn, Results(project=project, canary=canary))
    if outcome.problem is not None:
        raise outcome.problem
    if outcome.balanced and files_of(to) is not None and not (quiet or options.dry_run):
        for check in check_files(plan).checks:
            if check.level != "ok":
                click.echo(preflight_line(check), err=True)
    if canary is not None and canary.verification.differs:
        return 7
    if outcome.counts.refused and (canary is not None or outcome.balanced) and not off and not options.dry_run:
        raise refusal(folder)
    return 0 if outcome.balanced and not off else 6


def _confirm(phases: Mapping[str, int], address: str, sentence: str) -> None:
    """Ask for the number of events that this run sends. Raises UsageError where the answer is another."""
    events = sum(phases.values())
    click.echo(sentence, err=True)
    click.echo(f"Phases: {', '.join(f'{name} {count:,}' for name, count in phases.items() if count)}.", err=True)
    click.echo(f"To: {address}. Imported events cannot be deleted.", err=True)
    common.ask_number(events, "send them")


def _write(level: str, message: str) -> None:
    """One message straight to the descriptor of stderr."""
    begin = {"error": "Error: ", "hint": "Try: ", "info": "\n"}[level]
    os.write(2, (log.object_of(level, message) if log.is_json() else f"{begin}{message}\n").encode())


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
