"""`backcast projects`: the projects that a personal key reaches."""

from __future__ import annotations

import click

from pipeline.cli import management
from pipeline.cli.management import Reach, reaching


@click.group(context_settings=management.NAMES)
def projects() -> None:
    """Projects that the personal key reaches."""


@projects.command("list", epilog="Example: backcast projects list --to eu")
@reaching(project=False)
@management.limit
@management.offset
@management.every
def list_(reach: Reach, limit: int | None, offset: int | None, every: bool) -> None:
    """The projects with their ids, which --project takes."""
    from pipeline.report import resources

    with reach.client(project=False) as client:
        reach.show_list(client.projects.list(limit=limit, offset=offset), every, resources.show_projects)
