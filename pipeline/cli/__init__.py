"""The command line: parse → call → render → exit code.

A command is imported only when it is called: `backcast --help` loads no heavy library.
Every error is two lines, `Error: …` and `Try: …`, with a line between for each detail; a traceback is a bug.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from importlib import import_module
from itertools import pairwise
from typing import Any

import click

from pipeline import ctrl_c, out_of_memory
from pipeline.cli.common import MayClose, discard_output, output
from pipeline.cli.help import example
from pipeline.errors import BackcastError, UnreadableExport
from pipeline.files import private
from pipeline.storage import StoreError, is_remote
from pipeline.text import printable

MAX_MESSAGE = 4_000
"""Characters of an error that are shown."""
COLLECT_EVERY = 200_000
"""Objects after which Python looks for cycles. Its default, 700, takes an eighth of the time that a command loads."""

COMMANDS = {
    "demo": ("local:demo", "The whole job on the bundled sample data: offline, no keys."),
    "start": ("start:start", "The guided way from an export to a rehearsed plan: asks what is missing, sends nothing."),
    "fetch": ("exports:fetch", "Download a window of a tool's events into a folder first."),
    "survey": ("exports:survey", "Describe an export before mapping it."),
    "mapping": ("mapping:mapping", "The mapping files: list, show, check, test, new."),
    "plan": ("exports:plan", "Read everything, send nothing, write the sealed plan and its report."),
    "rehearse": ("local:rehearse", "Apply a plan to the embedded local service and verify it there."),
    "preflight": ("target:preflight", "Whether the target is ready: project, settings, functions that would fire."),
    "apply": ("target:apply", "Send exactly the plan; run again to resume."),
    "verify": ("target:verify", "Compare what landed with the ledger; send again what is missing."),
    "discard": ("plans:discard", "Remove the events of a plan that is sent and verified; keep its record."),
    "run": ("target:run", "A scheduled backfill: plan, check and send every window that is due."),
    "status": ("plans:status", "The state of a plan, and what is in doubt."),
    "rejects": ("plans:rejects", "Rejected rows and refused events, with location, code and text."),
    "explain": ("plans:explain", "What became of a row, an event or a person, and why."),
    "diff": ("plans:diff", "What a changed mapping or export changes: two plans compared."),
    "undo-list": ("plans:undo_list", "What was sent, as lists and queries, for a service that must take it back."),
    "receipt": ("plans:receipt", "A receipt of what was read, planned, sent and found: write it, check it."),
    "service": ("local:service", "The local service, which stands in for the real one."),
    "resume-functions": ("target:resume_functions", "Turn on hog functions that `apply` left off."),
    "definitions": (
        "definitions:definitions",
        "Descriptions, tags and types of events and properties: plan, apply, undo.",
    ),
    "hog-functions": ("resources:hog_functions", "Hog functions of a project, one command an operation."),
    "recordings": ("resources:recordings", "Session recordings of a project, one command an operation."),
    "projects": ("resources:projects", "Projects that the personal key reaches."),
}
"""name: (module:function, its line in `--help`)"""
SECTIONS = {
    "demo": "A migration, step by step",
    "run": "Every night",
    "status": "Look into a plan",
    "service": "The service, its management API, and its stand-in on this machine",
}
"""The first command of each section of `--help`, and its heading."""
_WITH_WORKERS = frozenset(("plan", "rehearse", "apply", "verify", "diff", "run"))


class Commands(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(f"pipeline.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        firsts = [*SECTIONS, ""]
        names = list(COMMANDS)
        for first, after in pairwise(firsts):
            end = names.index(after) if after else None
            with formatter.section(SECTIONS[first]):
                formatter.write_dl([(name.ljust(17), COMMANDS[name][1]) for name in names[names.index(first) : end]])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _closed_output():  # --help and --version print here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _closed_output():
            return super().invoke(ctx)


class _OutputClosed(Exception):
    """stdout was closed (`| head`), which is not an error; click would turn a BrokenPipeError into exit code 1."""


@contextmanager
def _closed_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise _OutputClosed from None


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        from pipeline.native import WHY_NOT

        without = f"out its C part: {printable(WHY_NOT, 300)}" if WHY_NOT else " its C part"
        click.echo(f"backcast {version('backcast')}, with{without}")
        ctx.exit()


@click.group(
    cls=Commands,
    epilog=example("backcast plan exports/ -m mixpanel --timezone America/New_York -o plan/"),
    commands={name: click.Command(name) for name in COMMANDS},  # the names that click suggests for an unknown one
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def cli() -> None:
    """Move product-analytics history into PostHog, or any service that speaks its capture API: once and correctly.

    \b
    Start here:   backcast demo
    Guided:       backcast start EXPORT
    By yourself:  backcast survey EXPORT
                  backcast plan EXPORT -m mixpanel -o plan/
                  backcast rehearse plan/
                  backcast apply plan/ --to eu
    """


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code."""
    gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])
    # numpy would start a thread for each processor, for linear algebra that is not used here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    out_of_memory.spare_address_space()
    code = run(arguments)
    if "duckdb" not in sys.modules:  # it reports what it finds frozen as leaked
        gc.freeze()  # else Python looks for cycles in all that was loaded before it ends
    if code == 130 or out_of_memory.was_met():
        # At once: Python would wait for requests in flight, and libraries that could not be loaded whole would crash as
        # they are unloaded. The ledger was written ahead, so nothing is lost.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


