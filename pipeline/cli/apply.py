"""`backcast apply`: send exactly the plan."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from pipeline.cli import completing, options
from pipeline.cli.options import console
from pipeline.cli.preflight import before_sending
from pipeline.cli.progress import Sending
from pipeline.errors import UsageError
from pipeline.text import printable

MOST_SAID = 1_000
"""Characters of a warning that are shown."""


@click.command(epilog="Example: BACKCAST_PROJECT_KEY=… backcast apply plan/ --to eu")
@options.directory
@options.target
@click.option("--dry-run", is_flag=True, help="Make and pack every request that is left, and send none.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.project_key_file
@options.personal_key_file
@options.api
@options.project
@options.allow_firing
@click.option(
    "--phases",
    metavar="LIST",
    shell_complete=completing.phases,
    help="Send only these, as identities,groups; always in the order of the plan."
    "  [default: identities,groups,events,persons]",
)
@click.option(
    "--approve-merges",
    type=click.IntRange(0),
    metavar="N",
    help="The number of merges in the plan, which cannot be undone; a target on this machine needs none.",
)
@click.option(
    "--rotated-key",
    is_flag=True,
    help="The key of the same project was changed since the plan was first applied.",
)
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="Events a second at most.  [default: no limit]"
)
@click.option(
    "--max-concurrency",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    metavar="N",
    help="Requests in flight at most; fewer while the service is slow or says no.",
)
@click.option("--max-retries", type=click.IntRange(0), metavar="N", help="Tries after the first, for each batch.")
@click.option(
    "--retry-for", default="1h", show_default=True, metavar="TIME", help="Stop when nothing settled for so long."
)
@click.option("--timeout", type=click.FloatRange(0.1), default=60.0, show_default=True, metavar="SECONDS")
@click.option(
    "--max-refused",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    metavar="N",
    help="Events the service may refuse before the run stops.",
)
@click.option("--max-duration", metavar="TIME", help="Stop in order after so long, as 30m or 6h; run again to resume.")
@options.ca_file
@click.option(
    "--allow-redirect-host",
    "redirect_hosts",
    multiple=True,
    metavar="HOST",
    help="A host the key may be redirected to.",
)
@options.source_root
@options.workers
@options.as_json
@options.quiet
def apply(
    directory: Path, to: str, dry_run: bool, yes: bool, project_key_file: str | None, personal_key_file: str | None,
    api: str | None, project: str | None, allow_firing: bool, phases: str | None, approve_merges: int | None,
    rotated_key: bool, rate: float | None, max_concurrency: int, max_retries: int | None, retry_for: str,
    timeout: float, max_refused: int, max_duration: str | None, ca_file: str | None, redirect_hosts: tuple[str, ...],
    source_root: Path | None, workers: int | None, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Send exactly the plan; run again to resume.

    The key comes from BACKCAST_PROJECT_KEY or a file, never from the command line. Exit 5: the service refused events
    or refused us. Exit 6: not finished, or a phase is held; run again. Exit 130: interrupted, run again.
    """
    import msgspec

    from pipeline.plan.prestart import start_apply_workers

    names = None if phases is None else [one.strip() for one in phases.split(",")]
    # First of all: they start while this process loads the rest.
    ready = click.get_current_context().with_resource(start_apply_workers(directory, names, workers))
    from pipeline import api as workflow
    from pipeline import config
    from pipeline.delivery.apply import SendLimits
    from pipeline.delivery.retry import RetryPolicy
    from pipeline.plan.phases import PHASES
    from pipeline.report import machine, terminal
    from pipeline.report.preflight_view import key_standing
    from pipeline.report.results import apply_result
    from pipeline.targets import address_of, is_loopback

    address = address_of(to)
    send_limits = SendLimits(
        max_concurrency,
        RetryPolicy(seconds=seconds(retry_for), tries=max_retries),
        max_refused,
        rate,
        None if max_duration is None else seconds(max_duration),
    )
    chosen = PHASES if names is None else workflow.choose_phases(names)
    plan, place = workflow.load_plan(directory)
    key = workflow.capture_key(to, project_key_file, dry_run=dry_run, warn=options.warn)
    request = workflow.ApplyRequest(
        to, key, dry_run, source_root, send_limits, workers, timeout, ca_file, redirect_hosts, rotated_key, chosen,
        approve_merges,
    )  # fmt: skip
    workflow.check_request(plan, place, request)
    events = {phase: plan.events.phases.get(phase, 0) for phase in chosen}
    found = None
    if sum(events.values()) and not dry_run:
        asked = workflow.PreflightRequest(
            to, key, config.personal_key(personal_key_file), api, project, ca_file, redirect_hosts, reach=False,
            allow_firing=allow_firing,
        )  # fmt: skip
        at_home = is_loopback(address)
        asks = not (yes or at_home)
        found = before_sending(asked, plan, place, as_json=as_json, quiet=at_home or (quiet and not asks))
        if asks:
            _confirm(events, f"{address}, project {found.project}" if found.project else address, plan.sentence)
    with Sending(plan.events.made, quiet=quiet) as progress, interruptible() as interrupted:
        outcome = workflow.apply_plan(
            plan, place, request, interrupted=interrupted, progress=progress,
            warn=options.warn, workers=ready,
        )  # fmt: skip
    if found is None:
        result = apply_result(outcome, to=address)
    else:
        result = apply_result(outcome, key_standing(found), to=address)
    status = workflow.status(plan, place)
    with options.output():
        if as_json:
            options.emit(msgspec.structs.replace(result, state=status.state))
        else:
            terminal.show_apply(console(), result)
            terminal.show_state(console(), status.state, status.totals.refused)
    if not dry_run:
        problem = machine.add_applied(place, plan)
        if problem:
            click.echo(f"Warning: {printable(problem, MOST_SAID)}", err=True)
    if outcome.problem is not None:
        raise outcome.problem
    if not outcome.balanced:
        return 6
    if outcome.counts.refused and not dry_run:
        raise workflow.refusal(place)
    return 0


def _confirm(phases: Mapping[str, int], address: str, sentence: str) -> None:
    """Have the number of events typed that the phases of this run hold. Raises UsageError."""
    events = sum(phases.values())
    click.echo(sentence, err=True)
    click.echo(f"Phases: {', '.join(f'{name} {count:,}' for name, count in phases.items() if count)}.", err=True)
    click.echo(f"To: {address}. Imported events cannot be deleted.", err=True)
    try:
        answer = click.prompt(
            f"Type the number of events ({events}) to send them", err=True, default="", show_default=False
        )
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise UsageError(
            "nobody typed the number of events; nothing was sent", hint=f"type {events}, or give --yes"
        ) from None
    if answer.replace(",", "").replace("_", "").strip() != str(events):
        raise UsageError("that is not the number of events; nothing was sent", hint=f"type {events}, or give --yes")


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `1h`, `2d` as seconds. Raises UsageError."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        found = float(number) * unit
    except ValueError:
        raise UsageError(f"not a length of time: {text!r}", hint="write 90s, 15m, 1h or 2d") from None
    if not 0 <= found < float("inf"):
        raise UsageError(f"not a length of time: {text!r}", hint="write 90s, 15m, 1h or 2d")
    return found


_SHOW_CURSOR = b"\x1b[?25h\n"


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """The first Ctrl-C asks for an orderly end; the second one ends at once, safely: the ledger was written ahead."""
    interrupted = threading.Event()

    def ask(number: int, frame: object) -> None:
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

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
