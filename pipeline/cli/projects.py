"""`backcast projects`: the projects that a personal key reaches."""

from __future__ import annotations

from typing import Any

import click

from pipeline.cli import management
from pipeline.cli.management import Connection, connected


@click.group(context_settings=management.NAMES, epilog="Example: backcast projects list --to eu")
def projects() -> None:
    """Projects that the personal key reaches."""


@projects.command("list", epilog="Example: backcast projects list --to eu")
@connected(project=False)
@management.limit
@management.offset
@management.every
def list_(connection: Connection, every: bool, **page: Any) -> None:
    """The projects with their ids, which --project takes."""
    with connection.client(project=False) as client:
        connection.show_list(client.projects.list(**page), every, "id", "name")
