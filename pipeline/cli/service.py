"""`backcast service`: the local service."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Literal

import click

from pipeline import out_of_memory
from pipeline.cli import faults
from pipeline.cli.flags import takes
from pipeline.options import FaultOptions


class _WithSettings(faults.WithFaults):
    """A command whose help ends with the settings and the faults."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the settings, then the faults."""
        super().format_options(ctx, formatter)
        from pipeline.local_service.settings import describe_settings

        with formatter.section("Settings, each written --set NAME=VALUE"):
            formatter.write_dl(
                [
                    (setting.name, f"{setting.about}: {setting.values} [{setting.default}]")
                    for setting in describe_settings()
                ]
            )


@click.command(cls=_WithSettings, epilog="Example: backcast service --store landed.duckdb --fault mix:10%")
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
@takes(FaultOptions, "simulated")
def service(
    port: int,
    store: Path | None,
    keys_file: Path | None,
    seed_file: Path | None,
    behaviour: Literal["contract", "observed"],
    changes: tuple[str, ...],
    simulated: FaultOptions,
) -> int:
    """The local service, which stands in for the real one.

    It listens on 127.0.0.1 only, speaks the capture endpoint and the management API and stores what lands in DuckDB;
    / shows what landed, /docs describes the API. Hog functions are stored, never run. Without --keys it creates
    project 1 with a capture key and a personal key, and prints them. With --fault its capture endpoint misbehaves;
    /_faults and the last lines on stderr have the counts.
    """
    out_of_memory.require_for_service()
    from pipeline.errors import UsageError
    from pipeline.local_service.keys import generate_keys, load_keys
    from pipeline.local_service.management.seeds import load_seed
    from pipeline.local_service.server import LocalService
    from pipeline.local_service.settings import parse_settings

    faults.check(simulated.faults)
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
    except (OSError, ValueError) as error:
        raise UsageError(f"the service cannot start: {error}", hint="choose another --port, or fix the file") from None
    # The server raises the signal again after it has ended; a request to stop is no error here.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        click.echo(f"Local service at {running.url}")
        if keys_file is None:
            click.echo(f"BACKCAST_PROJECT_KEY={running.capture_key}")
            click.echo(f"BACKCAST_PERSONAL_KEY={running.personal_key}")
        click.echo("Press Ctrl-C to stop.", err=True)
        running.serve()
    except _Stopped:
        running.close()
    for line in faults.report(running.faults):
        click.echo(line, err=True)
    return 0


class _Stopped(BaseException):
    """A signal asked the service to end."""


def _stop(*_: object) -> None:
    raise _Stopped
