"""`backcast survey`: a look at an export before mapping."""

from __future__ import annotations

import click

from pipeline.cli import common
from pipeline.cli.common import console
from pipeline.cli.flags import takes
from pipeline.options import SurveyOptions


@click.command(epilog="Example: backcast survey exports/2021-*.json.gz")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@takes(SurveyOptions)
@common.as_json
def survey(sources: tuple[str, ...], options: SurveyOptions, as_json: bool) -> int:
    """Look at an export before mapping it.

    Shows which tool it comes from, which fields and types it has, its time range, and the time zone of its timestamps.
    Ends with 4 when it has no row, as a plan of it does.
    """
    from pipeline import api
    from pipeline.report.survey_view import show_survey
    from pipeline.survey.recognition import no_rows

    found = api.survey_export(sources, options)
    if as_json:
        common.emit(found)
    else:
        show_survey(console(), found)
    if not found.rows:
        raise no_rows(found.notices)
    return 0
