"""The sections of a draft for the event's time and the time at which the tool received it."""

from __future__ import annotations

import re

from pipeline.mapper.language.scalars import comment, quoted, scalar
from pipeline.survey.clock import ENOUGH, Clock
from pipeline.survey.columns import Column
from pipeline.survey.draft.decisions import MOST_OPTIONS, Choice, Decisions, Option, rows_without
from pipeline.survey.roles.times import TimeColumn, received_in
from pipeline.text import pluralize, printable
from pipeline.timestamps import format_utc

_SAYS_UTC = re.compile(r"utc|gmt", re.IGNORECASE)
_HOURS = re.compile(r"[0-2]?\d:[0-5]\d(?::[0-5]\d)?$", re.ASCII)
NO_TIME = "{const: ''}"
_NAMED_LIKE_A_TIME = re.compile(r"time|date|(?:^|_)at$")


def time_sections(known: Decisions) -> str:
    """`time`, and `received` if a column shows it."""
    if (hours := _hours_beside_days(known)) is not None:
        known.dropped += [known.clocks[0].column.steps, hours.steps]
        text, lines = _clock(known, known.clocks[0], hours)
        return "\n".join(["", "# The event's time: a day and an hour.", *lines, "time:", f"  - {text}"])
    text, lines = _column(known)
    chosen = next((one for one in known.clocks if known.ref(one.column) == text), None)
    if chosen is None:
        zone = "" if text == NO_TIME or text.startswith("{const:") else ", space: yes, zone: local"
        return "\n".join(["", "# The event's time.", *lines, "time:", f"  - {{from: {text}{zone}}}"])
    known.dropped.append(chosen.column.steps)
    missing = rows_without(chosen.column)
    others = (one for one in known.clocks if one is not chosen and one.known and one.clock.has_hours)
    clocks = [chosen, *[one for one in others if missing & set(one.column.rows)][:1]]
    written = []
    for one in clocks:
        text, comments = _clock(known, one)
        lines += comments
        written.append(f"  - {text}")
    received = received_in(column for column in known.columns.values() if column.steps != chosen.column.steps)
    if received is not None and (_has_offset(received) or known.answers.get("zone") == "utc"):
        written += ["", "# When the tool received the row.", "received:", f"  - {_clock(known, received)[0]}"]
    return "\n".join(["", "# The event's time.", *lines, "time:", *written])


def _column(known: Decisions) -> tuple[str, list[str]]:
    """The reference to the column with the time, and comments if the choice is open."""
    question = ""
    if known.clocks:
        options = [
            Option(known.ref(one.column), f"{one.clock.form or one.clock.unit}; {one.column.evidence()}")
            for one in known.clocks
        ]
        hours = [one for one in known.clocks if one.clock.has_hours]
        if not hours:
            question = "the rows have days without hours, so every event would be at midnight."
        elif not hours[0].known and (len(hours) > 1 or hours[0].clock.unit not in ("iso", "format")):
            question = "no column is named like an event time. Which column has it?"
    else:
        question = "no column has readable times. Which column has the time of the event?"
        columns = [one for one in known.columns.values() if len(one.steps) == 1 or known.opened is not None]
        named = [one for one in columns if _NAMED_LIKE_A_TIME.search(one.name)]
        options = [Option(known.ref(one), f"not a readable time; {one.evidence()}") for one in named]
        if not named:
            question = (
                f"none of the {pluralize(len(columns), 'column')} has times, and each event needs one. Name a column"
            )
            question += " that other files have, or give all events one time, such as =2024-01-31T00:00:00Z."
            options = [Option(NO_TIME, "no time: every row is rejected")]
            options += [Option(known.ref(one), f"no time; {one.evidence()}") for one in columns]
    if not question and "time" not in known.answers:
        return options[0].text, []
    return known.choose(Choice("time", question, tuple(options[:MOST_OPTIONS]), free="column"))


def _hours_beside_days(known: Decisions) -> Column | None:
    """The column with the hours that belong to the days in another column, if no column has both."""
    if "time" in known.answers or not known.clocks or known.clocks[0].clock.has_hours:
        return None
    return next((one for one in known.untimed if one.values and one.matching(_HOURS) >= ENOUGH), None)


def _clock(known: Decisions, one: TimeColumn, hours: Column | None = None) -> tuple[str, list[str]]:
    """A clock in YAML, with comments on what is open about it. `hours` is the column with the hours of the days."""
    clock, column, lines = one.clock, one.column, list[str]()
    source, ending = known.ref(column), ""
    if hours is not None:
        source = f'{{join: [{source}, {known.ref(hours)}], with: " "}}'
        ending = " %H:%M:%S" if next(iter(hours.texts)).count(":") == 2 else " %H:%M"
    parts = [f"from: {source}", f"unit: {clock.unit}"]
    if clock.unit == "format":
        form = quoted(clock.form + ending)
        if clock.other:
            options = (
                Option(form, f"{scalar(next(iter(column.texts)))} is in {_month_in(one, clock.form)}"),
                Option(quoted(clock.other + ending), f"it is in {_month_in(one, clock.other)}"),
            )
            question = f"every value of {column.path} can be read with the day first or with the month first."
            form, lines = known.choose(Choice("day_or_month", question, options))
        parts.append(f"format: {form}")
    if clock.unit == "iso":
        parts.append("space: yes")
    if not _has_offset(one):
        options = (
            Option("local", "a local clock: every plan then needs its zone, such as --timezone Europe/Berlin"),
            Option("utc", "UTC: write `zone: utc`, and no plan needs --timezone"),
        )
        first = known.clocks[0].column
        example = printable(next(iter(first.texts), ""), 40)
        question = f"the times of {first.path}, such as {example}, do not say their time zone. Are they UTC?"
        zone, comments = known.choose(Choice("zone", question, options))
        parts.append(f"zone: {zone}")
        lines = [*lines, *comments]
    unread = [text for text in column.texts if clock.read(text) is None] if hours is None else []
    if unread:
        rows = pluralize(sum(column.texts[text] for text in unread), "row")
        sentence = f"{rows} of {len(column.values):,} cannot be read so, and would be rejected: {unread[0]!r}"
        lines = [*lines, comment(printable(sentence, 300))]
    return f"{{{', '.join(parts)}}}", lines


def _has_offset(one: TimeColumn) -> bool:
    """Whether the times are instants: numbers, strings with an offset, or strings that are called UTC."""
    if one.clock.unit not in ("iso", "format") or _SAYS_UTC.search(f"{one.column.name} {one.clock.form}"):
        return True
    readings = (one.clock.read(value) for value in one.column.values[:500])
    return all(reading is None or reading.utc for reading in readings)


def _month_in(one: TimeColumn, form: str) -> str:
    """The month of the first value, as a format reads it."""
    reading = Clock("", "format", form).read(one.column.values[0])
    return format_utc(reading.us)[:7] if reading is not None else "no month"
