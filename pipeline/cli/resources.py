"""`backcast hog-functions`, `recordings` and `projects`: one command an operation of the management API.

The commands are made from the tables below. Their options are the parameters that `pipeline.management.operations`
declares, and each calls the client's method for its operation.
"""

from __future__ import annotations

import functools
import json
import sys
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pipeline.cli import common
from pipeline.cli.common import combined, confirm
from pipeline.cli.flags import Command, takes
from pipeline.cli.help import WholeHelp, example
from pipeline.errors import UsageError
from pipeline.management import operations
from pipeline.management.operations import Endpoint, Names, NoFields
from pipeline.options import KeyOptions

if TYPE_CHECKING:
    from pipeline.management import ManagementClient
    from pipeline.management.resources import Listing

COLUMNS = ("id", "name", "type", "enabled", "status", "execution_order")
_item = click.argument("id", metavar="ID")
_data = click.option("--data", metavar="JSON|@FILE|-", help="The body as JSON: here, in a file, or from stdin.")
_put = click.option("--put", is_flag=True, help="Send PUT instead of PATCH, which the contract does not have.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_every = click.option("--all", "every", is_flag=True, help="Every page, not only the first.")


class Made(NamedTuple):
    """A command that is made: its name, its operation, its help and an example.

    A list has `columns`, `title` stands above any other answer that is not an object, and `question` has to be agreed
    to; both may name the id. `method` is the client's, if it has another name than the command.
    """

    name: str
    operation: Endpoint
    help: str
    example: str
    columns: tuple[str, ...] = ()
    title: str = ""
    question: str = ""
    method: str = ""


FUNCTIONS = (
    Made("list", operations.LIST_FUNCTIONS, "The hog functions that match every filter given.",
         "--type destination --enabled true", columns=COLUMNS),
    Made("get", operations.RETRIEVE_FUNCTION, "One hog function, whole. Input values are shown with --json only.",
         "ID --json > function.json", method="retrieve"),
    Made("create", operations.CREATE_FUNCTION,
         "Create a hog function. An option overrides the same field of --data.",
         "--data @function.json --enabled false"),
    Made("update", operations.UPDATE_FUNCTION,
         "Set the fields given, and no other. An option overrides the same field of --data.", "ID --enabled false"),
    Made("broadcast", operations.BROADCAST, "Run a hog function for the persons it matches.", "ID",
         title="Broadcast {id}", question="Run hog function {id} for every person it matches?"),
    Made("invoke", operations.INVOKE, "Run a hog function once, on the input in the body.\n\n"
         'The service replaces calls to the outside by mocks, unless the body has `"mock_async_functions": false`.',
         "ID --data @invocation.json", title="Invoked {id}"),
    Made("logs", operations.LOGS, "What a hog function logged, newest first.", "ID --level error --limit 20",
         title="Logs of {id}"),
    Made("metrics", operations.METRICS, "How often a hog function ran, over time.", "ID --after -7d --interval day",
         title="Metrics of {id}"),
    Made("totals", operations.METRICS_TOTALS, "How often a hog function ran, in all.", "ID", title="Totals of {id}",
         method="metrics_totals"),
    Made("icons", operations.ICONS, "The icons that the service has.", "--query slack", title="Icons"),
)  # fmt: skip
RECORDINGS = (
    Made("list", operations.LIST_RECORDINGS, "The recordings of the project.", "--limit 20",
         columns=("id", "distinct_id", "start_time", "recording_duration", "viewed", "ongoing")),
    Made("get", operations.RETRIEVE_RECORDING, "One recording, whole.", "ID", method="retrieve"),
    Made("update", operations.UPDATE_RECORDING,
         'Set who a recording shows. Other fields that the service takes go in --data, such as `"viewed": true`.',
         "ID --person @person.json"),
    Made("delete", operations.DELETE_RECORDING, "Delete a recording for good.", "ID",
         question="Delete recording {id} for good?", title="Deleted recording {id}."),
    Made("sharing", operations.SHARING,
         "How a recording is shared. Its access token is a secret, shown with --json only.", "ID"),
    Made("refresh-sharing", operations.REFRESH_SHARING,
         "Replace the access token of a shared recording. The contract does not have this operation.", "ID",
         question="Replace the access token of recording {id}? Links with the old one stop working."),
)  # fmt: skip
PROJECTS = (
    Made("list", operations.LIST_PROJECTS, "The projects with their ids, which --project takes.", "",
         columns=("id", "name")),
)  # fmt: skip


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

    def show(self, value: object, *drawn: tuple[Any, ...]) -> None:
        """Print an answer: the service's JSON with --json, else what functions of the terminal print, each given by its
        name and its arguments."""
        from pipeline.report.terminal import resources

        with common.output():
            if self.as_json:
                click.echo(json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace"))
                return
            for name, *arguments in drawn:
                getattr(resources, name)(common.console(), *arguments)

    def show_list(self, listing: Listing[Any], every: bool, *columns: str) -> None:
        """Print one page, or every page as one, with these columns."""
        if every:
            items = [item.plain() for item in listing]
            envelope: dict[str, Any] = {"count": len(items), "next": None, "previous": None, "results": items}
        else:
            envelope = listing.page().plain()
        self.show(envelope, ("show_page", envelope, columns))


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


def _body(
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
                f"--data is not a JSON object: {error}", hint="give '{…}', or @FILE, or - for stdin"
            ) from None
        _note_secret("--data", data, whole.keys())
    for name, value in given.items():
        if not isinstance(value, str) or name in plain:
            whole[name] = msgspec.Raw(json.dumps(value).encode())
        elif name == "hog":
            try:
                whole[name] = msgspec.Raw(json.dumps(_read(options[name], value).decode()).encode())
            except UnicodeDecodeError as error:
                raise UsageError(f"{options[name]} is not UTF-8: {error}", hint="save the file as UTF-8") from None
        else:
            whole[name] = _json(options[name], _read(options[name], value))
            _note_secret(options[name], value, (name,))
    if not whole and not empty:
        raise UsageError(
            "no field is given, so there is nothing to send", hint="give a field as an option, or all with --data JSON"
        )
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
        raise UsageError(
            f"{option}: cannot read {text[1:]!r}: {error.strerror}", hint="check the path after @"
        ) from None


def _json(option: str, text: bytes) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{option} is not JSON: {error}", hint="give JSON, or @FILE, or - for stdin") from None


def _note_secret(option: str, text: str, names: Collection[str]) -> None:
    """Input values may be secrets, and every user of a machine can read its command lines."""
    if not text.startswith("@") and text != "-" and not {"inputs", "mappings"}.isdisjoint(names):
        click.echo(f"Note: a secret in {option} can be read in the process list; @FILE and - cannot.", err=True)


def _option(name: str, hint: Any) -> Callable[[Command], Command]:
    """The option of a declared parameter; one that begins with `_`, as the contract spells it, may be without."""
    kind, flag = typing.get_args(hint)
    flags = ["--" + name.strip("_").replace("_", "-"), *([f"--{name}", name] if name.startswith("_") else [])]
    settings: dict[str, Any] = {"help": flag.help, "metavar": flag.metavar, "multiple": kind == Names}
    if kind == bool | None:

        def convert(ctx: click.Context, parameter: click.Parameter, value: str | None) -> bool | None:
            return None if value is None else value == "true"

        settings |= {"type": click.Choice(("true", "false"), case_sensitive=False), "callback": convert}
    elif kind == int | None:
        settings["type"] = click.INT if flag.least is None else click.IntRange(flag.least)
    return click.option(*flags, **settings)


def _command(resource: str, made: Made) -> click.Command:
    operation = made.operation
    hints = typing.get_type_hints(operation.fields or operation.query, include_extras=True)
    texts = {name for name, hint in hints.items() if "@FILE" not in (typing.get_args(hint)[1].metavar or "")}

    def run(connection: Connection, yes: bool = True, every: bool = False, put: bool = False, **given: Any) -> None:
        id = given.pop("id") if operation.of_one else ""
        arguments: list[Any] = [id] if id else []
        if operation.fields is not None:
            arguments.append(_body(given.pop("data"), given, plain=texts, empty=operation.fields is NoFields))
            given = {"put": True} if put else {}
        if made.question:
            confirm(made.question.format(id=id), yes)
        with connection.client(project=operation.in_project) as client:
            method = made.method or made.name.replace("-", "_")
            answer = getattr(getattr(client, resource), method)(*arguments, **given)
            title = made.title.format(id=id)
            if made.columns:
                connection.show_list(answer, every, *made.columns)
            elif operation.method == "DELETE":
                connection.show({"id": id, "deleted": True}, ("show_line", title))
            elif title:
                connection.show(answer, ("show_answer", title, answer))
            else:
                plain = answer.plain()
                connection.show(plain, ("show_record", plain))

    options: list[Callable[[Command], Command]] = [
        *([_item] if operation.of_one else []),
        *([_data] if operation.fields is not None else []),
        *(_option(name, hint) for name, hint in hints.items()),
        *([_put] if operation.method == "PATCH" else []),
        *([_every] if made.columns else []),
        *([_yes] if made.question else []),
    ]
    run.__doc__ = made.help
    words = made.example.replace("ID", "0190a2c4-…")
    end = example(f"backcast {_GROUPS[resource]} {made.name} --to eu {words}".rstrip())
    return click.command(made.name, epilog=end)(connected(operation.in_project)(combined(*options)(run)))


_GROUPS = {"hog_functions": "hog-functions", "session_recordings": "recordings", "projects": "projects"}
"""The group of each resource of the client."""


def _group(resource: str, help: str, options: str, commands: tuple[Made, ...]) -> click.Group:
    group = WholeHelp(
        _GROUPS[resource],
        help=help,
        context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},  # `--created_by`, too
        epilog=example(f"backcast {_GROUPS[resource]} list --to eu {options}".rstrip()),
    )
    for made in commands:
        group.add_command(_command(resource, made))
    return group


hog_functions = _group(
    "hog_functions", "Hog functions of a project: what the service runs on its events.", "--enabled true", FUNCTIONS
)
recordings = _group("session_recordings", "Session recordings of a project.", "--limit 20", RECORDINGS)
projects = _group("projects", "Projects that the personal key reaches.", "", PROJECTS)


@hog_functions.command(epilog=example("backcast hog-functions delete --to eu 0190a2c4-…"))
@connected()
@_item
@_yes
@click.option("--hard", is_flag=True, help="Explain why the service does not delete for good; nothing is sent.")
@click.option("--send", is_flag=True, help="With --hard: send the request all the same.")
def delete(connection: Connection, id: str, yes: bool, hard: bool, send: bool) -> None:
    """Soft-delete a hog function: `update ID --deleted false` brings it back."""
    if send and not hard:
        raise UsageError(
            "--send works only with --hard",
            hint="leave --send out: without --hard the function is soft-deleted at once",
        )
    if not hard or send:
        confirm(f"Delete hog function {id}?", yes)
    with connection.client() as client:
        if hard:
            client.hog_functions.hard_delete(id, send=send)
            function = None
        else:
            function = client.hog_functions.delete(id)
    deleted = {"id": id, "deleted": True} if function is None else function.plain()
    connection.show(deleted, ("show_line", f"Deleted hog function {id}."))


@hog_functions.command(epilog=example("backcast hog-functions icon --to eu --id slack.com --output slack.png"))
@connected()
@click.option("--id", metavar="ID", help="Which icon.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there.")
def icon(connection: Connection, id: str | None, output: Path | None) -> None:
    """One icon: its size, and its bytes with --output."""
    with connection.client() as client:
        image = client.hog_functions.icon(id)
    line = f"{len(image.content):,} bytes of {image.media_type}" if image.content else "The service returned no icon"
    written = None
    if output is not None:
        output.write_bytes(image.content)
        written = str(output)
        line += f", written to {output}"
    shown = {"media_type": image.media_type, "bytes": len(image.content), "output": written}
    connection.show(shown, ("show_line", f"{line}."))


@hog_functions.command(epilog=example("backcast hog-functions rearrange --to eu 0190a2c4-…=1 0190a2c5-…=2"))
@connected()
@click.argument("orders", metavar="[ID=N]...", nargs=-1)
@_data
def rearrange(connection: Connection, orders: tuple[str, ...], data: str | None) -> None:
    """Set the execution order of several hog functions."""
    if bool(orders) == (data is not None):
        raise UsageError("rearrange takes ID=N pairs, or --data", hint="for example 0190a2c4-…=1 0190a2c5-…=2")
    order_by_id = _read_orders(orders)
    sent = None if data is None else _body(data, {})
    with connection.client() as client:
        functions = [function.plain() for function in client.hog_functions.rearrange(order_by_id or None, body=sent)]
    connection.show(functions, ("show_line", "Rearranged."), ("show_rows", functions, *COLUMNS))


def _read_orders(texts: tuple[str, ...]) -> dict[str, int]:
    orders: dict[str, int] = {}
    for text in texts:
        id, _, number = text.rpartition("=")
        if not id or not number.lstrip("-").isascii() or not number.lstrip("-").isdecimal() or len(number) > 18:
            raise UsageError(f"{text!r} is not ID=N", hint="for example 0190a2c4-…=1")
        if id in orders:
            raise UsageError(f"{id} is given twice", hint="give it once")
        orders[id] = int(number)
    return orders
