"""`backcast hog-functions`: one command an operation of the management API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from pipeline.cli import management
from pipeline.cli.management import Reach, agree, body, reaching
from pipeline.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

TEXTS = frozenset(("type", "kind", "name", "description", "icon_url", "template_id", "_create_in_folder"))
"""Writable fields whose option is the text itself; the others of them are JSON or have a type of their own."""
_id = click.argument("id", metavar="ID")
_truth = partial(click.option, type=management.TRUTH, callback=management.truth)
_json_field = "JSON|@FILE|-"


def _writable(command: F) -> F:
    """An option for each writable field (docs/know/service.md#hog-functions), in its order."""
    made: Any = command
    for decoration in reversed(
        (
            management.data,
            click.option("--type", metavar="TEXT"),
            click.option("--kind", metavar="TEXT"),
            click.option("--name", metavar="TEXT"),
            click.option("--description", metavar="TEXT"),
            _truth("--enabled"),
            _truth("--deleted", help="Soft-delete it, or bring it back."),
            click.option("--hog", metavar="TEXT|@FILE|-", help="Source code."),
            click.option("--inputs-schema", metavar=_json_field),
            click.option("--inputs", metavar=_json_field, help="Secrets belong in a file: @FILE."),
            click.option("--filters", metavar=_json_field),
            click.option("--masking", metavar=_json_field),
            click.option("--mappings", metavar=_json_field),
            click.option("--icon-url", metavar="URL"),
            click.option("--template-id", metavar="ID"),
            click.option("--execution-order", type=int, metavar="N"),
            click.option("--create-in-folder", "--_create_in_folder", "_create_in_folder", metavar="TEXT"),
        )
    ):
        made = decoration(made)
    result: F = made
    return result


@click.group("hog-functions", context_settings=management.NAMES)
def hog_functions() -> None:
    """Hog functions of a project: what the service runs on its events."""


@hog_functions.command("list", epilog="Example: backcast hog-functions list --to eu --type destination --enabled true")
@reaching()
@click.option("--created-at", metavar="TIME")
@click.option("--created-by", type=int, metavar="USER")
@_truth("--enabled")
@click.option("--exclude-kind", multiple=True, metavar="A,B")
@click.option("--id", metavar="ID")
@click.option("--kind", multiple=True, metavar="A,B")
@management.limit
@management.offset
@click.option("--type", multiple=True, metavar="A,B")
@click.option("--updated-at", metavar="TIME")
@management.every
def list_(reach: Reach, every: bool, **filters: Any) -> None:
    """The hog functions that every filter given finds."""
    from pipeline.report import resources

    with reach.client() as client:
        reach.show_list(client.hog_functions.list(**filters), every, resources.show_functions)


@hog_functions.command(epilog="Example: backcast hog-functions get --to eu 0190a2c4-… --json > function.json")
@reaching()
@_id
def get(reach: Reach, id: str) -> None:
    """One hog function, whole. Input values are shown with --json only."""
    with reach.client() as client:
        _show(reach, client.hog_functions.retrieve(id))


@hog_functions.command(epilog="Example: backcast hog-functions create --to eu --data @function.json --enabled false")
@reaching()
@_writable
def create(reach: Reach, data: str | None, **fields: Any) -> None:
    """Make a hog function. An option overrides the same field of --data."""
    sent = body(data, fields, plain=TEXTS)
    with reach.client() as client:
        _show(reach, client.hog_functions.create(sent))


@hog_functions.command(epilog="Example: backcast hog-functions update --to eu 0190a2c4-… --enabled false")
@reaching()
@_id
@_writable
@management.put
def update(reach: Reach, id: str, data: str | None, put: bool, **fields: Any) -> None:
    """Set the fields given, and no other. An option overrides the same field of --data."""
    sent = body(data, fields, plain=TEXTS)
    with reach.client() as client:
        _show(reach, client.hog_functions.update(id, sent, put=put))


@hog_functions.command(epilog="Example: backcast hog-functions delete --to eu 0190a2c4-…")
@reaching()
@_id
@management.yes
@click.option("--hard", is_flag=True, help="Say why the service does not delete for good; nothing is sent.")
@click.option("--send", is_flag=True, help="With --hard: ask the service all the same.")
def delete(reach: Reach, id: str, yes: bool, hard: bool, send: bool) -> None:
    """Soft-delete a hog function: `update ID --deleted false` brings it back."""
    from pipeline.report import resources

    if send and not hard:
        raise UsageError("--send goes with --hard", hint="without --hard the function is soft-deleted at once")
    if not hard or send:
        agree(f"Delete hog function {id}?", yes)
    with reach.client() as client:
        if hard:
            client.hog_functions.hard_delete(id, send=send)
            found = None
        else:
            found = client.hog_functions.delete(id)
    said = found.plain() if found is not None else {"id": id, "deleted": True}
    reach.show(said, lambda console: resources.show_line(console, f"Deleted hog function {id}."))


@hog_functions.command(epilog="Example: backcast hog-functions broadcast --to eu 0190a2c4-…")
@reaching()
@_id
@management.data
@management.yes
def broadcast(reach: Reach, id: str, data: str | None, yes: bool) -> None:
    """Run a hog function for the persons it matches."""
    sent = body(data, {}, empty=True)
    agree(f"Run hog function {id} for every person it matches?", yes)
    with reach.client() as client:
        _show_answer(reach, client.hog_functions.broadcast(id, sent), f"Broadcast {id}")


@hog_functions.command(epilog="Example: backcast hog-functions invoke --to eu 0190a2c4-… --data @invocation.json")
@reaching()
@_id
@management.data
def invoke(reach: Reach, id: str, data: str | None) -> None:
    """Run a hog function once, on what the body gives it.

    The service replaces calls to the outside by mocks, unless the body says `"mock_async_functions": false`.
    """
    sent = body(data, {}, empty=True)
    with reach.client() as client:
        _show_answer(reach, client.hog_functions.invoke(id, sent), f"Invoked {id}")


@hog_functions.command(epilog="Example: backcast hog-functions logs --to eu 0190a2c4-… --level error --limit 20")
@reaching()
@_id
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Lines at most.")
@click.option("--after", metavar="TIME")
@click.option("--before", metavar="TIME")
@click.option("--level", metavar="LEVEL")
@click.option("--search", metavar="TEXT")
@click.option("--instance-id", metavar="ID")
def logs(reach: Reach, id: str, **filters: Any) -> None:
    """What a hog function logged, newest first."""
    with reach.client() as client:
        _show_answer(reach, client.hog_functions.logs(id, **filters), f"Logs of {id}")


def _span(command: F) -> F:
    made: Any = command
    for name, metavar in (
        ("--instance-id", "ID"), ("--kind", "A,B"), ("--name", "A,B"), ("--breakdown-by", "name|kind"),
        ("--interval", "hour|day|week"), ("--before", "TIME"), ("--after", "TIME"),
    ):  # fmt: skip
        made = click.option(name, metavar=metavar)(made)
    result: F = made
    return result


@hog_functions.command(epilog="Example: backcast hog-functions metrics --to eu 0190a2c4-… --after -7d --interval day")
@reaching()
@_id
@_span
def metrics(reach: Reach, id: str, **filters: Any) -> None:
    """How often a hog function ran, over time."""
    with reach.client() as client:
        _show_answer(reach, client.hog_functions.metrics(id, **filters), f"Metrics of {id}")


@hog_functions.command(epilog="Example: backcast hog-functions totals --to eu 0190a2c4-…")
@reaching()
@_id
@_span
def totals(reach: Reach, id: str, **filters: Any) -> None:
    """How often a hog function ran, in all."""
    with reach.client() as client:
        _show_answer(reach, client.hog_functions.metrics_totals(id, **filters), f"Totals of {id}")


@hog_functions.command(epilog="Example: backcast hog-functions icon --to eu --id slack.com --output slack.png")
@reaching()
@click.option("--id", metavar="ID", help="Which icon.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there.")
def icon(reach: Reach, id: str | None, output: Path | None) -> None:
    """One icon: its size, and its bytes with --output."""
    from pipeline.report import resources

    with reach.client() as client:
        found = client.hog_functions.icon(id)
    if output is not None:
        output.write_bytes(found.content)
    written = None if output is None else str(output)
    said = {"media_type": found.media_type, "bytes": len(found.content), "output": written}
    line = f"{len(found.content):,} bytes of {found.media_type}" if found.content else "The service gave no icon"
    place = f", written to {output}" if output is not None else ""
    reach.show(said, lambda console: resources.show_line(console, f"{line}{place}."))


@hog_functions.command(epilog="Example: backcast hog-functions icons --to eu --query slack")
@reaching()
@click.option("--query", metavar="TEXT", help="Icons whose names hold this.")
def icons(reach: Reach, query: str | None) -> None:
    """What icons there are."""
    with reach.client() as client:
        _show_answer(reach, client.hog_functions.icons(query), "Icons")


@hog_functions.command(epilog="Example: backcast hog-functions rearrange --to eu 0190a2c4-…=1 0190a2c5-…=2")
@reaching()
@click.argument("orders", metavar="[ID=N]...", nargs=-1)
@management.data
def rearrange(reach: Reach, orders: tuple[str, ...], data: str | None) -> None:
    """Set the execution order of several hog functions."""
    from pipeline.report import resources

    if bool(orders) == (data is not None):
        raise UsageError("rearrange takes ID=N pairs, or --data", hint="for example 0190a2c4-…=1 0190a2c5-…=2")
    wanted = _orders(orders)
    sent = None if data is None else body(data, {})
    with reach.client() as client:
        found = client.hog_functions.rearrange(wanted or None, body=sent)
    plain = [one.plain() for one in found]

    def drawn(console: Any) -> None:
        resources.show_line(console, "Rearranged.")
        if plain:
            resources.show_functions(console, plain)

    reach.show(plain, drawn)


def _orders(texts: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        id, _, number = text.rpartition("=")
        if not id or not number.lstrip("-").isascii() or not number.lstrip("-").isdecimal() or len(number) > 18:
            raise UsageError(f"not ID=N: {text!r}", hint="for example 0190a2c4-…=1")
        if id in found:
            raise UsageError(f"{id} is given two places", hint="give it one")
        found[id] = int(number)
    return found


def _show(reach: Reach, found: Any) -> None:
    from pipeline.report import resources

    plain = found.plain()
    reach.show(plain, lambda console: resources.show_record(console, plain))


def _show_answer(reach: Reach, answer: Any, what: str) -> None:
    from pipeline.report import resources

    reach.show(answer, lambda console: resources.show_answer(console, what, answer))
