"""The commands that run the local service: demo, rehearse and service. The help of the last two lists every fault."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pipeline import out_of_memory
from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.help import example
from pipeline.cli.progress import Sending
from pipeline.errors import UsageError
from pipeline.options import RehearseOptions
from pipeline.text import pluralize, printable

if TYPE_CHECKING:
    from pipeline.local_service.faults import FaultCounts


@click.command(epilog=example("backcast demo"))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    metavar="DIR",
    help="Where the plans are written; the output of an earlier demo is replaced.",
)
@common.as_json
def demo(output: Path, as_json: bool) -> int:
    """Plan, rehearse and verify the bundled sample data: the whole job, offline, no keys."""
    from pipeline import demo
    from pipeline.native import WHY_NOT

    if WHY_NOT:
        click.echo(f"Note: backcast works without its C part, but more slowly: {printable(WHY_NOT, 300)}", err=True)
    results = list(demo.run(output) if as_json else demo.run(output, click.echo))
    proved = all(step.proved for step in results)
    if as_json:
        common.emit({"format": "backcast.demo/1", "proved": proved, "steps": results})
    else:
        click.echo()
        click.echo("What landed equals what was planned, event by event." if proved else "There are differences.")
        click.echo("Reports:")
        for step in results:
            click.echo(f"  {step.report}")
    return 0 if proved else 7


class _WithFaults(click.Command):
    """A command whose help ends with the list of faults."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        from pipeline.local_service.faults import catalogue

        with formatter.section("Faults, each written NAME[:VALUE][,OPTION=VALUE]"):
            formatter.write_dl(catalogue())


def _show_faults(tallies: Iterable[FaultCounts]) -> None:
    for tally in tallies:
        click.echo(f"Fault {tally.fault}: {tally.acted:,} of {pluralize(tally.reached, 'request')}", err=True)


@click.command(cls=_WithFaults, epilog=example("backcast rehearse plan/ --fault mix:10%"))
@common.directory
@takes(RehearseOptions)
@common.printing_for_long
def rehearse(directory: str, options: RehearseOptions, as_json: bool, quiet: bool) -> int:
    """Apply a plan to the embedded local service and verify it there.

    Nothing leaves this machine. A plan that is not ready can be rehearsed too. What landed stays in
    DIR/rehearsal/store.duckdb, and the result goes into the report. Exit 7 when what landed is not what was planned.
    With --fault the service fails on the way, as real ones do.
    """
    from pipeline import rehearsal
    from pipeline.delivery.send import Hooks
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.report.rejects import refusal, refusal_causes
    from pipeline.report.state import read_status
    from pipeline.report.terminal.steps import show_results

    plan, folder = open_plan(directory)
    with Sending(plan.events.made, quiet=quiet, title="Rehearsing") as progress:
        done = rehearsal.rehearse(plan, folder, options, Hooks(progress, common.warn, step=progress.step))
    _show_faults(done.faults)
    applied, verified = done.results.rehearsal, done.results.rehearsed
    status = read_status(plan, folder, done.results)
    causes = partial(refusal_causes, plan, folder, rehearsed=True)
    common.show(
        {"format": "backcast.rehearse/1", "state": status.state, "apply": applied, "verify": verified},
        lambda console: show_results(
            console, plan, status, directory, applied=applied, verified=verified, refusals=causes()
        ),
        as_json=as_json,
        quiet=quiet and done.verification.proved and done.outcome.balanced and not done.outcome.counts.refused,
    )
    if not done.verification.proved:
        return 7
    if not done.outcome.balanced:
        return 6
    if done.outcome.counts.refused:
        raise refusal(folder, rehearsed=True)
    return 0


class _WithSettings(_WithFaults):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        from pipeline.local_service.settings import describe_settings

        with formatter.section("Settings, each written --set NAME=VALUE"):
            formatter.write_dl(describe_settings())


@click.command(cls=_WithSettings, epilog=example("backcast service --store landed.duckdb --fault mix:10%"))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8100,
    show_default=True,
    help="The port to listen on; 0 takes a free one.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Store what lands in this file.  [default: in memory]",
)
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE",
    help="Projects and keys, as JSON.  [default: one project, and keys that it prints]",
)
@click.option(
    "--seed",
    "seed_file",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE",
    help="Hog functions and session recordings that are there from the start, as JSON.  [default: none]",
)
@click.option(
    "--behaviour",
    type=click.Choice(["contract", "observed"]),
    default="contract",
    show_default=True,
    help="What the management API answers: what its contract states, or what the real service was observed to do.",
)
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Decide an unsettled point. See below.")
@takes(RehearseOptions, "simulated")
@common.as_json
def service(
    port: int,
    store: Path | None,
    keys_file: Path | None,
    seed_file: Path | None,
    behaviour: Literal["contract", "observed"],
    changes: tuple[str, ...],
    simulated: RehearseOptions,
    as_json: bool,
) -> int:
    """The local service, which stands in for the real one.

    It listens on 127.0.0.1 only, speaks the capture endpoint and the management API and stores what lands in DuckDB;
    / shows what landed, /docs describes the API. Hog functions are stored, never run. Without --keys it creates
    project 1 with a capture key and a personal key, and prints them. With --fault its capture endpoint misbehaves;
    /_faults and the last lines on stderr have the counts.
    """
    out_of_memory.require_for_service()
    from pipeline.local_service.keys import generate_keys, load_keys
    from pipeline.local_service.management.seeds import load_seed
    from pipeline.local_service.server import LocalService
    from pipeline.local_service.settings import parse_settings

    try:
        keys = load_keys(keys_file) if keys_file else generate_keys()
        running = LocalService(
            store,
            port=port,
            keys=keys,
            settings=parse_settings(behaviour, changes),
            faults=simulated.faults,
            fault_seed=simulated.fault_seed,
            seed=load_seed(seed_file) if seed_file else None,
        )
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}", hint="give another --port") from None
    # The server raises the signal again after it has ended; a request to stop is not an error here.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        made = keys_file is None
        keys_made = {"BACKCAST_PROJECT_KEY": running.capture_key, "BACKCAST_PERSONAL_KEY": running.personal_key}
        if as_json:
            common.emit({"format": "backcast.service/1", "url": running.url, "keys": keys_made if made else {}})
        else:
            click.echo(f"Local service at {running.url}")
            for name, key in keys_made.items() if made else ():
                click.echo(f"{name}={key}")
        click.echo("Press Ctrl-C to stop.", err=True)
        running.serve()
    except _Stopped:
        running.close()
    _show_faults(running.faults)
    return 0


class _Stopped(BaseException):
    """A signal asked the service to end."""


def _stop(*_: object) -> None:
    raise _Stopped
