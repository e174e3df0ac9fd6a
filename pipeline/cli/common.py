"""What every command shares: common arguments and options, completion by the shell, questions, and how it prints."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

import click

from pipeline.errors import UsageError
from pipeline.text import printable

if TYPE_CHECKING:
    from rich.console import Console


_FAULTS = "pipeline.local_service.faults"
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _among(words: Callable[[], Iterable[str]]) -> Complete:
    """A completer; its words are computed only when a shell asks for them."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return complete


def _phases(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The phases that the text does not name yet, after those that it names."""
    from pipeline.plan.sealed.directory import PHASES

    *before, last = incomplete.split(",")
    return [",".join([*before, phase]) for phase in PHASES if phase.startswith(last) and phase not in before]


COMPLETIONS: dict[str, Complete] = {
    "targets": _among(lambda: ("us", "eu")),
    "policies": _among(lambda: ("fill-only", "overwrite", "prefix=")),
    "mappings": _among(lambda: import_module("pipeline.mapper.registry").available()),
    "zones": _among(lambda: sorted(import_module("zoneinfo").available_timezones())),
    "faults": _among(lambda: (re.split("[:,]", fault)[0] for fault, _ in import_module(_FAULTS).catalogue())),
    "codes": _among(lambda: sorted(import_module("pipeline.validator.codes").codes())),
    "phases": _phases,
}
"""What a shell offers for the values of options and arguments that come from a closed list."""


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class PlanDirectory(click.Path):
    """The directory of a plan, as a string: a path of this machine, or the URL of one in a bucket, whose two slashes a
    Path would make one."""

    def __init__(self) -> None:
        super().__init__(path_type=str)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from pipeline.plan.in_bucket import named

        return named(os.fsdecode(super().convert(value, param, ctx)))


LEVELS = {"Error: ": "error", "Try: ": "hint", "Warning: ": "warning", "Note: ": "info"}
"""How a message for people begins, and its level."""

directory = click.argument("directory", metavar="DIR", type=PlanDirectory())
as_json = click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout, for a program.")
quiet = click.option("--quiet", "-q", is_flag=True, help="No progress, and no result if the command succeeds.")
target = click.option(
    "--to",
    required=True,
    metavar="us|eu|URL|file:DIR|s3://…",
    help="The target service, or a folder for files to import.",
    shell_complete=COMPLETIONS["targets"],
)


def warn(line: str) -> None:
    click.echo(f"Warning: {line}", err=True)


def discard_output(stream: TextIO) -> None:
    """Redirect a stream to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


@contextlib.contextmanager
def output() -> Iterator[None]:
    """Inside, a closed stdout (`| head`) is not an error: the command's exit code does not change."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output(sys.stdout)


class _Wrapped:
    """A text stream that passes to another stream everything that it does not do itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class MayClose(_Wrapped):
    """A text stream that is discarded once its reader has closed the pipe."""

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            discard_output(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            discard_output(self._stream)


class JsonLines(_Wrapped):
    """A text stream that writes each line as an object; it is not a terminal, so nothing is drawn on it.

        {"at": "2024-05-01T03:00:12.345Z", "level": "warning", "message": "…"}

    `level` is `info`, `warning`, `error`, `hint` (what to do about the error before it) or `progress`, which has
    numbers, too. Every message of every command goes through the one stream, so none can be forgotten.
    """

    _begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._line(line)
        return len(text)

    def flush(self) -> None:
        """Write what is begun, too: a question has no end of line."""
        line, self._begun = self._begun, ""
        self._line(line)
        self._stream.flush()

    def isatty(self) -> bool:
        return False

    def record(self, level: str, message: str, **numbers: object) -> None:
        self._stream.write(object_of(level, message, **numbers))
        self._stream.flush()

    def _line(self, line: str) -> None:
        text = line.strip("\r")
        if text.strip():
            begin = next((begin for begin in LEVELS if text.startswith(begin)), "")
            self.record(LEVELS.get(begin, "info"), text.removeprefix(begin))


def object_of(level: str, message: str, **numbers: object) -> str:
    import msgspec

    from pipeline.timestamps import utc_now

    return msgspec.json.encode({"at": utc_now(), "level": level, "message": message, **numbers}).decode() + "\n"


def is_json() -> bool:
    return isinstance(sys.stderr, JsonLines)


def show_progress(message: str, numbers: Callable[[], Mapping[str, object]]) -> None:
    """A line of progress; `numbers` are those of its object."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.record("progress", message, **numbers())
    else:
        print(message, file=sys.stderr, flush=True)


def _choose(ctx: click.Context, parameter: click.Parameter, value: str) -> None:
    if value == "json" and not is_json() and not ctx.resilient_parsing:
        sys.stderr = JsonLines(sys.stderr)  # until the run ends (`pipeline.cli.run`)


log_format = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, is_eager=True,
    expose_value=False, callback=_choose, help="How messages and progress are written to stderr.",
)  # fmt: skip


def combined(*options: Decorator) -> Decorator:
    """Several options as one decorator; help lists them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return reduce(lambda decorated, option: option(decorated), reversed(options), command)

    return decorate


printing = combined(as_json, quiet)
printing_for_long = combined(as_json, log_format, quiet)
"""How a command prints; one that may run for long has --log-format, too."""


def words() -> list[str]:
    """The words of the command that runs, `backcast` first; none if it was not called by the command line."""
    given = click.get_current_context().find_root().obj
    return ["backcast", *given] if given else []


def console(*, err: bool = False) -> Console:
    """stdout, or stderr, as wide as the terminal. If it is not a terminal: COLUMNS wide, or 110 columns."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) else 110
    terminal = (sys.stderr if err else sys.stdout).isatty()
    return Terminal(width=None if terminal else width, highlight=False, stderr=err)


def emit(value: object) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())


def show(value: object, draw: Callable[[Console], None], *, as_json: bool, quiet: bool = False) -> None:
    """The result of a command: one JSON object, or what `draw` prints for people unless `quiet`."""
    with output():
        if as_json:
            emit(value)
        elif not quiet:
            draw(console())


def show_words(value: object, words: str, *, as_json: bool, quiet: bool) -> None:
    """The same for a result that is one sentence."""
    show(value, lambda console: console.print(words, markup=False, soft_wrap=True), as_json=as_json, quiet=quiet)


def ask(prompt: Callable[..., Any], question: str, unanswered: UsageError) -> Any:
    """The answer to a question on stderr, asked by one of click's prompts.

    Raises `unanswered` if stdin is not a terminal and ends without an answer.
    """
    try:
        return prompt(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise unanswered from None


def choose(prompt: str, options: Sequence[str], read: Callable[[str], str], default: str | None = None) -> str:
    """The answer to a question on stderr: one of the options, by its number or its text, or what `read` makes of
    another answer. If that raises UsageError, the error is shown, and the prompt again."""
    while True:
        given = click.prompt(prompt, default=default, err=True).strip()
        if given.isdecimal() and 0 < int(given) <= len(options):
            return options[int(given) - 1]
        if same := [option for option in options if option.casefold() == given.casefold()]:
            return same[0]
        try:
            return read(given)
        except UsageError as error:
            why = "; ".join(filter(None, (error.message, error.hint)))
            click.echo(f"  {printable(why, 400)}", err=True)


def ask_number(events: int, why: str) -> None:
    """Ask for a number of events to be typed before they are sent. Raises UsageError if the answer is another."""
    hint = f"run the command again and type {events}, or give --yes"
    answer = ask(
        partial(click.prompt, default="", show_default=False),
        f"Type the number of events ({events}) to {why}",
        UsageError("stdin ended before the number of events was typed; nothing was sent", hint=hint),
    )
    if answer.replace(",", "").replace("_", "").strip() != str(events):
        raise UsageError(f"the typed number is not {events}; nothing was sent", hint=hint)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is done, unless `yes`. Raises UsageError if the answer is not yes."""
    if yes:
        return
    unanswered = UsageError(
        "stdin ended without an answer; nothing was done", hint="give --yes to do it without a question"
    )
    if not ask(click.confirm, question, unanswered):
        if not sys.stdin.isatty():
            click.echo(err=True)
        raise UsageError("not confirmed; nothing was done", hint="answer y, or give --yes")
