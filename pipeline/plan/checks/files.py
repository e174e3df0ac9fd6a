"""Files of the export that are left out, are missing, overlap, or are there twice, judging by their names."""

from __future__ import annotations

import numpy as np

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.plan.statistics.history import Series
from pipeline.survey.file_dates import Dated, copied_files, days_named, hours_named, missing_days, overlapping
from pipeline.survey.file_hours import missing_hours, missing_parts
from pipeline.text import are, pluralize, printable
from pipeline.timestamps import HOUR

CERTAIN = 20
"""A gap lacks at least this many events, counted low: that happens by chance once in 500 million times (e^-20)."""


def lacking_files(facts: PlanFacts) -> list[tuple[int, int, str]]:
    """The `missing_days` of a plan, in runs of --gap days or more. None in a job, whose windows have their own
    files."""
    least = facts.thresholds.gap or 1
    found = [] if facts.in_series else missing_days([*facts.paths, *facts.without_events])
    return [one for one in found if one[1] - one[0] + 1 >= least]


def lacking_hours_of(facts: PlanFacts) -> list[Dated]:
    """The `missing_hours` of a plan. None in a job, whose windows wait for theirs."""

    def shown(hour: int) -> bool:
        return facts.hours.clock.to_utc(hour * HOUR)[1] != "nonexistent_time"

    return [] if facts.in_series else missing_hours(facts.paths, shown)


def days_of_source(facts: PlanFacts) -> Series:
    """The events to send by day: on the source's clock if a zone was named, else in UTC."""
    return facts.hours.days(facts.history.total) if facts.options.zones else facts.history.total


@check("ignored_files", "stop")
def ignored_files(facts: PlanFacts) -> Finding | None:
    """Files are left out although their names are like those of files that are read; up to --allow-ignored only
    warn."""
    count = len(facts.unread)
    sentence = f"{pluralize(count, 'file')} {are(count)} left out, although named like files that are read"
    level = "stop" if count > facts.thresholds.allow_ignored else "warning"
    return finding_of(sentence, [printable(path, 80) for path in facts.unread], level=level)


@check("missing_files", "warning")
def missing_files(facts: PlanFacts) -> Finding | None:
    """The dates in file names skip some days."""
    found = lacking_files(facts)
    days = sum(last - first + 1 for first, last, _ in found)
    found.sort(key=lambda one: (one[0] - one[1], one))
    series = days_of_source(facts)
    examples = []
    for first, last, path in found:
        events = series.between(first, last + 1)
        none = "" if events or not len(series.counts) else "; no event of another file has a time there"
        examples.append(f"{days_named(first, last)} before {printable(path, 80)}{none}")
    return finding_of(f"judging by the dates in its file names, the export lacks {pluralize(days, 'day')}", examples)


@check("missing_hours", "warning")
def missing_hours_of_files(facts: PlanFacts) -> Finding | None:
    """The hours in file names skip some hours. Only a notice if few events are usual then: some tools write no file for
    an hour without events.
    """
    found = lacking_hours_of(facts)
    series = facts.hours.by_hour(facts.history.total, source=bool(facts.options.zones))
    named = []
    for (first, last, path), usual in zip(found, _usual(series, found), strict=True):
        events = series.between(first, last + 1)
        lacks = usual - events
        said = f"about {usual:,} events are usual then" if lacks >= CERTAIN else "few events are usual then"
        if lacks < CERTAIN <= usual:
            said = f"{pluralize(events, 'event')} of other files {are(events)} there"
        if not len(series.counts):
            lacks, said = CERTAIN, "no event has a time"
        named.append((lacks, f"{hours_named(first, last)} before {printable(path, 80)} ({said})"))
    named.sort(key=lambda one: -one[0])
    hours = sum(last - first + 1 for first, last, _ in found)
    return finding_of(
        f"judging by the hours in its file names, the export lacks {pluralize(hours, 'hour')}",
        [words for _, words in named],
        level="warning" if any(lacks >= CERTAIN for lacks, _ in named) else "notice",
    )


def _usual(series: Series, runs: list[Dated]) -> list[int]:
    """How many events are usual in each run of hours: by the medians of the same hours of the weeks around, or of the
    days around if fewer than two weeks are known, or by the hours before and after."""
    if not runs or not len(series.counts):
        return [0] * len(runs)
    hours = np.concatenate([np.arange(first, last + 1) for first, last, _ in runs]) - series.first
    inside = (hours >= 0) & (hours < len(series.counts))
    values = np.append(series.counts.astype(float), np.nan)  # the last stands for every hour outside
    values[hours[inside]] = np.nan
    usual = np.concatenate([
        np.full(last - first + 1, min(series.between(first - 1, first), series.between(last + 1, last + 2)), float)
        for first, last, _ in runs
    ])  # fmt: skip
    for step, reach in ((24, 7), (168, 4)):
        around = hours[:, None] + step * np.array([*range(-reach, 0), *range(1, reach + 1)])
        found = values[np.where((around >= 0) & (around < len(series.counts)), around, -1)]
        known = (~np.isnan(found)).sum(axis=1) >= 2
        usual[known] = np.nanmedian(found[known], axis=1)
    ends = np.cumsum([last - first + 1 for first, last, _ in runs])
    return [int(some.sum()) for some in np.split(usual, ends[:-1])]


@check("unjoined_rows", "warning")
def unjoined_rows(facts: PlanFacts) -> Finding | None:
    """Rows that belong to rows of the export have a key that no row of it looks up."""
    rows = sum(one.rows for one in facts.unjoined)
    return finding_of(
        f"no row of the export looks up {pluralize(rows, 'row')} of joined files",
        [
            f"{pluralize(one.rows, 'row')} of {printable(one.path, 80)} with {pluralize(one.keys, 'key')} of the table"
            f" {one.table!r}, the first in row {one.first:,}"
            for one in facts.unjoined
        ],
    )


@check("missing_parts", "notice")
def missing_parts_of_files(facts: PlanFacts) -> Finding | None:
    """The numbers of parts in file names skip some."""
    found = [] if facts.in_series else missing_parts(facts.paths)
    return finding_of(
        "judging by the numbers in their names, parts of files are missing; some programs write no file for an empty"
        " part",
        [f"part {numbers} before {printable(path, 80)}" for numbers, path in found],
    )


@check("overlapping_files", "warning")
def overlapping_files(facts: PlanFacts) -> Finding | None:
    """The dates in file names show some days twice, or a name is that of a copy.

    A file needs no attention if each of its rows is a copy that is already left out: the plan's duplicates count those.
    """
    if facts.in_series:
        return None

    def open_(one: str, other: str) -> bool:
        return all((copies := facts.copies.get(path)) is None or copies.mapped for path in (one, other))

    found = [pair for pair in overlapping(facts.paths) if open_(*pair[2:])]
    copied = [pair for pair in copied_files(facts.paths) if open_(*pair)]
    examples = [
        f"{days_named(first, last)} in {printable(one, 80)} and {printable(other, 80)}{_left_out(facts, one, other)}"
        for first, last, one, other in found
    ]
    examples += [
        f"{printable(copy, 80)} next to {printable(path, 80)}{_left_out(facts, path, copy)}" for path, copy in copied
    ]
    return finding_of(
        f"judging by their names, {pluralize(len(examples), 'file')} may repeat rows of another file", examples
    )


def _left_out(facts: PlanFacts, *paths: str) -> str:
    """How many rows of some files are already left out as copies, in words."""
    rows = sum(facts.copies[path].rows for path in paths if path in facts.copies)
    return f" ({pluralize(rows, 'row')} of these are copies and already left out)" if rows else ""
