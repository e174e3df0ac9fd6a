"""What every command shares: the arguments that say how it is called, and how it prints."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli import completing
from pipeline.cli.streams import let_go_of

if TYPE_CHECKING:
    from rich.console import Console

directory = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
as_json = click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout, for a program.")
quiet = click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
target = click.option(
    "--to", required=True, metavar="us|eu|URL", help="The target service.", shell_complete=completing.targets
)


def is_terminal() -> bool:
    """Whether a person watches stderr."""
    return sys.stderr.isatty()


def warn(line: str) -> None:
    """One warning, on stderr."""
    click.echo(f"Warning: {line}", err=True)


@contextlib.contextmanager
def output() -> Iterator[None]:
    """What is printed inside may find its reader gone (`| head`); the command's exit code stays what it is."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        let_go_of(sys.stdout)


def console() -> Console:
    """Where people read: stdout, as wide as their terminal; elsewhere as wide as COLUMNS says, or 110 columns."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    columns = os.environ.get("COLUMNS", "")
    told = int(columns) if columns.isdecimal() and int(columns) else 110
    return Terminal(width=None if sys.stdout.isatty() else told, highlight=False)


def emit(value: object) -> None:
    """One JSON object on stdout."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())
