"""`backcast survey`: a look at an export before mapping."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from pipeline.cli import options
from pipeline.cli.options import console


@click.command(epilog="Example: backcast survey exports/2021-*.json.gz")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option("--rows", type=click.IntRange(1), metavar="N", help="How many rows to look at.  [default: 200,000]")
@click.option("--all", "every", is_flag=True, help="Look at every row.")
@options.as_json
def survey(sources: tuple[str, ...], rows: int | None, every: bool, as_json: bool) -> int:
    """Look at an export before mapping it.

    Says which tool it comes from, which fields and types it has, what time range, and in which zone its clock stood.
    """
    from pipeline.extract import open_source
    from pipeline.report.survey_view import show_survey
    from pipeline.survey import SAMPLE_ROWS
    from pipeline.survey import survey as look

    with tempfile.TemporaryDirectory() as spool:
        found = look(open_source(sources, spool=Path(spool)), rows=None if every else rows or SAMPLE_ROWS)
    if as_json:
        options.emit(found)
    else:
        show_survey(console(), found)
    return 0
