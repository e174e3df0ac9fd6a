"""`backcast preflight`: is the target ready?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli import common
from pipeline.cli.common import console
from pipeline.cli.flags import takes
from pipeline.errors import UnsafePlan
from pipeline.options import KeyOptions, PreflightOptions

if TYPE_CHECKING:
    from pipeline.plan.directory import Directory
    from pipeline.plan.manifest import Plan
    from pipeline.preflight.run import Preflight, PreflightRequest


@click.command(epilog="Example: BACKCAST_PERSONAL_KEY=… BACKCAST_PROJECT_KEY=… backcast preflight plan/ --to eu")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@common.target
@takes(PreflightOptions)
@takes(KeyOptions, "keys")
@common.as_json
def preflight(
    directory: Path | None, to: str, options: PreflightOptions, keys: KeyOptions, as_json: bool,
) -> int:  # fmt: skip
    """Check whether a target is ready for an import. Nothing is sent and nothing is changed.

    With the directory of a plan, its events are checked against the project: its settings, and the hog functions that
    would fire. What cannot be found out is reported as unknown. Exit 4 when something would do harm.
    """
    from pipeline import config
    from pipeline.plan.freshness import open_plan
    from pipeline.preflight.run import PreflightRequest, check_target
    from pipeline.report import preflight_view

    key = config.given_project_key(keys.project_key_file)
    personal = config.personal_key(keys.personal_key_file)
    plan, place = open_plan(directory) if directory is not None else (None, None)
    found = check_target(PreflightRequest(to, key, personal, options), plan, place)
    with common.output():
        if as_json:
            common.emit(preflight_view.preflight_object(found))
        else:
            preflight_view.show_preflight(console(), found)
    return 4 if found.stops else 0


def before_sending(request: PreflightRequest, plan: Plan, place: Directory, *, as_json: bool, quiet: bool) -> Preflight:
    """Check the target before `apply` sends: the first line names the project of the capture key, or why it is unknown.

    It is the first line on stdout, whatever the target and also when it is `quiet`; with `as_json` stdout is the
    object's, which has it as a field. Everything else that is not ok goes to stderr, unless it is `quiet`. Raises
    UnsafePlan for what would do harm.
    """
    from pipeline.preflight.run import check_target
    from pipeline.report.preflight_view import key_line, preflight_line

    known = bool(request.personal_key)
    found = check_target(request, plan if known else None, place if known else None)
    lines = [preflight_line(one) for one in found.checks if known and one.level != "ok"]
    if as_json:
        lines.insert(0, key_line(found))
    else:
        with common.output():
            click.echo(key_line(found))
    if lines and not quiet:
        click.echo("\n".join(lines), err=True)
    if found.stops:
        first, *others = found.stops
        more = f", and {len(others)} more, which `backcast preflight` lists" if others else ""
        raise UnsafePlan(f"the target is not ready: {first.detail}{more}; nothing was sent", hint=first.hint)
    return found
