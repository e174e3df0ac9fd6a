"""`backcast plan`: read everything, send nothing, seal what would be sent."""

from __future__ import annotations

import click

from pipeline.cli import common, log
from pipeline.cli.flags import takes
from pipeline.cli.progress import Reading
from pipeline.errors import UsageError
from pipeline.options import EstimateOptions, PlanOptions
from pipeline.text import printable


@click.command(epilog="Example: backcast plan exports/ -m mixpanel --timezone America/New_York --for eu -o plan/")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--output", "-o", "directory", metavar="DIR", type=common.PlanDirectory(),
    help="Where the plan is written.  [default: none; required without --estimate]",
)  # fmt: skip
@takes(PlanOptions)
@takes(EstimateOptions, "estimating")
@common.as_json
@log.option
@common.quiet
def plan(
    sources: tuple[str, ...], directory: str | None, options: PlanOptions, estimating: EstimateOptions,
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Read everything, send nothing, write the sealed plan and its report.

    SOURCE: files, folders, globs, archives, s3:// gs:// az:// URLs, or - for stdin. Exit 4 when the plan is not ready.
    With --estimate, only a sample is read, for at most half a minute or so, to say how long the import will take.
    """
    if estimating.estimate:
        return _estimate(sources, options, estimating.rate, as_json=as_json, quiet=quiet)
    if estimating.rate is not None:
        raise UsageError("--rate belongs to --estimate, and to apply", hint="leave it out, or add --estimate")
    if directory is None:
        raise UsageError("no option names where the plan is written", hint="name a new directory: -o DIR")
    from pipeline import api
    from pipeline.plan.in_bucket import directory_at
    from pipeline.report import machine
    from pipeline.report.state import read_status
    from pipeline.report.terminal import steps

    notices: list[str] = []
    with Reading(quiet=quiet) as progress:
        plan = api.plan_export(
            sources, directory, options, progress=progress, notice=notices.append, step=progress.step
        )
    for notice in () if quiet else notices:
        click.echo(printable(notice, 300), err=True)
    written = directory_at(directory)
    common.show(
        machine.plan_object(plan, directory),
        lambda console: steps.show_plan(console, plan, read_status(plan, written), directory),
        as_json=as_json,
        quiet=quiet and plan.ready,
    )
    return 0 if plan.ready else 4


def _estimate(sources: tuple[str, ...], options: PlanOptions, rate: float | None, *, as_json: bool, quiet: bool) -> int:
    """What a plan and its sending would take, from a sample."""
    from pipeline.plan.estimate import estimate_plan
    from pipeline.report.terminal.estimate_view import show_estimate

    with Reading(quiet=quiet) as progress:
        found = estimate_plan(sources, options, rate=rate, progress=progress)
    common.show(found, lambda console: show_estimate(console, found), as_json=as_json)
    return 0
