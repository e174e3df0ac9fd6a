"""`backcast status`: where a plan stands."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import options
from pipeline.cli.options import console


@click.command(epilog="Example: backcast status plan/")
@options.directory
@options.as_json
def status(directory: Path, as_json: bool) -> int:
    """Where a plan stands, and what is in doubt. Reads the ledger, also while a run is going."""
    from pipeline import api
    from pipeline.report import terminal
    from pipeline.report.results import status_result

    plan, place = api.load_plan(directory)
    result = status_result(plan, api.status(plan, place))
    if as_json:
        options.emit(result)
    else:
        terminal.show_status(console(), result)
    return 0
