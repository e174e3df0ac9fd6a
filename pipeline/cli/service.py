"""`backcast service`: the local service."""

from __future__ import annotations

import signal
from pathlib import Path

import click


@click.command(epilog="Example: backcast service --port 8100 --store landed.duckdb")
@click.option("--port", type=click.IntRange(0, 65535), default=8100, show_default=True, help="0 takes a free one.")
@click.option("--store", type=click.Path(path_type=Path), metavar="FILE", help="Keep what lands in this file.")
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE",
    help="Projects and keys, as JSON.",
)
def service(port: int, store: Path | None, keys_file: Path | None) -> int:
    """The local service, which stands in for the real one.

    It listens on 127.0.0.1 only, speaks the capture and query endpoints and keeps what lands in DuckDB. Without --keys
    it makes project 1 with a capture key and a personal key, and prints them.
    """
    from pipeline.errors import UsageError
    from pipeline.service.keys import generated, load
    from pipeline.service.server import LocalService

    try:
        keys = load(keys_file) if keys_file else generated()
        running = LocalService(store, port=port, keys=keys)
    except (OSError, ValueError) as error:
        raise UsageError(f"the service cannot start: {error}", hint="choose another --port, or mend the file") from None
    # The server gives a signal back once it has ended: being asked to stop is no error here.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        click.echo(f"Local service at {running.url}")
        if keys_file is None:
            click.echo(f"BACKCAST_PROJECT_KEY={running.capture_key}")
            click.echo(f"BACKCAST_PERSONAL_KEY={running.personal_key}")
        click.echo("Press Ctrl-C to stop.", err=True)
        running.serve()
    except _Stopped:
        running.close()
    return 0


class _Stopped(BaseException):
    """Somebody asked the service to end."""


def _stop(*_: object) -> None:
    raise _Stopped
