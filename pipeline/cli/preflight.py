"""`backcast preflight`: is the target ready?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli import options
from pipeline.cli.options import console
from pipeline.errors import UnsafePlan

if TYPE_CHECKING:
    from pipeline.api import Preflight, PreflightRequest
    from pipeline.plan.directory import Directory
    from pipeline.plan.manifest import Plan


@click.command(epilog="Example: BACKCAST_PERSONAL_KEY=… BACKCAST_PROJECT_KEY=… backcast preflight plan/ --to eu")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@options.target
@options.api
@options.project
@options.project_key_file
@options.personal_key_file
@options.allow_firing
@click.option("--timeout", type=click.FloatRange(0.1), default=20.0, show_default=True, metavar="SECONDS")
@options.ca_file
@options.as_json
def preflight(
    directory: Path | None, to: str, api: str | None, project: str | None, project_key_file: str | None,
    personal_key_file: str | None, allow_firing: bool, timeout: float, ca_file: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Look whether a target is ready for an import. Nothing is sent and nothing is changed.

    With the directory of a plan, its events are held against the project: its settings, and the hog functions that
    would fire. What cannot be told is said to be so. Exit 4 when something would harm.
    """
    from pipeline import api as workflow
    from pipeline import config
    from pipeline.report import preflight_view

    key = config.given_project_key(project_key_file)
    personal = config.personal_key(personal_key_file)
    request = workflow.PreflightRequest(
        to, key, personal, api, project, ca_file, timeout=timeout, allow_firing=allow_firing
    )
    plan, place = workflow.load_plan(directory) if directory is not None else (None, None)
    found = workflow.check_target(request, plan, place)
    with options.output():
        if as_json:
            options.emit(preflight_view.preflight_object(found))
        else:
            preflight_view.show_preflight(console(), found)
    return 4 if found.stops else 0


def before_sending(request: PreflightRequest, plan: Plan, place: Directory, *, as_json: bool, quiet: bool) -> Preflight:
    """Look before `apply` sends: its first line says whose the capture key is, or that nobody could prove it.

    It is the first line on stdout, whatever the target and also when it is `quiet`; with `as_json` stdout is the
    object's, which has it as a field. Everything else that is not ok goes to stderr, unless it is `quiet`. Raises
    UnsafePlan for what would harm.
    """
    from pipeline import api as workflow
    from pipeline.report.preflight_view import key_line, preflight_line

    known = bool(request.personal_key)
    found = workflow.check_target(request, plan if known else None, place if known else None)
    lines = [preflight_line(one) for one in found.checks if known and one.level != "ok"]
    if as_json:
        lines.insert(0, key_line(found))
    else:
        with options.output():
            click.echo(key_line(found))
    if lines and not quiet:
        click.echo("\n".join(lines), err=True)
    if found.stops:
        first, *others = found.stops
        more = f", and {len(others)} more, which `backcast preflight` lists" if others else ""
        raise UnsafePlan(f"the target is not ready: {first.detail}{more}; nothing was sent", hint=first.hint)
    return found
