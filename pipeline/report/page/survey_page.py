"""A survey as a page: one file without scripts, with the pictures of a plan's report, before there is a mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType

from pipeline import charts
from pipeline.charts.bars import bar, sparkline
from pipeline.charts.calendar import calendar
from pipeline.charts.hours import hour_chart
from pipeline.charts.timeline import timeline
from pipeline.clock_offsets import offset_name
from pipeline.errors import UsageError
from pipeline.files import may_replace, private, write_atomically
from pipeline.plan.file_dates import files_of_days
from pipeline.report.page.html import environment
from pipeline.report.terminal.survey_view import LEAST_MONTHS, about, clock_of, months_of, next_step_of, roles_of
from pipeline.survey.shape import Survey
from pipeline.text import printable

MOST_NAMES = 30
MOST_FIELDS = 120
MOST_FILES = 120


@private()
def write_survey(
    path: str | PathLike[str],
    survey: Survey,
    sources: Sequence[str],
    settings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the page. Raises UsageError where the file cannot be written."""
    file = Path(fspath(path))
    may_replace(file, (b"<!doctype html>", b"<!DOCTYPE html>"), "--report")
    try:
        write_atomically(file, render(survey, sources, settings).encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}", hint="choose another file with --report") from None


def render(survey: Survey, sources: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})) -> str:
    """The page as text. The same survey gives the same page."""
    names = list(survey.events.items())
    most = max(survey.events.values(), default=0)
    months = months_of(survey)
    by_month = {
        name: sparkline([counts.get(month, 0) for month in months], f"rows by month, {months[0]} to {months[-1]}")
        for name, counts in survey.event_months.items()
        if len(months) >= LEAST_MONTHS
    }
    zone = [(month, offset_name(month.offset)) for month in survey.zone.months]
    return (
        environment()
        .get_template("survey.html.j2")
        .render(
            survey=survey,
            chart_style=charts.style(),
            about=about(survey),
            title=printable(about(survey), 200),
            clock=clock_of(survey),
            roles=roles_of(survey),
            line=timeline(survey.days, gaps_shown=not survey.sampled, what="rows"),  # of a sample, days are missing
            hours=hour_chart([(clock_of(survey), survey.hours)]),
            names=[(name, count, bar(count, most), by_month.get(name, "")) for name, count in names[:MOST_NAMES]],
            months_from=months[0] if by_month else "",
            months_to=months[-1] if by_month else "",
            more_names=max(0, len(names) - MOST_NAMES),
            calendar=calendar(files_of_days([part.path for part in survey.parts]), "file", "files"),
            fields=survey.fields[:MOST_FIELDS],
            more_fields=max(0, len(survey.fields) - MOST_FIELDS),
            files=survey.parts[:MOST_FILES],
            more_files=max(0, len(survey.parts) - MOST_FILES),
            months=zone if any(month.offset for month in survey.zone.months) else [],
            next=next_step_of(survey, sources, settings),
        )
    )
