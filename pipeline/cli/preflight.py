"""`backcast preflight`: is the target ready?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli import options
from pipeline.cli.options import console
from pipeline.errors import UnsafePlan

if TYPE_CHECKING:
    from pipeline.plan.directory import Directory
    from pipeline.plan.sealed import Plan
    from pipeline.workflow import PreflightRequest


@click.command(epilog="Example: BACKCAST_PERSONAL_KEY=… BACKCAST_PROJECT_KEY=… backcast preflight plan/ --to eu")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@options.target
@click.option("--api", metavar="us|eu|URL", help="Where the management API is.  [default: where --to is]")
@click.option("--project", metavar="ID", help="The project's id.  [default: the one of the capture key]")
@click.option("--project-key-file", metavar="FILE", help="The capture key, instead of BACKCAST_PROJECT_KEY.")
@click.option("--personal-key-file", metavar="FILE", help="The personal key, instead of BACKCAST_PERSONAL_KEY.")
@click.option("--timeout", type=click.FloatRange(0.1), default=20.0, show_default=True, metavar="SECONDS")
@click.option("--ca-file", metavar="FILE", help="Certificates to trust, as PEM; or set SSL_CERT_FILE.")
@options.as_json
def preflight(
    directory: Path | None, to: str, api: str | None, project: str | None, project_key_file: str | None,
    personal_key_file: str | None, timeout: float, ca_file: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Look whether a target is ready for an import. Nothing is sent and nothing is changed.

    With the directory of a plan, its events are held against the project: its settings, and the hog functions that
    would fire. What cannot be told is said to be so. Exit 4 when something would harm.
    """
    from pipeline import config, workflow
    from pipeline.report import preflight_view

    key = config.given_project_key(project_key_file)
    personal = config.personal_key(personal_key_file)
    request = workflow.PreflightRequest(to, key, personal, api, project, ca_file, timeout=timeout)
    plan, place = workflow.load_plan(directory) if directory is not None else (None, None)
    found = workflow.check_target(request, plan, place)
    with options.output():
        if as_json:
            options.emit(preflight_view.preflight_object(found))
        else:
            preflight_view.show_preflight(console(), found)
    return 4 if found.stops else 0


def before_sending(request: PreflightRequest, plan: Plan, place: Directory, *, quiet: bool) -> str:
    """Look before `apply` sends: its first line says whose the capture key is, or that nobody could prove it.

    Everything else that is not ok follows, all on stderr, unless it is `quiet`. Gives the project's name, "" where it
    could not be told. Raises UnsafePlan for what would harm.
    """
    from pipeline import workflow
    from pipeline.report.preflight_view import key_line, preflight_line

    known = bool(request.personal_key)
    found = workflow.check_target(request, plan if known else None, place if known else None)
    lines = [key_line(found)]
    if known:
        lines += [preflight_line(one) for one in found.checks if one.level != "ok"]
    if not quiet:
        click.echo("\n".join(lines), err=True)
    if found.stops:
        first, *others = found.stops
        more = f", and {len(others)} more, which `backcast preflight` lists" if others else ""
        raise UnsafePlan(f"the target is not ready: {first.detail}{more}; nothing was sent", hint=first.hint)
    return found.project
