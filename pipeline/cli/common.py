"""What every command shares: common arguments and options, questions, and how it prints."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli import completing
from pipeline.cli.streams import discard_output
from pipeline.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


class PlanDirectory(click.Path):
    """The directory of a plan, as a text: a path of this machine, or the URL of one in a bucket, whose two slashes a
    Path would make one."""

    def __init__(self) -> None:
        super().__init__(path_type=str)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from pipeline.plan.in_bucket import named

        return named(os.fsdecode(super().convert(value, param, ctx)))


directory = click.argument("directory", metavar="DIR", type=PlanDirectory())
as_json = click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout, for a program.")
quiet = click.option(
    "--quiet", "-q", is_flag=True, help="No progress; and no result either where the command succeeds."
)
target = click.option(
    "--to",
    required=True,
    metavar="us|eu|URL|file:DIR|s3://…",
    help="The target service, or a folder for files to import.",
    shell_complete=completing.targets,
)


def warn(line: str) -> None:
    """One warning, on stderr."""
    click.echo(f"Warning: {line}", err=True)


@contextlib.contextmanager
def output() -> Iterator[None]:
    """Inside, a closed stdout (`| head`) is no error: the command's exit code does not change."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output(sys.stdout)


def console() -> Console:
    """stdout, as wide as the terminal; where it is none, COLUMNS wide, or 110 columns."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) else 110
    return Terminal(width=None if sys.stdout.isatty() else width, highlight=False)


def emit(value: object) -> None:
    """One JSON object on stdout."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())


def show(value: object, draw: Callable[[Console], None], *, as_json: bool, quiet: bool = False) -> None:
    """The result of a command: one JSON object, or what `draw` prints for people unless `quiet`."""
    with output():
        if as_json:
            emit(value)
        elif not quiet:
            draw(console())


def ask(prompt: Callable[..., Any], question: str, unanswered: UsageError) -> Any:
    """The answer to a question on stderr, asked by one of click's prompts.

    Raises `unanswered` where stdin ends without an answer and is no terminal.
    """
    try:
        return prompt(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise unanswered from None


def ask_number(events: int, why: str) -> None:
    """Ask for a number of events to be typed before they are sent. Raises UsageError where the answer is another."""
    hint = f"type {events}, or give --yes"
    answer = ask(
        partial(click.prompt, default="", show_default=False),
        f"Type the number of events ({events}) to {why}",
        UsageError("stdin ended before the number of events was typed; nothing was sent", hint=hint),
    )
    if answer.replace(",", "").replace("_", "").strip() != str(events):
        raise UsageError("that is not the number of events; nothing was sent", hint=hint)
