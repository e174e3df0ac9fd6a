"""What the commands of the management API share: whom they speak to, what they send, how they answer."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.errors import UsageError
from pipeline.options import KeyOptions

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.management import ManagementClient
    from pipeline.management.resources import Listing

NAMES = {"token_normalize_func": lambda token: token.replace("_", "-")}
"""Context settings: `--created_by`, as the contract spells it, is `--created-by`."""
TRUTH = click.Choice(("true", "false"), case_sensitive=False)
data = click.option("--data", metavar="JSON|@FILE|-", help="The body as JSON: here, in a file, or from stdin.")
put = click.option("--put", is_flag=True, help="Send PUT instead of PATCH, which the contract does not have.")
yes = click.option("--yes", is_flag=True, help="Do not ask.")
limit = click.option("--limit", type=click.IntRange(1), metavar="N", help="Items on a page.")
offset = click.option("--offset", type=click.IntRange(0), metavar="N", help="Where the first page starts.")
every = click.option("--all", "every", is_flag=True, help="Every page, not only the first.")


@dataclass(frozen=True, slots=True)
class Reach:
    """Whom a command speaks to, and for whom it prints."""

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
        """An answer: for a program the JSON of the service, for a person what `draw` prints."""
        with common.output():
            if self.as_json:
                print_json(value)
            else:
                draw(common.console())

    def show_list(self, listing: Listing[Any], every: bool, draw: Callable[[Console, list[Any]], None]) -> None:
        """One page, or every page as one."""
        if every:
            found = [one.plain() for one in listing]
            envelope: dict[str, Any] = {"count": len(found), "next": None, "previous": None, "results": found}
        else:
            envelope = listing.page().plain()
            found = envelope["results"]

        def drawn(console: Console) -> None:
            from pipeline.report.resources import show_rest

            draw(console, found)
            show_rest(
                console, len(found), envelope.get("count"), bool(envelope.get("next") or envelope.get("has_next"))
            )

        self.show(envelope, drawn)


def reaching(project: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options that say whom to speak to; the command gets them as a `Reach`, its first argument."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(to: str, keys: KeyOptions, as_json: bool, project: str | None = None, **rest: Any) -> Any:
            return command(Reach(to, project, keys.personal_key_file, as_json), **rest)

        made = takes(KeyOptions, "keys", without=("project_key_file",))(common.as_json(called))
        if project:
            made = click.option("--project", metavar="ID", help="The project's id.  [default: the key's only one]")(
                made
            )
        return common.target(made)

    return decorate


def truth(ctx: click.Context, parameter: click.Parameter, value: str | None) -> bool | None:
    """`true` or `false` as what it says; None where the option was not given."""
    return None if value is None else value == "true"


def print_json(value: object) -> None:
    """JSON on stdout, numbers of any size and lone surrogates too."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    click.echo(text.encode("utf-8", "backslashreplace"))


def agree(question: str, yes: bool) -> None:
    """Ask a person before something is done. Raises UsageError when nobody says yes."""
    if yes:
        return
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise UsageError("nobody was there to say yes; nothing was done", hint="give --yes") from None
    if not agreed:
        if not sys.stdin.isatty():
            click.echo(err=True)
        raise UsageError("not agreed; nothing was done", hint="answer y, or give --yes")


class Texts:
    """Texts of options: as they stand, `@FILE`, or `-` for stdin, once. UTF-8."""

    def __init__(self) -> None:
        self._stdin_of = ""

    def read(self, option: str, text: str) -> bytes:
        """The text itself. Raises UsageError."""
        if text == "-":
            if self._stdin_of:
                raise UsageError(f"{self._stdin_of} and {option} both read stdin", hint="give one of them as @FILE")
            self._stdin_of = option
            return sys.stdin.buffer.read()
        if not text.startswith("@"):
            return text.encode("utf-8", "surrogateescape")
        try:
            return Path(text[1:]).read_bytes()
        except OSError as error:
            raise UsageError(f"{option}: cannot read {text[1:]!r}: {error.strerror}", hint="give @FILE") from None


def body(
    data: str | None, fields: Mapping[str, object], *, plain: Set[str] = frozenset(), empty: bool = False
) -> bytes:
    """A JSON object to send: `data`, and over it the fields that are not None.

    A field that is text is JSON, but `hog` is source code and those of `plain` are the text itself. JSON keeps the
    bytes it was given in. Raises UsageError, also for an object without fields unless `empty`.
    """
    import msgspec

    texts = Texts()
    whole: dict[str, msgspec.Raw] = {}
    if data is not None:
        try:
            whole = msgspec.json.decode(texts.read("--data", data), type=dict[str, msgspec.Raw])
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"--data is no JSON object: {error}", hint="give '{…}', or @FILE, or - for stdin"
            ) from None
        _note("--data", data, whole.keys())
    for name, value in fields.items():
        if value is None:
            continue
        option = "--" + name.strip("_").replace("_", "-")
        if isinstance(value, str) and name == "hog":
            whole[name] = msgspec.Raw(json.dumps(_decoded(option, texts.read(option, value))).encode())
        elif isinstance(value, str) and name not in plain:
            whole[name] = _json(option, texts.read(option, value))
            _note(option, value, (name,))
        else:
            whole[name] = msgspec.Raw(json.dumps(value).encode())
    if not whole and not empty:
        raise UsageError("there is nothing to send", hint="give a field as an option, or --data")
    return msgspec.json.encode(whole)


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


def _note(option: str, text: str, names: Iterable[str]) -> None:
    """Input values may be secrets, and every user of a machine can read its command lines."""
    if not text.startswith("@") and text != "-" and not {"inputs", "mappings"}.isdisjoint(names):
        click.echo(f"Note: a secret in {option} can be read in the process list; @FILE and - cannot.", err=True)
