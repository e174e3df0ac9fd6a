"""What the commands of the management API share: connection, request body, and printing of the answer."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli import common
from pipeline.cli.flags import Command, takes
from pipeline.errors import UsageError
from pipeline.options import KeyOptions

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.management import ManagementClient
    from pipeline.management.resources import Listing

NAMES = {"token_normalize_func": lambda token: token.replace("_", "-")}
"""Context settings: `--created_by`, as the contract spells it, is `--created-by`."""


def combined(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator; help lists them in this order."""

    def decorate(command: Command) -> Command:
        return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)

    return decorate


item = click.argument("id", metavar="ID")
data = click.option("--data", metavar="JSON|@FILE|-", help="The body as JSON: here, in a file, or from stdin.")
put = click.option("--put", is_flag=True, help="Send PUT instead of PATCH, which the contract does not have.")
yes = click.option("--yes", is_flag=True, help="Do not ask.")
limit = click.option("--limit", type=click.IntRange(1), metavar="N", help="Items on a page.  [default: the service's]")
offset = click.option(
    "--offset", type=click.IntRange(0), metavar="N", help="Items to leave out before the first page.  [default: 0]"
)
every = click.option("--all", "every", is_flag=True, help="Every page, not only the first.")


@dataclass(frozen=True, slots=True)
class Connection:
    """The target, project and key of a command, and whether its answer is printed as JSON."""

    to: str
    project: str | None
    personal_key_file: str | None
    as_json: bool

    @contextmanager
    def client(self, *, project: bool = True) -> Iterator[ManagementClient]:
        """The client, for the named project or the key's only one; for none if not `project`."""
        from pipeline import config
        from pipeline.management import ManagementClient

        key = config.required_personal_key(self.personal_key_file)
        with ManagementClient(self.to, key, self.project, timeout=60.0) as client:
            if project and self.project is None:
                client.choose_project()
            yield client

    def show(self, value: object, draw: Callable[[Console], None]) -> None:
        """Print an answer: the service's JSON with --json, else what `draw` prints."""
        with common.output():
            if self.as_json:
                _print_json(value)
            else:
                draw(common.console())

    def show_line(self, value: object, line: str) -> None:
        """Print an answer that one line sums up."""
        from pipeline.report.terminal import resources

        self.show(value, lambda console: resources.show_line(console, line))

    def show_record(self, record: Any) -> None:
        """Print a model of the management API."""
        from pipeline.report.terminal import resources

        plain = record.plain()
        self.show(plain, lambda console: resources.show_record(console, plain))

    def show_answer(self, title: str, answer: object) -> None:
        """Print an answer whose shape the contract leaves open."""
        from pipeline.report.terminal import resources

        self.show(answer, lambda console: resources.show_answer(console, title, answer))

    def show_rows(self, objects: list[dict[str, Any]], line: str, *columns: str) -> None:
        """Print a line and several objects, with these columns."""
        from pipeline.report.terminal import resources

        def draw(console: Console) -> None:
            resources.show_line(console, line)
            resources.show_rows(console, objects, *columns)

        self.show(objects, draw)

    def show_list(self, listing: Listing[Any], every: bool, *columns: str) -> None:
        """Print one page, or every page as one, with these columns."""
        from pipeline.report.terminal import resources

        if every:
            items = [item.plain() for item in listing]
            envelope: dict[str, Any] = {"count": len(items), "next": None, "previous": None, "results": items}
        else:
            envelope = listing.page().plain()
        self.show(envelope, lambda console: resources.show_page(console, envelope, columns))


def connected(project: bool = True) -> Callable[[Command], Command]:
    """Options of the target, project and key; the command gets them as a `Connection`, its first argument."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def connect(to: str, keys: KeyOptions, as_json: bool, project: str | None = None, **others: Any) -> Any:
            return command(Connection(to, project, keys.personal_key_file, as_json), **others)

        named = click.option("--project", metavar="ID", help="The project's id.  [default: the key's only one]")
        options = [common.target, *([named] if project else [])]
        return combined(*options, takes(KeyOptions, "keys", without=("project_key_file",)), common.as_json)(connect)

    return decorate


def _print_json(value: object) -> None:
    """JSON on stdout, numbers of any size and lone surrogates too."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    click.echo(text.encode("utf-8", "backslashreplace"))


def confirm(question: str, yes: bool) -> None:
    """Ask before something is done, unless `yes`. Raises UsageError where the answer is not yes."""
    if yes:
        return
    unanswered = UsageError("stdin ended without an answer; nothing was done", hint="give --yes")
    if not common.ask(click.confirm, question, unanswered):
        if not sys.stdin.isatty():
            click.echo(err=True)
        raise UsageError("not confirmed; nothing was done", hint="answer y, or give --yes")


def body(
    data: str | None, fields: Mapping[str, object], *, plain: Set[str] = frozenset(), empty: bool = False
) -> bytes:
    """A JSON object to send: `data`, and over it the fields that are not None.

    A field that is text is JSON, but `hog` is source code and those of `plain` are the text itself; JSON and source
    code can also be `@FILE`, or `-` for stdin. JSON keeps the bytes it was given in. Raises UsageError, also for an
    object without fields unless `empty`.
    """
    import msgspec

    given = {name: value for name, value in fields.items() if value is not None}
    options = {name: "--" + name.strip("_").replace("_", "-") for name in given}
    from_stdin = ["--data"] if data == "-" else []
    from_stdin += [options[name] for name, value in given.items() if value == "-" and name not in plain]
    if len(from_stdin) > 1:
        raise UsageError(f"{from_stdin[0]} and {from_stdin[1]} both read stdin", hint="give one of them as @FILE")
    whole: dict[str, msgspec.Raw] = {}
    if data is not None:
        try:
            whole = msgspec.json.decode(_read("--data", data), type=dict[str, msgspec.Raw])
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"--data is no JSON object: {error}", hint="give '{…}', or @FILE, or - for stdin"
            ) from None
        _note_secret("--data", data, whole.keys())
    for name, value in given.items():
        if not isinstance(value, str) or name in plain:
            whole[name] = msgspec.Raw(json.dumps(value).encode())
        elif name == "hog":
            whole[name] = msgspec.Raw(json.dumps(_decoded(options[name], _read(options[name], value))).encode())
        else:
            whole[name] = _json(options[name], _read(options[name], value))
            _note_secret(options[name], value, (name,))
    if not whole and not empty:
        raise UsageError("there is nothing to send", hint="give a field as an option, or --data")
    return msgspec.json.encode(whole)


def _read(option: str, text: str) -> bytes:
    """The text of an option, of the `@FILE` that it names, or of stdin for `-`. Raises UsageError."""
    if text == "-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise UsageError(f"{option}: cannot read {text[1:]!r}: {error.strerror}", hint="give @FILE") from None


def _decoded(option: str, text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{option} is not UTF-8: {error}", hint="save the file as UTF-8") from None


def _json(option: str, text: bytes) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{option} is no JSON: {error}", hint="give JSON, or @FILE, or - for stdin") from None


def _note_secret(option: str, text: str, names: Collection[str]) -> None:
    """Input values may be secrets, and every user of a machine can read its command lines."""
    if not text.startswith("@") and text != "-" and not {"inputs", "mappings"}.isdisjoint(names):
        click.echo(f"Note: a secret in {option} can be read in the process list; @FILE and - cannot.", err=True)
