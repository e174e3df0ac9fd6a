"""`backcast start`: the steps from an export to a rehearsed plan, one command after the other.

Each step is printed as the command that it is, and runs that command's code, so that a person learns the commands and
can script them. Answers are kept, so the same command goes on from where it stopped. Nothing is sent.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipeline.cli.help import example
from pipeline.errors import UsageError
from pipeline.option_types import read_settings, words_of
from pipeline.options.planning import FILE_SETTINGS
from pipeline.text import quoted


@click.command(epilog=example("backcast start exports/"))
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help=FILE_SETTINGS)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="DIR",
    help="The folder for answers, mapping, plan and report.  [default: SOURCE-import]",
)  # fmt: skip
def start(sources: tuple[str, ...], settings: tuple[str, ...], output: Path | None) -> int:
    """Go from an export to a rehearsed plan, one command after the other. Nothing is sent.

    Each step is printed as the command that it is: survey, mapping new, plan, rehearse, preflight. What the export does
    not show is asked on the terminal. The answers and what --set said are kept in DIR/start.json, so the same command
    goes on where it stopped; change or remove one there for another. It ends with the `backcast apply` command, which
    sends.
    Exit 4: a check stops the plan, or the target is not ready. Exit 130: interrupted; run again.
    """
    from pipeline import guided
    from pipeline.cli.guided_way import Stopped, Way

    given = read_settings(settings)
    folder = guided.folder_for(sources) if output is None else output
    if "-" in sources:
        raise UsageError("the questions of `backcast start` need stdin, so no export can be read from it",
                         hint="write the export to a file, and name that")  # fmt: skip
    if not sys.stdin.isatty():
        names, plan = " ".join(map(quoted, (*sources, *words_of(given)))), quoted(str(folder / "plan"))
        raise UsageError(
            "`backcast start` asks on a terminal, and stdin is not one",
            hint=f"run its commands: backcast survey {names}; backcast plan {names} -m MAPPING --for us|eu|URL"
            f" -o {plan}; backcast rehearse {plan}; backcast preflight {plan} --to us|eu|URL",
        )
    way = Way(sources, given, folder, "" if output is None else f" -o {quoted(str(output))}")
    try:
        way.go()
    except Stopped as stopped:
        if stopped.words:
            click.echo(stopped.words, err=True)
        return stopped.code
    return 0
