"""A survey on a terminal: what the export is, then its files, fields, events, hours of day and time zone; and as a
page, one file without scripts, with the pictures of a plan's report, before there is a mapping."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pipeline.charts.bars import bar, hour_chart, months_between, sparkline
from pipeline.charts.calendar import calendar
from pipeline.charts.timeline import timeline
from pipeline.clock_offsets import offset_name
from pipeline.errors import UsageError
from pipeline.files import may_replace, private, write_atomically
from pipeline.option_types import words_of
from pipeline.options import SurveyOptions
from pipeline.report.state import NextStep
from pipeline.report.terminal.steps import show_step
from pipeline.report.terminal.tables import bounded, number, show_counts, show_notices, show_table, table, text
from pipeline.survey.file_dates import files_of_days
from pipeline.survey.shape import DISTINCT_ID, EVENT, TIMESTAMP, UUID, Survey
from pipeline.text import pluralize, printable, quoted

MOST_NAMES_ON_PAGE = 30
MOST_FIELDS_ON_PAGE = 120
MOST_FILES_ON_PAGE = 120
MOST_PARTS = 20
MOST_FIELDS = 200
MOST_EVENTS = 20
MOST_MONTHS = 36
BAR_CHARACTERS = 40
NARROW = 110
"""Columns of a terminal below which types are folded."""
NAME_CHARACTERS = 32
"""A field's name of this length is not folded on a terminal of 80 columns."""
LEAST_MONTHS = 3
"""Fewer months make no picture."""
MOST_LISTED_MONTHS = 600
_HEIGHTS = " ▁▂▃▄▅▆▇█"
_BLOCKS = " ▏▎▍▌▋▊▉█"


def show_survey(console: Console, survey: Survey, sources: Sequence[str], options: SurveyOptions) -> None:
    """The answers, then the details, then what to do next with `sources`."""
    show_answers(console, survey)
    _parts(console, survey)
    _fields(console, survey)
    _events(console, survey)
    _hours(console, survey)
    _zone_months(console, survey)
    _broken(console, survey)
    show_counts(console, "warning", survey.warnings, _most(console, MOST_EVENTS))
    show_notices(console, survey.notices)
    show_step(console, next_step_of(survey, sources, options))


def show_answers(console: Console, survey: Survey) -> None:
    """The survey in one line; tool, storage, times, zone and its proof, and which columns are what."""
    console.print(Text(survey.sentence, style="bold"))
    shown = table("", "")
    shown.show_header = False
    shown.columns[0].no_wrap = True
    storage = Counter(part.storage for part in survey.parts)
    shown.add_row("tool", Text(about(survey), style="bold"))
    shown.add_row("stored as", text(", ".join(f"{name} ({pluralize(n, 'file')})" for name, n in storage.items()), 400))
    if survey.first is None:
        shown.add_row("times", Text("no field of times was found", style="yellow"))
    else:
        shown.add_row("times", f"{survey.first} to {survey.last}, {clock_of(survey)}")
        for far in survey.far:
            shown.add_row("", Text(far.sentence, style="yellow"))
    shown.add_row(
        "zone", Text(survey.zone.sentence, style="" if survey.zone.months or clock_of(survey) == "UTC" else "yellow")
    )
    for role, names in roles_of(survey):
        shown.add_row(role, text(names or "not found", 400))
    console.print(shown)


def roles_of(survey: Survey) -> list[tuple[str, str]]:
    """Which fields look like the event, its time, its person and its id."""
    return [
        (role, ", ".join(field.path for field in survey.fields if field.role_guess == role))
        for role in (EVENT, TIMESTAMP, DISTINCT_ID, UUID)
    ]


def clock_of(survey: Survey) -> str:
    return "UTC" if (survey.last or "").endswith("Z") else "no zone named"


def about(survey: Survey) -> str:
    """The tool, or the tools that it may be."""
    if survey.tool:
        return survey.tool
    if survey.candidates:
        return " or ".join(survey.candidates)
    return "no known tool"


