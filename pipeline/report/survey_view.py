"""A survey on a terminal: what the export is, its fields, events, hours of day and time zone."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pipeline.clock_offsets import offset_name
from pipeline.report.tables import heading, number, show_counts, show_notices, table, text
from pipeline.survey.shape import Survey
from pipeline.text import pluralize

MOST_PARTS = 20
MOST_FIELDS = 200
MOST_EVENTS = 20
MOST_MONTHS = 36
BAR_CHARACTERS = 40
NAME_CHARACTERS = 32
"""A field's name so long is not folded on a terminal of 80 columns."""
_BLOCKS = " ▏▎▍▌▋▊▉█"


def show_survey(console: Console, survey: Survey) -> None:
    """Every part of a survey, and its sentence last."""
    heading(console, "Survey", _about(survey))
    _parts(console, survey)
    _fields(console, survey)
    show_counts(console, "event", "rows", survey.events, MOST_EVENTS)
    _hours(console, survey)
    _zone(console, survey)
    _broken(console, survey)
    show_counts(console, "warning", "rows", survey.warnings, MOST_EVENTS)
    show_notices(console, survey.notices)
    console.print(Text(survey.sentence, style="bold"))


def _about(survey: Survey) -> str:
    if survey.tool:
        return f"looks like {survey.tool}"
    if survey.candidates:
        return "looks like " + " or ".join(survey.candidates)
    return "looks like no known tool"


def _parts(console: Console, survey: Survey) -> None:
    shown = table("part", "stored as", "#bytes", "#rows", "")
    for part in survey.parts[:MOST_PARTS]:
        state = Text("" if part.whole else "first rows", style="dim")
        if part.problem:
            state = Text("cannot be read", style="red")
        shown.add_row(text(part.path, 200), text(part.storage, 120), number(part.bytes), number(part.rows), state)
    others = survey.parts[MOST_PARTS:]
    if others:
        sums = number(sum(part.bytes for part in others)), number(sum(part.rows for part in others))
        shown.add_row(Text(pluralize(len(others), "more part"), style="dim"), "", *sums, "")
    console.print(shown)


def _fields(console: Console, survey: Survey) -> None:
    if not survey.fields:
        return
    shown = table("field", "looks like", "types", "#empty", "examples")
    longest = max(len(field.path) for field in survey.fields[:MOST_FIELDS])
    shown.columns[0].min_width = min(longest, NAME_CHARACTERS)  # examples fold before names do
    for field in survey.fields[:MOST_FIELDS]:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in field.types.items())
        shown.add_row(
            text(field.path, 120),
            Text(field.role_guess, style="bold cyan"),
            kinds,
            f"{field.null_rate:.1%}",
            text(" · ".join(field.examples[:3]), 140),
        )
    console.print(shown)
    others = len(survey.fields) - MOST_FIELDS
    if others > 0:
        console.print(Text(f"{pluralize(others, 'more field')}; all of them: --json", style="dim"))
    if survey.fields_left_out:
        console.print(
            Text(f"{pluralize(survey.fields_left_out, 'value')} in fields beyond those counted", style="yellow")
        )


def _hours(console: Console, survey: Survey) -> None:
    if not survey.time_field or survey.first is None:
        console.print(Text("No field of times was found.", style="yellow"))
        return
    field = f"{text(survey.time_field, 120).plain} ({survey.time_unit})"
    console.print(Text.assemble((field, "bold"), f"  {survey.first} to {survey.last}, source local time"))
    if survey.unread_times:
        console.print(Text(f"{pluralize(survey.unread_times, 'value')} of it cannot be read as times", style="yellow"))
    console.print(Text("hour of day, rows", style="bold"))
    for line in histogram(survey.hours):
        console.print(Text(line))
    show_counts(console, "month", "rows", survey.months, MOST_MONTHS)


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


def _zone(console: Console, survey: Survey) -> None:
    zone = survey.zone
    console.print(Text(zone.sentence, style="bold" if zone.months else "yellow"))
    if not any(month.offset for month in zone.months):
        return
    shown = table("month", "clock", "#rows", "#of")
    for month in zone.months[-MOST_MONTHS:]:
        shown.add_row(month.month, offset_name(month.offset), number(month.rows), number(month.of))
    console.print(shown)
    if zone.names:
        console.print(Text("Zones with these offsets: " + ", ".join(zone.names), style="dim"))


def _broken(console: Console, survey: Survey) -> None:
    if not survey.broken:
        return
    shown = table("broken rows", "#count", "first example")
    for code, example in survey.broken.items():
        shown.add_row(code, number(example.count), text(f"{example.part}, row {example.row:,}: {example.detail}", 300))
    console.print(shown)