@private()
def run(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code, also if stderr is closed meanwhile."""
    with redirect_stderr(MayClose(sys.stderr)):
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        # Interrupts also end a command while the local service runs in this process.
        with (
            ctrl_c.as_keyboard_interrupt(),
            out_of_memory.told(workers=bool(_WITH_WORKERS.intersection(arguments[:1]))),
        ):
            result = cli.main(args=list(arguments), prog_name="backcast", standalone_mode=False, obj=arguments)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        with output():
            click.echo(error.format_message())
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "backcast"
        return _print_error(error.format_message(), f"{command} --help", 2)
    except click.ClickException as error:
        return _print_error(error.format_message(), "check the command's arguments", 2)
    except BackcastError as error:
        return _print_error(error.message, error.hint, error.exit_code, getattr(error, "details", ()))
    except (click.Abort, KeyboardInterrupt):
        return _print_error("interrupted; nothing is lost", "run the same command again", 130)
    except _OutputClosed:
        discard_output(sys.stdout)
        return 0
    except StoreError as error:
        message = f"the store of {error.url} did not answer as expected: {error}"
        return _print_error(message, f"{error.hint}, then run the same command again", UnreadableExport.exit_code)
    except OSError as error:
        who, fix = "system", "free disk space or fix the permission"
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            fix = "bring that file back or correct the path"
        if is_remote(str(error.filename or "")):
            who, fix = "store", "check what its credentials may do"
        return _print_error(f"the {who} refused: {error}", f"{fix}, then run the same command again", 2)
    except Exception as error:
        if os.environ.get("BACKCAST_TRACEBACK"):
            raise
        return _print_error(
            f"a bug in backcast: {type(error).__name__}: {error}",
            "run again with BACKCAST_TRACEBACK=1 and report what it prints",
            1,
        )


def _print_error(message: str, hint: str, code: int, details: Sequence[str] = ()) -> int:
    """Print two lines, and one for each of the details, with control characters of file names and rows escaped. Returns
    `code`."""
    click.echo(f"Error: {printable(message, MAX_MESSAGE)}", err=True)
    for detail in details:
        click.echo(f"  {printable(detail, MAX_MESSAGE)}", err=True)
    if hint:
        click.echo(f"Try: {printable(hint, MAX_MESSAGE)}", err=True)
    return code
