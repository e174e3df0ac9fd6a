"""`backcast preflight`: is the target ready?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipeline.cli import common, log
from pipeline.cli.flags import takes
from pipeline.errors import UnsafePlan
from pipeline.options import KeyOptions, PreflightOptions

if TYPE_CHECKING:
    from pipeline.plan.sealed.directory import Directory
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.preflight.run import Preflight, PreflightRequest


@click.command(epilog="Example: BACKCAST_PERSONAL_KEY=… BACKCAST_PROJECT_KEY=… backcast preflight plan/ --to eu")
@click.argument("directory", metavar="[DIR]", required=False, type=common.PlanDirectory())
@common.target
@takes(PreflightOptions)
@takes(KeyOptions, "keys")
@log.option
@common.as_json
def preflight(
    directory: str | None, to: str, options: PreflightOptions, keys: KeyOptions, as_json: bool,
) -> int:  # fmt: skip
    """Check whether a target is ready for an import. Nothing is sent, and nothing is changed there.

    With the directory of a plan, its events are checked against the project: its settings, and the hog functions that
    would fire. What cannot be checked is reported as unknown. Exit 4 when something would do harm.
    """
    from pipeline import config
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.preflight.run import PreflightRequest, check_target
    from pipeline.preflight.written_files import check_files
    from pipeline.report.contents import Results, project_of
    from pipeline.report.machine import update_report
    from pipeline.report.next_step import step_after
    from pipeline.report.state import read_status
    from pipeline.report.terminal import preflight_view
    from pipeline.targets import files_of

    key = config.given_project_key(keys.project_key_file)
    personal = config.personal_key(keys.personal_key_file)
    plan, folder = open_plan(directory) if directory is not None else (None, None)
    if files_of(to) is not None:
        result = check_files(plan)
    else:
        result = check_target(PreflightRequest(to, key, personal, options), plan, folder)
    if plan is not None and folder is not None and personal and files_of(to) is None:
        _record(plan, folder, to, options, result)
        update_report(folder, plan, common.warn, Results(project=project_of(result.project, to)))
    following = None
    if plan is not None and folder is not None and directory is not None:
        following = step_after(plan, read_status(plan, folder), directory, to=to, project=options.project)
    common.show(
        preflight_view.preflight_object(result),
        lambda console: preflight_view.show_preflight(console, result, following),
        as_json=as_json,
    )
    return 4 if result.stops else 0


def _record(plan: Plan, directory: Directory, to: str, options: PreflightOptions, result: Preflight) -> None:
    """Write what the target answered beside the plan. A directory that cannot be written is a warning."""
    from pipeline.report.preflight_record import write_preflight
    from pipeline.targets import address_of

    try:
        write_preflight(directory, plan.digest, address_of(to), options.max_already_there, result)
    except OSError as error:
        common.warn(f"the result could not be written to {directory.preflight}: {error.strerror}")


def before_sending(
    request: PreflightRequest, plan: Plan, directory: Directory, *, as_json: bool, quiet: bool
) -> Preflight:
    """Check the target before `apply` sends.

    The first line on stdout names the project of the capture key, or why it is unknown, also when `quiet`; with
    `as_json` the object has it as a field, and the line goes to stderr. Other checks that are not ok go to stderr,
    unless `quiet`. Raises UnsafePlan for what would do harm.
    """
    from pipeline.preflight.run import check_target
    from pipeline.report.preflight_record import read_preflight
    from pipeline.report.terminal.preflight_view import key_line, preflight_line, show_key

    if request.personal_key:
        result = check_target(request, plan, directory, read_preflight(directory))
        if not result.reused:
            _record(plan, directory, request.to, request.options, result)
        # The capture key has a line of its own, and what stops the run is its error.
        told = {"capture_key_project", *(check.name for check in result.stops[:1])}
        lines = [preflight_line(check) for check in result.checks if check.level != "ok" and check.name not in told]
    else:
        result, lines = check_target(request, None, None), []
    if result.stops and result.stops[0].name == "capture_key_project":
        pass  # the error says it
    elif as_json:
        lines.insert(0, key_line(result))
    else:
        with common.output():
            show_key(common.console(), result)
    if lines and not quiet:
        click.echo("\n".join(lines), err=True)
    if result.stops:
        first, *others = result.stops
        more = f", and {len(others)} more, which `backcast preflight` lists" if others else ""
        raise UnsafePlan(f"the target is not ready: {first.detail}{more}; nothing was sent", hint=first.hint)
    return result
