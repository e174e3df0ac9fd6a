"""`backcast plan`: read everything, send nothing, seal what would be sent."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.progress import Reading
from pipeline.options import PlanOptions
from pipeline.text import printable


@click.command(epilog="Example: backcast plan exports/ -m mixpanel --timezone America/New_York --for eu -o plan/")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--output", "-o", "directory", required=True, metavar="DIR", type=click.Path(path_type=Path),
    help="Where the plan is written.",
)  # fmt: skip
@takes(PlanOptions)
@common.as_json
@common.quiet
def plan(sources: tuple[str, ...], directory: Path, options: PlanOptions, as_json: bool, quiet: bool) -> int:
    """Read everything, send nothing, write the sealed plan and its report.

    SOURCE: files, folders, globs, archives, or - for stdin. Exit 4 when the plan is not ready.
    """
    from pipeline import api
    from pipeline.plan.directory import Directory
    from pipeline.report import machine, terminal
    from pipeline.report.state import read_status

    notices: list[str] = []
    with Reading(quiet=quiet) as progress:
        plan = api.plan_export(sources, directory, options, progress=progress, notice=notices.append)
    for notice in () if quiet else notices:
        click.echo(printable(notice, 300), err=True)
    common.show(
        machine.plan_object(plan, directory),
        lambda console: terminal.show_plan(console, plan, read_status(plan, Directory(directory)), str(directory)),
        as_json=as_json,
        quiet=quiet and plan.ready,
    )
    return 0 if plan.ready else 4
