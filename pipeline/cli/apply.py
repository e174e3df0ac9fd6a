"""`backcast apply`: send exactly the plan."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.preflight import before_sending
from pipeline.cli.progress import Sending
from pipeline.options import ApplyOptions, KeyOptions, PauseOptions


@click.command(epilog="Example: BACKCAST_PROJECT_KEY=… backcast apply plan/ --to eu")
@common.directory
@common.target
@takes(ApplyOptions)
@takes(PauseOptions, "checks", without=("timeout", "ca_file", "source_root"))
@click.option("--yes", is_flag=True, help="Do not ask.")
@takes(KeyOptions, "keys")
@common.as_json
@common.quiet
def apply(
    directory: Path, to: str, options: ApplyOptions, checks: PauseOptions, yes: bool,
    keys: KeyOptions, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Send exactly the plan; run again to resume.

    The key comes from BACKCAST_PROJECT_KEY or a file, never from the command line. Exit 5: the service refused events
    or refused us. Exit 6: not finished, --phases left a phase out, or a hog function is still off; run
    again. Exit 130: interrupted, run again.
    """
    import msgspec

    from pipeline import config
    from pipeline.delivery.phases import choose_phases
    from pipeline.delivery.send import Hooks, capture_key, check_send, send_plan
    from pipeline.ledger import read_totals
    from pipeline.plan.freshness import open_plan
    from pipeline.preflight.pausing import paused, pausing_for
    from pipeline.preflight.run import PreflightRequest
    from pipeline.report import terminal
    from pipeline.report.contents import Results, project_of
    from pipeline.report.machine import update_report
    from pipeline.report.preflight_view import key_status
    from pipeline.report.rejects import refusal, refusal_causes
    from pipeline.report.results import apply_result
    from pipeline.report.state import check_rehearsed, read_status
    from pipeline.targets import address_of, is_loopback
    from pipeline.verify.settle import SETTLE_SECONDS

    address = address_of(to)
    phases = choose_phases(options.phases)  # a mistyped name is reported before the plan is read
    plan, folder = open_plan(directory)
    key = capture_key(to, keys.project_key_file, dry_run=options.dry_run, warn=common.warn)
    check_send(plan, folder, to, key, options)
    if options.require_rehearsal:
        check_rehearsed(plan, folder)
    events = {phase: plan.events.phases.get(phase, 0) for phase in phases}
    preflight, off = None, False
    local = is_loopback(address)
    totals = read_totals(folder.ledger)
    pauses = checks.pause_functions and totals.settled + totals.refused < plan.events.made
    checks = replace(
        checks, ca_file=options.ca_file, redirect_hosts=options.redirect_hosts, source_root=options.source_root,
        reach=False,
    )  # fmt: skip
    request = PreflightRequest(to, key, config.personal_key(keys.personal_key_file), checks)
    with ExitStack() as stack:
        pausing, functions = None, []
        if not options.dry_run:
            pausing = stack.enter_context(pausing_for(request, folder, plan, common.warn, pauses=pauses))
        if sum(events.values()) and not options.dry_run:
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
        with Sending(plan.events.made, quiet=quiet) as progress, interruptible() as interrupted:
            hooks = Hooks(progress, common.warn, interrupted, progress.step)
            with paused(pausing, functions, settle, progress.step, common.warn):
                if pausing is not None and pausing.recorded:
                    update_report(folder, plan, common.warn)  # a kill from here on leaves a report that names them
                outcome = send_plan(plan, folder, to, key, options, hooks)
        off = pausing is not None and any(not function.changed for function in pausing.recorded)
    result = apply_result(outcome, msgspec.UNSET if preflight is None else key_status(preflight), to=address)
    status = read_status(plan, folder)
    common.show(
        msgspec.structs.replace(result, state=status.state),
        lambda console: terminal.show_results(
            console,
            plan,
            status,
            str(directory),
            applied=result,
            project=checks.project,
            refusals=refusal_causes(plan, folder, source_root=common.root(options.source_root)),
        ),
        as_json=as_json,
        quiet=quiet and outcome.problem is None and outcome.balanced and not outcome.counts.refused,
    )
    if not options.dry_run:
        project = project_of("" if preflight is None else preflight.project, address)
        update_report(folder, plan, common.warn, Results(project=project))
    if outcome.problem is not None:
        raise outcome.problem
    if not outcome.balanced or off:
        return 6
    if outcome.counts.refused and not options.dry_run:
        raise refusal(folder)
    return 0


def _confirm(phases: Mapping[str, int], address: str, sentence: str) -> None:
    """Ask for the number of events that this run sends. Raises UsageError where the answer is another."""
    events = sum(phases.values())
    click.echo(sentence, err=True)
    click.echo(f"Phases: {', '.join(f'{name} {count:,}' for name, count in phases.items() if count)}.", err=True)
    click.echo(f"To: {address}. Imported events cannot be deleted.", err=True)
    common.ask_number(events, "send them")


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
                os.write(2, _SHOW_CURSOR * os.isatty(2) + b"Error: interrupted; nothing is lost\n")
                os.write(2, b"Try: run the same command again\n")
            os._exit(130)
        interrupted.set()
        with suppress(OSError):  # `| tee` ends with the same Ctrl-C
            os.write(2, b"\nFinishing what is in flight; press Ctrl-C again to stop at once.\n")

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
