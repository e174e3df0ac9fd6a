"""`backcast rejects`: the rows that could not be sent, and the events that the service refused."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipeline.cli import common
from pipeline.cli.common import console
from pipeline.cli.flags import takes
from pipeline.options import RejectsOptions


@click.command(epilog="Example: backcast rejects plan/ --code bad_json --format jsonl > rejected.jsonl")
@common.directory
@takes(RejectsOptions)
@click.option("--format", "form", type=click.Choice(["table", "jsonl", "csv"]), default="table", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
def rejects(directory: Path, options: RejectsOptions, form: str, as_json: bool) -> int:
    """The rows that could not be sent, and the events that the service refused (code refused_event).

    Each has file, row, byte offset, code and text. `row` counts records from 1, 0 where the export cannot be
    read; `offset` is in bytes of the decompressed part. In CSV a text that a spreadsheet would run as a formula has an
    apostrophe before it, and so has a text that starts with an apostrophe.
    """
    import msgspec

    from pipeline import api
    from pipeline.report import terminal
    from pipeline.report.rejects import RefusedEvent, write_csv

    rows = api.read_rejects(directory, options, warn=common.warn)
    with common.output():
        if as_json or form == "jsonl":
            sys.stdout.flush()
            for row in rows:
                sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
            sys.stdout.buffer.flush()
        elif form == "csv":
            names = [*(name for name in RefusedEvent.__struct_fields__ if name != "item"), "item"]
            write_csv(
                sys.stdout, names, ([*(getattr(row, name, "") for name in names[:-1]), row.item or ""] for row in rows)
            )
        else:
            terminal.show_rejects(console(), rows)
    return 0
