"""`backcast rejects`: the rows that could not be sent, and the events that the service refused."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click

from pipeline.cli import completing, options
from pipeline.cli.options import console
from pipeline.errors import UsageError


@click.command(epilog="Example: backcast rejects plan/ --code bad_json --format jsonl > mend.jsonl")
@options.directory
@click.option("--code", metavar="CODE", help="Only those with this code.", shell_complete=completing.codes)
@click.option("--format", "form", type=click.Choice(["table", "jsonl", "csv"]), default="table", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
@options.source_root
def rejects(directory: Path, code: str | None, form: str, as_json: bool, source_root: Path | None) -> int:
    """The rows that could not be sent, and the events that the service refused (code refused_event).

    Each has file, row, byte offset, code and text. `row` counts records from 1, 0 where the export is not there to find
    it; `offset` is in bytes of the decompressed part. In CSV a text that a spreadsheet would run as a formula has an
    apostrophe before it, and so has one that begins with an apostrophe.
    """
    import msgspec

    from pipeline import api
    from pipeline.report import terminal
    from pipeline.report.rejects import REFUSED, RefusedEvent
    from pipeline.report.spreadsheet import write_csv

    plan, place = api.load_plan(directory)
    refused = api.count_refused(place)
    codes = [*plan.rejects, *([REFUSED] if refused else [])]
    if code is not None and code not in codes:
        near = difflib.get_close_matches(code, codes, n=1)
        known = f"its codes are {', '.join(codes)}" if codes else "no row was rejected, and no event was refused"
        raise UsageError(
            f"nothing of this plan has the code {code!r}", hint=f"did you mean {near[0]!r}?" if near else known
        )
    found = (
        one
        for one in api.rejected(plan, place, source_root, warn=lambda line: click.echo(f"Warning: {line}", err=True))
        if code is None or one.code == code
    )
    with options.output():
        if as_json or form == "jsonl":
            sys.stdout.flush()
            for one in found:
                sys.stdout.buffer.write(msgspec.json.encode(one) + b"\n")
            sys.stdout.buffer.flush()
        elif form == "csv":
            names = RefusedEvent.__struct_fields__
            write_csv(sys.stdout, names, ([getattr(one, name, "") for name in names] for one in found))
        else:
            terminal.show_rejects(console(), found)
    return 0
