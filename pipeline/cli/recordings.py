"""`backcast recordings`: one command an operation of the management API."""

from __future__ import annotations

from typing import Any

import click

from pipeline.cli import management
from pipeline.cli.management import Connection, body, confirm, connected


@click.group(context_settings=management.NAMES, epilog="Example: backcast recordings list --to eu --limit 20")
def recordings() -> None:
    """Session recordings of a project."""


@recordings.command("list", epilog="Example: backcast recordings list --to eu --limit 20")
@connected()
@management.limit
@management.offset
@management.every
def list_(connection: Connection, every: bool, **page: Any) -> None:
    """The recordings of the project."""
    columns = ("id", "distinct_id", "start_time", "recording_duration", "viewed", "ongoing")
    with connection.client() as client:
        connection.show_list(client.session_recordings.list(**page), every, *columns)


@recordings.command(epilog="Example: backcast recordings get --to eu 0190a2c4-…")
@connected()
@management.item
def get(connection: Connection, id: str) -> None:
    """One recording, whole."""
    with connection.client() as client:
        connection.show_record(client.session_recordings.retrieve(id))


@recordings.command(epilog="Example: backcast recordings update --to eu 0190a2c4-… --person @person.json")
@connected()
@management.item
@management.data
@click.option("--person", metavar="JSON|@FILE|-", help="Who the recording shows.")
@management.put
def update(connection: Connection, id: str, data: str | None, person: str | None, put: bool) -> None:
    """Set who a recording shows. Other fields that the service takes go in --data, such as `"viewed": true`."""
    sent = body(data, {"person": person})
    with connection.client() as client:
        connection.show_record(client.session_recordings.update(id, sent, put=put))


@recordings.command(epilog="Example: backcast recordings delete --to eu 0190a2c4-…")
@connected()
@management.item
@management.yes
def delete(connection: Connection, id: str, yes: bool) -> None:
    """Delete a recording for good."""
    confirm(f"Delete recording {id} for good?", yes)
    with connection.client() as client:
        client.session_recordings.delete(id)
    connection.show_line({"id": id, "deleted": True}, f"Deleted recording {id}.")


@recordings.command(epilog="Example: backcast recordings sharing --to eu 0190a2c4-…")
@connected()
@management.item
def sharing(connection: Connection, id: str) -> None:
    """How a recording is shared. Its access token is a secret, shown with --json only."""
    with connection.client() as client:
        connection.show_record(client.session_recordings.sharing(id))


@recordings.command("refresh-sharing", epilog="Example: backcast recordings refresh-sharing --to eu 0190a2c4-…")
@connected()
@management.item
@management.yes
def refresh_sharing(connection: Connection, id: str, yes: bool) -> None:
    """Replace the access token of a shared recording. The contract does not have this operation."""
    confirm(f"Replace the access token of recording {id}? Links with the old one stop working.", yes)
    with connection.client() as client:
        connection.show_record(client.session_recordings.refresh_sharing(id))
