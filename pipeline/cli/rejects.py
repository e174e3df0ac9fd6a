"""`backcast rejects`: the rows that could not be sent, and the events that the service refused."""

from __future__ import annotations

import shlex
import sys

import click

from pipeline.cli import common
from pipeline.cli.common import console
from pipeline.cli.flags import takes
from pipeline.options import RejectsOptions


@click.command(epilog="Example: backcast rejects plan/ --code bad_json --format jsonl > rejected.jsonl")
@common.directory
@takes(RejectsOptions)
@click.option("--all", "every", is_flag=True, help="List each of them, not only one example of each code.")
@click.option(
    "--format", "form", type=click.Choice(["table", "jsonl", "csv"]), default="table", show_default=True,
    help="Text for people, or each of them as JSON lines or CSV.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
def rejects(directory: str, options: RejectsOptions, every: bool, form: str, as_json: bool) -> int:
    """The rows that could not be sent, and the events that the service refused (code refused_event).

    They are grouped by code, each with its count and one example; --all lists them. Duplicates that differ from the
    event that is sent in their place (superseded) are counted, too, with the first of them and what differs; its values
    are masked unless the plan was made with --show-values.

    Each has file, row, byte offset, code and text. `row` counts records from 1, 0 where the export cannot be read;
    `offset` is in bytes of the decompressed file. In CSV a text that a spreadsheet would run as a formula has an
    apostrophe before it, and so has a text that starts with an apostrophe.
    """
    import msgspec

    from pipeline import api
    from pipeline.report.rejects import RefusedEvent, read_superseded, write_csv

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
        elif every:
            from pipeline.report.terminal import rejects_view

            rejects_view.show_each(console(), rows)
        else:
            from pipeline.report.terminal import rejects_view

            code = "" if options.code is None else f" --code {shlex.quote(options.code)}"
            command = f"backcast rejects {shlex.quote(directory)}{code}"
            superseded = read_superseded(directory) if options.code is None else None
            rejects_view.show_groups(console(), rows, command, superseded)
    return 0
