"""`backcast status`: the state of a plan."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import common
from pipeline.cli.common import console


@click.command(epilog="Example: backcast status plan/")
@common.directory
@common.as_json
def status(directory: Path, as_json: bool) -> int:
    """The state of a plan, and what is in doubt. Reads the ledger, also while a run is going."""
    from pipeline import api
    from pipeline.report import terminal
    from pipeline.report.results import status_result

    result = status_result(api.load_plan(directory), api.plan_status(directory))
    if as_json:
        common.emit(result)
    else:
        terminal.show_status(console(), result)
    return 0
