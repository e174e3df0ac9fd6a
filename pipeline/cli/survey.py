"""`backcast survey`: describe an export before mapping it."""

from __future__ import annotations

from functools import partial

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.progress import Surveying
from pipeline.options import SurveyOptions


@click.command(epilog="Example: backcast survey exports/2021-*.json.gz")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@takes(SurveyOptions)
@common.as_json
@common.quiet
def survey(sources: tuple[str, ...], options: SurveyOptions, as_json: bool, quiet: bool) -> int:
    """Describe an export before mapping it.

    Shows which tool it comes from, which fields and types it has, its time range, and the time zone of its timestamps.
    Exit 4 when it has no row, as for a plan of it.
    """
    from pipeline import api
    from pipeline.report.terminal.survey_view import show_survey
    from pipeline.survey.recognition import no_rows

    with Surveying(quiet=quiet) as progress:
        result = api.survey_export(sources, options, step=progress.step)
    if options.report is not None:
        from pipeline.report.page.survey_page import write_survey

        write_survey(options.report, result, sources, options.settings)
    show = partial(show_survey, survey=result, sources=sources, settings=options.settings)
    common.show(result, show, as_json=as_json, quiet=quiet)
    if not result.rows:
        raise no_rows(result.notices)
    return 0
