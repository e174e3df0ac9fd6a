"""`backcast survey`: a look at an export before mapping."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from pipeline.cli import options
from pipeline.cli.options import console
from pipeline.errors import UsageError


@click.command(epilog="Example: backcast survey exports/2021-*.json.gz")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option("--rows", type=click.IntRange(1), metavar="N", help="How many rows to look at.  [default: 200,000]")
@click.option("--all", "every", is_flag=True, help="Look at every row.")
@click.option("--set", "settings", multiple=True, metavar="header=yes|no", help="Whether CSV files have a header.")
@options.as_json
def survey(sources: tuple[str, ...], rows: int | None, every: bool, settings: tuple[str, ...], as_json: bool) -> int:
    """Look at an export before mapping it.

    Says which tool it comes from, which fields and types it has, what time range, and in which zone its clock stood.
    Ends with 4 when it holds no row, as a plan of it does.
    """
    from pipeline.extractors import open_source
    from pipeline.extractors.header import SETTING, asked
    from pipeline.report.survey_view import show_survey
    from pipeline.survey import SAMPLE_ROWS
    from pipeline.survey import survey as look

    given = options.settings(settings)
    if unknown := sorted(given.keys() - {SETTING}):
        raise UsageError(f"a survey knows no setting {unknown[0]!r}", hint=f"it knows: {SETTING}")
    with tempfile.TemporaryDirectory() as spool:
        source = open_source(sources, spool=Path(spool), header=asked(given))
        found = look(source, rows=None if every else rows or SAMPLE_ROWS)
    if as_json:
        options.emit(found)
    else:
        show_survey(console(), found)
    if not found.rows:
        from pipeline.api import no_rows

        raise no_rows(found.notices)
    return 0
