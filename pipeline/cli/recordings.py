"""`backcast recordings`: one command an operation of the management API."""

from __future__ import annotations

from typing import Any

import click

from pipeline.cli import management
from pipeline.cli.management import Reach, agree, body, reaching

_id = click.argument("id", metavar="ID")


@click.group(context_settings=management.NAMES)
def recordings() -> None:
    """Session recordings of a project."""


@recordings.command("list", epilog="Example: backcast recordings list --to eu --limit 20")
@reaching()
@management.limit
@management.offset
@management.every
def list_(reach: Reach, limit: int | None, offset: int | None, every: bool) -> None:
    """The recordings of the project."""
    from pipeline.report import resources

    with reach.client() as client:
        reach.show_list(client.session_recordings.list(limit=limit, offset=offset), every, resources.show_recordings)


@recordings.command(epilog="Example: backcast recordings get --to eu 0190a2c4-…")
@reaching()
@_id
def get(reach: Reach, id: str) -> None:
    """One recording, whole."""
    with reach.client() as client:
        _show(reach, client.session_recordings.retrieve(id))


@recordings.command(epilog="Example: backcast recordings update --to eu 0190a2c4-… --person @person.json")
@reaching()
@_id
@management.data
@click.option("--person", metavar="JSON|@FILE|-", help="Who the recording shows.")
@management.put
def update(reach: Reach, id: str, data: str | None, person: str | None, put: bool) -> None:
    """Set who a recording shows. --data holds what else the service takes, such as `"viewed": true`."""
    sent = body(data, {"person": person})
    with reach.client() as client:
        _show(reach, client.session_recordings.update(id, sent, put=put))


@recordings.command(epilog="Example: backcast recordings delete --to eu 0190a2c4-…")
@reaching()
@_id
@management.yes
def delete(reach: Reach, id: str, yes: bool) -> None:
    """Delete a recording for good."""
    from pipeline.report import resources

    agree(f"Delete recording {id} for good?", yes)
    with reach.client() as client:
        client.session_recordings.delete(id)
    reach.show({"id": id, "deleted": True}, lambda console: resources.show_line(console, f"Deleted recording {id}."))


@recordings.command(epilog="Example: backcast recordings sharing --to eu 0190a2c4-…")
@reaching()
@_id
def sharing(reach: Reach, id: str) -> None:
    """How a recording is common. Its access token is a secret, shown with --json only."""
    with reach.client() as client:
        _show(reach, client.session_recordings.sharing(id))


@recordings.command("refresh-sharing", epilog="Example: backcast recordings refresh-sharing --to eu 0190a2c4-…")
@reaching()
@_id
@management.yes
def refresh_sharing(reach: Reach, id: str, yes: bool) -> None:
    """Replace the access token of a shared recording. The contract does not have this operation."""
    agree(f"Replace the access token of recording {id}? Links with the old one stop working.", yes)
    with reach.client() as client:
        _show(reach, client.session_recordings.refresh_sharing(id))


def _show(reach: Reach, found: Any) -> None:
    from pipeline.report import resources

    plain = found.plain()
    reach.show(plain, lambda console: resources.show_record(console, plain))