def next_step_of(survey: Survey, sources: Sequence[str], options: SurveyOptions) -> NextStep:
    """Plan the export with the mapping of its tool, or write a mapping; with the same settings of --set, and with the
    table of event names that was written."""
    names = " ".join(map(quoted, [*sources, *words_of(options.settings)]))
    tool = fspath(options.mapping or survey.tool or "")
    if not survey.rows:
        return NextStep("Look at the files: no row of them can be read.", "")
    if not tool:
        mapping = f"backcast mapping new {names} --ask -o mapping.yaml"
        return NextStep("Write a mapping for this export, which asks what the rows do not show:", mapping)
    zone = "".join(f" --timezone {one}" for one in " ".join(survey.zone.names[:1]).split())
    sentence = "Plan it; nothing is sent."
    if len(survey.zone.names) > 1:
        sentence += " Other zones have these offsets too: name the one that the project has."
    scope = ""
    if options.scope is not None:
        sentence = f"Write no under `keep` in {options.scope} for each event name to leave out. {sentence}"
        scope = f" --scope {quoted(fspath(options.scope))}"
    return NextStep(sentence, f"backcast plan {names} -m {quoted(tool)}{zone}{scope} -o plan")


def _most(console: Console, lines: int) -> int:
    """How many lines a list has on a terminal; what a pipe reads has all of them."""
    return lines if console.is_terminal else sys.maxsize


def _parts(console: Console, survey: Survey) -> None:
    rows: list[tuple[str | Text, str, int, int, str | Text]] = []
    most = _most(console, MOST_PARTS)
    for part in survey.parts[:most]:
        state = Text("" if part.whole else "first rows", style="dim")
        if part.problem:
            state = Text("cannot be read", style="red")
        rows.append((part.path, part.storage, part.bytes, part.rows, state))
    if others := survey.parts[most:]:
        sums = sum(part.bytes for part in others), sum(part.rows for part in others)
        rows.append((Text(pluralize(len(others), "more file"), style="dim"), "", *sums, ""))
    show_table(console, {"file": 200, "stored as": 120, "#bytes": 0, "#rows": 0, "": 20}, rows)


