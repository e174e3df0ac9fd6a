"""Options that several commands share, and how their texts become values."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipeline.cli import completing
from pipeline.cli.streams import let_go_of
from pipeline.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

directory = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
as_json = click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout, for a program.")
quiet = click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
workers = click.option(
    "--workers", type=click.IntRange(0, 256), default=None, metavar="N",
    help="Processes that read and encode; 0 works in this one.  [default: one a processor]",
)  # fmt: skip
source_root = click.option(
    "--source-root", type=click.Path(path_type=Path, file_okay=False), default=None, metavar="DIR",
    help="Where the export lies now, if it moved since the plan.",
)  # fmt: skip
target = click.option(
    "--to", required=True, metavar="us|eu|URL", help="The service to speak to.", shell_complete=completing.targets
)
api = click.option(
    "--api", metavar="us|eu|URL", help="Where the management API is.  [default: where --to is]",
    shell_complete=completing.targets,
)  # fmt: skip
project = click.option("--project", metavar="ID", help="The project's id.  [default: the one of the capture key]")
project_key_file = click.option(
    "--project-key-file", metavar="FILE", help="The capture key, instead of BACKCAST_PROJECT_KEY."
)
personal_key_file = click.option(
    "--personal-key-file", metavar="FILE", help="The personal key, instead of BACKCAST_PERSONAL_KEY."
)
ca_file = click.option("--ca-file", metavar="FILE", help="Certificates to trust, as PEM; or set SSL_CERT_FILE.")
allow_firing = click.option(
    "--allow-firing", is_flag=True, help="Go on though hog functions of the project would fire on these events."
)


def instant(text: str | None, name: str) -> int | None:
    """A date or an ISO 8601 time as µs UTC; without an offset it is UTC."""
    if text is None:
        return None
    from pipeline.timestamps import BadTime, read_iso

    whole = f"{text}T00:00:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else text
    try:
        return read_iso(whole, space=True).us
    except BadTime as error:
        raise UsageError(f"{name}: {error}", hint="write 2024-01-31 or 2024-01-31T12:00:00Z") from None


def zones(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """`Europe/Berlin` or `Europe/Berlin@2021-03-01`, in order. Raises UsageError for a name nobody knows."""
    from pipeline.timestamps import ZoneClock

    found = tuple((name, since) for name, _, since in (text.partition("@") for text in texts))
    ZoneClock(found)
    return found


def settings(texts: tuple[str, ...]) -> dict[str, str]:
    """`key=value` pairs; a value of `=text` (two equals signs) keeps its first sign and is a constant."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--set takes key=value, not {text!r}", hint="for example --set event=event_name")
        if key in found:
            raise UsageError(f"--set {key} is given twice", hint="give it once")
        found[key] = value
    return found


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
