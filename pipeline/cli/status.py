"""`backcast status`: the state of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipeline.cli import common

if TYPE_CHECKING:
    from rich.console import Console


@click.command(epilog="Example: backcast status plan/")
@common.directory
@common.as_json
def status(directory: str, as_json: bool) -> int:
    """The state of a plan, and what is in doubt. Reads the ledger, also during a run."""
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.report.results import status_result
    from pipeline.report.state import read_status

    plan, folder = open_plan(directory)
    found = read_status(plan, folder)
    result = status_result(plan, found)

    def shown(console: Console) -> None:
        from pipeline.report.terminal import steps

        steps.show_status(console, plan, found, result, directory)

    common.show(result, shown, as_json=as_json)
    return 0
