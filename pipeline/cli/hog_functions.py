"""`backcast hog-functions`: one command an operation of the management API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pipeline.cli import management
from pipeline.cli.flags import Command
from pipeline.cli.management import Connection, body, combined, confirm, connected
from pipeline.errors import UsageError

TEXTS = frozenset(("type", "kind", "name", "description", "icon_url", "template_id", "_create_in_folder"))
"""Writable fields whose option is the text itself; the others of them are JSON or have a type of their own."""
COLUMNS = ("id", "name", "type", "enabled", "status", "execution_order")


def _boolean(name: str, help: str | None = None) -> Callable[[Command], Command]:
    """An option with the value true or false, None where it is not given."""

    def convert(ctx: click.Context, parameter: click.Parameter, value: str | None) -> bool | None:
        return None if value is None else value == "true"

    return click.option(name, type=click.Choice(("true", "false"), case_sensitive=False), callback=convert, help=help)


def _json(name: str, help: str | None = None) -> Callable[[Command], Command]:
    return click.option(name, metavar="JSON|@FILE|-", help=help)


_writable = combined(
    management.data,
    click.option("--type", metavar="TEXT", help="What kind of function it is, as destination or transformation."),
    click.option("--kind", metavar="TEXT", help="The variant of its type."),
    click.option("--name", metavar="TEXT", help="Its name."),
    click.option("--description", metavar="TEXT", help="What it is for."),
    _boolean("--enabled", help="Whether it runs."),
    _boolean("--deleted", help="Soft-delete it, or bring it back."),
    click.option("--hog", metavar="TEXT|@FILE|-", help="Source code."),
    _json("--inputs-schema", help="Which inputs it takes."),
    _json("--inputs", help="Secrets belong in a file: @FILE."),
    _json("--filters", help="For which events it runs."),
    _json("--masking", help="How often it runs for events that are alike."),
    _json("--mappings", help="Inputs for single event names."),
    click.option("--icon-url", metavar="URL", help="The address of its icon."),
    click.option("--template-id", metavar="ID", help="The template that it is made from."),
    click.option("--execution-order", type=int, metavar="N", help="Its place among the transformations, from 1."),
    click.option(
        "--create-in-folder",
        "--_create_in_folder",
        "_create_in_folder",
        metavar="TEXT",
        help="The folder of the project that it is created in.",
    ),
)
"""An option for each writable field (docs/know/service.md#hog-functions), in its order."""

_measured = combined(
    click.option("--after", metavar="TIME", help="Only runs from this time on, as -7d or 2024-01-31."),
    click.option("--before", metavar="TIME", help="Only runs before this time."),
    click.option("--interval", metavar="hour|day|week", help="The length of a step."),
    click.option("--breakdown-by", metavar="name|kind", help="Count by name or by kind."),
    click.option("--name", metavar="A,B", help="Only metrics of these names."),
    click.option("--kind", metavar="A,B", help="Only metrics of these kinds."),
    click.option("--instance-id", metavar="ID", help="Only this run."),
)
"""Which runs are counted, and how."""


@click.group(
    "hog-functions",
    context_settings=management.NAMES,
    epilog="Example: backcast hog-functions list --to eu --enabled true",
)
def hog_functions() -> None:
    """Hog functions of a project: what the service runs on its events."""


@hog_functions.command("list", epilog="Example: backcast hog-functions list --to eu --type destination --enabled true")
@connected()
@click.option("--created-at", metavar="TIME", help="Only those created at this time.")
@click.option("--created-by", type=int, metavar="USER", help="Only those of this user: the number of the user.")
@_boolean("--enabled", help="Only those that run, or that do not.")
@click.option("--exclude-kind", multiple=True, metavar="A,B", help="Not those of these kinds.")
@click.option("--id", metavar="ID", help="Only the one with this id.")
@click.option("--kind", multiple=True, metavar="A,B", help="Only those of these kinds.")
@management.limit
@management.offset
@click.option("--type", multiple=True, metavar="A,B", help="Only those of these types.")
@click.option("--updated-at", metavar="TIME", help="Only those changed at this time.")
@management.every
def list_(connection: Connection, every: bool, **filters: Any) -> None:
    """The hog functions that match every filter given."""
    with connection.client() as client:
        connection.show_list(client.hog_functions.list(**filters), every, *COLUMNS)


@hog_functions.command(epilog="Example: backcast hog-functions get --to eu 0190a2c4-… --json > function.json")
@connected()
@management.item
def get(connection: Connection, id: str) -> None:
    """One hog function, whole. Input values are shown with --json only."""
    with connection.client() as client:
        connection.show_record(client.hog_functions.retrieve(id))


@hog_functions.command(epilog="Example: backcast hog-functions create --to eu --data @function.json --enabled false")
@connected()
@_writable
def create(connection: Connection, data: str | None, **fields: Any) -> None:
    """Create a hog function. An option overrides the same field of --data."""
    sent = body(data, fields, plain=TEXTS)
    with connection.client() as client:
        connection.show_record(client.hog_functions.create(sent))


@hog_functions.command(epilog="Example: backcast hog-functions update --to eu 0190a2c4-… --enabled false")
@connected()
@management.item
@_writable
@management.put
def update(connection: Connection, id: str, data: str | None, put: bool, **fields: Any) -> None:
    """Set the fields given, and no other. An option overrides the same field of --data."""
    sent = body(data, fields, plain=TEXTS)
    with connection.client() as client:
        connection.show_record(client.hog_functions.update(id, sent, put=put))


@hog_functions.command(epilog="Example: backcast hog-functions delete --to eu 0190a2c4-…")
@connected()
@management.item
@management.yes
@click.option("--hard", is_flag=True, help="Explain why the service does not delete for good; nothing is sent.")
@click.option("--send", is_flag=True, help="With --hard: send the request all the same.")
def delete(connection: Connection, id: str, yes: bool, hard: bool, send: bool) -> None:
    """Soft-delete a hog function: `update ID --deleted false` brings it back."""
    if send and not hard:
        raise UsageError("--send goes with --hard", hint="without --hard the function is soft-deleted at once")
    if not hard or send:
        confirm(f"Delete hog function {id}?", yes)
    with connection.client() as client:
        if hard:
            client.hog_functions.hard_delete(id, send=send)
            function = None
        else:
            function = client.hog_functions.delete(id)
    deleted = {"id": id, "deleted": True} if function is None else function.plain()
    connection.show_line(deleted, f"Deleted hog function {id}.")


@hog_functions.command(epilog="Example: backcast hog-functions broadcast --to eu 0190a2c4-…")
@connected()
@management.item
@management.data
@management.yes
def broadcast(connection: Connection, id: str, data: str | None, yes: bool) -> None:
    """Run a hog function for the persons it matches."""
    sent = body(data, {}, empty=True)
    confirm(f"Run hog function {id} for every person it matches?", yes)
    with connection.client() as client:
        connection.show_answer(f"Broadcast {id}", client.hog_functions.broadcast(id, sent))


@hog_functions.command(epilog="Example: backcast hog-functions invoke --to eu 0190a2c4-… --data @invocation.json")
@connected()
@management.item
@management.data
def invoke(connection: Connection, id: str, data: str | None) -> None:
    """Run a hog function once, on the input in the body.

    The service replaces calls to the outside by mocks, unless the body has `"mock_async_functions": false`.
    """
    sent = body(data, {}, empty=True)
    with connection.client() as client:
        connection.show_answer(f"Invoked {id}", client.hog_functions.invoke(id, sent))


@hog_functions.command(epilog="Example: backcast hog-functions logs --to eu 0190a2c4-… --level error --limit 20")
@connected()
@management.item
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Lines at most.")
@click.option("--after", metavar="TIME", help="Only lines from this time on, as -7d or 2024-01-31.")
@click.option("--before", metavar="TIME", help="Only lines before this time.")
@click.option("--level", metavar="LEVEL", help="Only lines of this level, as error.")
@click.option("--search", metavar="TEXT", help="Only lines that contain this.")
@click.option("--instance-id", metavar="ID", help="Only lines of this run.")
def logs(connection: Connection, id: str, **filters: Any) -> None:
    """What a hog function logged, newest first."""
    with connection.client() as client:
        connection.show_answer(f"Logs of {id}", client.hog_functions.logs(id, **filters))


@hog_functions.command(epilog="Example: backcast hog-functions metrics --to eu 0190a2c4-… --after -7d --interval day")
@connected()
@management.item
@_measured
def metrics(connection: Connection, id: str, **filters: Any) -> None:
    """How often a hog function ran, over time."""
    with connection.client() as client:
        connection.show_answer(f"Metrics of {id}", client.hog_functions.metrics(id, **filters))


@hog_functions.command(epilog="Example: backcast hog-functions totals --to eu 0190a2c4-…")
@connected()
@management.item
@_measured
def totals(connection: Connection, id: str, **filters: Any) -> None:
    """How often a hog function ran, in all."""
    with connection.client() as client:
        connection.show_answer(f"Totals of {id}", client.hog_functions.metrics_totals(id, **filters))


@hog_functions.command(epilog="Example: backcast hog-functions icon --to eu --id slack.com --output slack.png")
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
    connection.show_line({"media_type": image.media_type, "bytes": len(image.content), "output": written}, f"{line}.")


@hog_functions.command(epilog="Example: backcast hog-functions icons --to eu --query slack")
@connected()
@click.option("--query", metavar="TEXT", help="Icons whose names contain this.")
def icons(connection: Connection, query: str | None) -> None:
    """The icons that the service has."""
    with connection.client() as client:
        connection.show_answer("Icons", client.hog_functions.icons(query))


@hog_functions.command(epilog="Example: backcast hog-functions rearrange --to eu 0190a2c4-…=1 0190a2c5-…=2")
@connected()
@click.argument("orders", metavar="[ID=N]...", nargs=-1)
@management.data
def rearrange(connection: Connection, orders: tuple[str, ...], data: str | None) -> None:
    """Set the execution order of several hog functions."""
    if bool(orders) == (data is not None):
        raise UsageError("rearrange takes ID=N pairs, or --data", hint="for example 0190a2c4-…=1 0190a2c5-…=2")
    order_by_id = _read_orders(orders)
    sent = None if data is None else body(data, {})
    with connection.client() as client:
        functions = [function.plain() for function in client.hog_functions.rearrange(order_by_id or None, body=sent)]
    connection.show_rows(functions, "Rearranged.", *COLUMNS)


def _read_orders(texts: tuple[str, ...]) -> dict[str, int]:
    orders: dict[str, int] = {}
    for text in texts:
        id, _, number = text.rpartition("=")
        if not id or not number.lstrip("-").isascii() or not number.lstrip("-").isdecimal() or len(number) > 18:
            raise UsageError(f"not ID=N: {text!r}", hint="for example 0190a2c4-…=1")
        if id in orders:
            raise UsageError(f"{id} is given twice", hint="give it once")
        orders[id] = int(number)
    return orders