def _fields(console: Console, survey: Survey) -> None:
    if not survey.fields:
        return
    shown = table("field", "#empty", "types", "examples")
    most = _most(console, MOST_FIELDS)
    longest = max(len(field.path) for field in survey.fields[:most])
    # Widths of their own: rich crops a table whose least widths exceed the terminal's. Examples fold before names do.
    name = max(12, min(longest, NAME_CHARACTERS, console.width // 3 + 6))
    types = 18 if console.width < NARROW else 40
    widths = (name, 6, types, max(8, console.width - name - types - 6 - 3 * 2))
    for column, width in zip(shown.columns, widths, strict=True):
        column.width = width
    for field in survey.fields[:most]:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in field.types.items())
        shown.add_row(text(field.path, 120), f"{field.null_rate:.1%}", kinds, text(" · ".join(field.examples[:3]), 140))
    console.print(shown)
    others = len(survey.fields) - most
    if others > 0:
        console.print(Text(f"{pluralize(others, 'more field')}; all of them: --json", style="dim"))
    if survey.fields_left_out:
        console.print(
            Text(f"{pluralize(survey.fields_left_out, 'value')} in fields beyond those counted", style="yellow")
        )


def _events(console: Console, survey: Survey) -> None:
    """Event names with their rows, and a bar for each month if there is room for it."""
    months = months_of(survey)
    if len(months) < LEAST_MONTHS or not survey.event_months:
        show_counts(console, "event", survey.events, _most(console, MOST_EVENTS))
        return
    top = bounded(survey.events, _most(console, MOST_EVENTS))
    name = min(max(len("event"), *(cell_len(printable(one, 120)) for one, _ in top.shown)), NAME_CHARACTERS)
    rows = max(len(number(count)) for _, count in [*top.shown, ("", top.other_count)])
    groups = grouped(months, max(8, min(MOST_MONTHS, console.width - name - max(rows, len("rows")) - 3 * 2)))
    shown = table("event", "#rows", f"{groups[0][0]} to {groups[-1][-1]}")
    shown.columns[0].width = name
    shown.columns[2].no_wrap = True
    for one, count in top.shown:
        counts = survey.event_months.get(one, {})
        heights = [sum(counts.get(month, 0) for month in some) for some in groups]
        shown.add_row(text(one, 120), number(count), heights_of(heights))
    if top.more:
        shown.add_row(Text(top.more, style="dim"), number(top.other_count), "")
    console.print(shown)


def months_of(survey: Survey) -> list[str]:
    """Every month from the first with rows to the last, without those of far rows."""
    return months_between([*filter(survey.is_usual, survey.months)])[:MOST_LISTED_MONTHS]


def grouped(months: Sequence[str], most: int) -> list[Sequence[str]]:
    """The months in groups of equal length, at most this many groups."""
    size = -(-len(months) // most)
    return [months[start : start + size] for start in range(0, len(months), size)]


def heights_of(counts: Sequence[int]) -> str:
    """A character for each count, as high as its share of the largest; a dot for none."""
    most = max(counts, default=0)
    return "".join(_HEIGHTS[max(1, round(count * 8 / most))] if count else "·" for count in counts)


def _hours(console: Console, survey: Survey) -> None:
    if not survey.time_field or survey.first is None:
        return
    if survey.unread_times:
        values = pluralize(survey.unread_times, "value")
        unread = f"{values} of {printable(survey.time_field, 120)} cannot be read as times"
        console.print(Text(unread, style="yellow"))
    console.print(Text(f"hour of day ({clock_of(survey)}), rows", style="bold"))
    for line in histogram(survey.hours):
        console.print(Text(line))
    show_counts(console, "month", survey.months, _most(console, MOST_MONTHS))


def histogram(hours: Sequence[int]) -> list[str]:
    """24 lines, one an hour of day: `09 1,234 ████████▌`. The fullest hour is 40 characters long."""
    most = max(hours, default=0)
    width = len(f"{most:,}")
    return [f"{hour:02d} {f'{count:,}':>{width}} {_bar(count, most)}".rstrip() for hour, count in enumerate(hours)]


def _bar(count: int, most: int) -> str:
    """A bar in eighths of a character, at least one eighth unless the count is 0."""
    if not count:
        return ""
    eighths = max(1, round(count * BAR_CHARACTERS * 8 / most))
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()


def _zone_months(console: Console, survey: Survey) -> None:
    zone = survey.zone
    if not any(month.offset for month in zone.months):
        return
    rows = [
        (month.month, offset_name(month.offset), month.rows, month.of)
        for month in zone.months[-_most(console, MOST_MONTHS) :]
    ]
    show_table(console, {"month": 20, "clock": 40, "#rows": 0, "#of": 0}, rows)
    if len(zone.names) > 1:
        console.print(Text("Zones with these offsets: " + ", ".join(zone.names), style="dim"))


def _broken(console: Console, survey: Survey) -> None:
    show_table(console, {"broken rows": 80, "#count": 0, "first example": 300}, [
        (code, one.count, f"{one.part}, row {one.row:,}: {one.detail}") for code, one in survey.broken.items()
    ])  # fmt: skip


@private()
def write_survey(
    path: str | PathLike[str],
    survey: Survey,
    sources: Sequence[str],
    options: SurveyOptions,
) -> None:
    """Write the page. Raises UsageError if the file cannot be written."""
    file = Path(fspath(path))
    may_replace(file, (b"<!doctype html>", b"<!DOCTYPE html>"), "--report")
    try:
        write_atomically(file, render(survey, sources, options).encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}", hint="choose another file with --report") from None


def render(survey: Survey, sources: Sequence[str], options: SurveyOptions) -> str:
    """The page as text. The same survey gives the same page."""
    from pipeline.report.page.html import rendered

    names = list(survey.events.items())
    most = max(survey.events.values(), default=0)
    months = months_of(survey)
    days = {day: count for day, count in survey.days.items() if survey.is_usual(day)}
    by_month = {
        name: sparkline(counts, months, "rows")
        for name, counts in survey.event_months.items()
        if len(months) >= LEAST_MONTHS
    }
    zone = [(month, offset_name(month.offset)) for month in survey.zone.months]
    return rendered(
        "survey.html.j2",
        survey=survey,
        about=about(survey),
        title=printable(about(survey), 200),
        clock=clock_of(survey),
        roles=roles_of(survey),
        line=timeline(days, gaps_shown=not survey.sampled, what="rows"),  # in a sample, days are missing
        hours=hour_chart([(clock_of(survey), survey.hours)]),
        names=[(name, count, bar(count, most), by_month.get(name, "")) for name, count in names[:MOST_NAMES_ON_PAGE]],
        months_from=months[0] if by_month else "",
        months_to=months[-1] if by_month else "",
        more_names=max(0, len(names) - MOST_NAMES_ON_PAGE),
        calendar=calendar(files_of_days([part.path for part in survey.parts])),
        fields=survey.fields[:MOST_FIELDS_ON_PAGE],
        more_fields=max(0, len(survey.fields) - MOST_FIELDS_ON_PAGE),
        files=survey.parts[:MOST_FILES_ON_PAGE],
        more_files=max(0, len(survey.parts) - MOST_FILES_ON_PAGE),
        months=zone if any(month.offset for month in survey.zone.months) else [],
        next=next_step_of(survey, sources, options),
    )
