"""`backcast rejects`: the rows that could not be sent."""

from __future__ import annotations

import csv
import difflib
import sys
from pathlib import Path

import click

from pipeline.cli import completing, options
from pipeline.cli.options import console
from pipeline.errors import UsageError


@click.command(epilog="Example: backcast rejects plan/ --code bad_json --format jsonl > mend.jsonl")
@options.directory
@click.option("--code", metavar="CODE", help="Only rejects with this code.", shell_complete=completing.codes)
@click.option("--format", "form", type=click.Choice(["table", "jsonl", "csv"]), default="table", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
def rejects(directory: Path, code: str | None, form: str, as_json: bool) -> int:
    """The rows that could not be sent, with file, row, byte offset, code and text.

    `row` counts records from 1; `offset` is in bytes of the decompressed part.
    """
    import msgspec

    from pipeline import workflow
    from pipeline.plan.directory import read_lines
    from pipeline.report import terminal
    from pipeline.schema import Reject

    plan, place = workflow.load_plan(directory)
    if code is not None and code not in plan.rejects:
        near = difflib.get_close_matches(code, plan.rejects, n=1)
        known = f"its codes are {', '.join(plan.rejects)}" if plan.rejects else "it rejects no row at all"
        raise UsageError(
            f"no row of this plan was rejected with the code {code!r}",
            hint=f"did you mean {near[0]!r}?" if near else known,
        )
    found = (one for one in read_lines(place.rejects, Reject) if code is None or one.code == code)
    with options.output():
        if as_json or form == "jsonl":
            sys.stdout.flush()
            for one in found:
                sys.stdout.buffer.write(msgspec.json.encode(one) + b"\n")
            sys.stdout.buffer.flush()
        elif form == "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(Reject.__struct_fields__)
            writer.writerows(msgspec.structs.astuple(one) for one in found)
        else:
            terminal.show_rejects(console(), found)
    return 0
