"""A survey on a terminal: what the export is, then its files, fields, events, hours of day and time zone."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pipeline.clock_offsets import offset_name
from pipeline.report.next_step import NextStep
from pipeline.report.terminal.steps import show_step
from pipeline.report.terminal.tables import bounded, number, show_counts, show_notices, table, text
from pipeline.survey.shape import DISTINCT_ID, EVENT, TIMESTAMP, UUID, Survey
from pipeline.text import pluralize, printable

MOST_PARTS = 20
MOST_FIELDS = 200
MOST_EVENTS = 20
MOST_MONTHS = 36
BAR_CHARACTERS = 40
NARROW = 110
"""Columns of a terminal below which types are folded."""
NAME_CHARACTERS = 32
"""A field's name so long is not folded on a terminal of 80 columns."""
LEAST_MONTHS = 3
"""Fewer months make no picture."""
MOST_LISTED_MONTHS = 600
_HEIGHTS = " ▁▂▃▄▅▆▇█"
_BLOCKS = " ▏▎▍▌▋▊▉█"


def show_survey(
    console: Console, survey: Survey, sources: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})
) -> None:
    """The answers, then the details, then what to do next with `sources`."""
    console.print(Text(survey.sentence, style="bold"))
    _answers(console, survey)
    _parts(console, survey)
    _fields(console, survey)
    _events(console, survey)
    _hours(console, survey)
    _zone_months(console, survey)
    _broken(console, survey)
    show_counts(console, "warning", "rows", survey.warnings, MOST_EVENTS)
    show_notices(console, survey.notices)
    show_step(console, next_step_of(survey, sources, settings))


def _answers(console: Console, survey: Survey) -> None:
    """Tool, storage, times, zone and its proof, and which columns are what."""
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
    """The clock of the times of a survey."""
    return "UTC" if (survey.last or "").endswith("Z") else "source local time"


def about(survey: Survey) -> str:
    """The tool, or the tools that it may be."""
    if survey.tool:
        return survey.tool
    if survey.candidates:
        return " or ".join(survey.candidates)
    return "no known tool"


def next_step_of(
    survey: Survey, sources: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})
) -> NextStep:
    """Plan the export with the mapping of its tool, or write a mapping; with the same settings of --set."""
    names = shlex.join([*sources, *(word for one in settings.items() for word in ("--set", "=".join(one)))])
    if not survey.rows:
        return NextStep("Look at the files: no row of them can be read.", "")
    if not survey.tool:
        mapping = f"backcast mapping new {names} --ask -o mapping.yaml"
        return NextStep("Write a mapping for this export, which asks what the rows do not show:", mapping)
    zone = f" --timezone {survey.zone.names[0]}" if survey.zone.names else ""
    sentence = "Plan it; nothing is sent."
    if len(survey.zone.names) > 1:
        sentence += " Other zones have these offsets too: name the one that the project has."
    return NextStep(sentence, f"backcast plan {names} -m {survey.tool}{zone} -o plan")


def _parts(console: Console, survey: Survey) -> None:
    shown = table("file", "stored as", "#bytes", "#rows", "")
    for part in survey.parts[:MOST_PARTS]:
        state = Text("" if part.whole else "first rows", style="dim")
        if part.problem:
            state = Text("cannot be read", style="red")
        shown.add_row(text(part.path, 200), text(part.storage, 120), number(part.bytes), number(part.rows), state)
    others = survey.parts[MOST_PARTS:]
    if others:
        sums = number(sum(part.bytes for part in others)), number(sum(part.rows for part in others))
        shown.add_row(Text(pluralize(len(others), "more file"), style="dim"), "", *sums, "")
    console.print(shown)


def _fields(console: Console, survey: Survey) -> None:
    if not survey.fields:
        return
    shown = table("field", "#empty", "types", "examples")
    longest = max(len(field.path) for field in survey.fields[:MOST_FIELDS])
    # Widths of their own: rich crops a table whose least widths exceed the terminal's. Examples fold before names do.
    name = max(12, min(longest, NAME_CHARACTERS, console.width // 3 + 6))
    types = 18 if console.width < NARROW else 40
    widths = (name, 6, types, max(8, console.width - name - types - 6 - 3 * 2))
    for column, width in zip(shown.columns, widths, strict=True):
        column.width = width
    for field in survey.fields[:MOST_FIELDS]:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in field.types.items())
        shown.add_row(text(field.path, 120), f"{field.null_rate:.1%}", kinds, text(" · ".join(field.examples[:3]), 140))
    console.print(shown)
    others = len(survey.fields) - MOST_FIELDS
    if others > 0:
        console.print(Text(f"{pluralize(others, 'more field')}; all of them: --json", style="dim"))
    if survey.fields_left_out:
        console.print(
            Text(f"{pluralize(survey.fields_left_out, 'value')} in fields beyond those counted", style="yellow")
        )


def _events(console: Console, survey: Survey) -> None:
    """Event names with their rows, and a bar for each month where there is room for it."""
    months = months_of(survey)
    if len(months) < LEAST_MONTHS or not survey.event_months:
        show_counts(console, "event", "rows", survey.events, MOST_EVENTS)
        return
    top = bounded(survey.events, MOST_EVENTS)
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
    """Every month from the first with rows to the last."""
    found = sorted(survey.months)
    if not found or len(found[0]) != len("2021-03"):
        return []
    first, last = (int(month[:4]) * 12 + int(month[5:]) - 1 for month in (found[0], found[-1]))
    last = min(last, first + MOST_LISTED_MONTHS - 1)
    return [f"{month // 12:04d}-{month % 12 + 1:02d}" for month in range(first, last + 1)]


def grouped(months: Sequence[str], most: int) -> list[Sequence[str]]:
    """The months in groups of equal length, at most so many."""
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


def _zone_months(console: Console, survey: Survey) -> None:
    zone = survey.zone
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
