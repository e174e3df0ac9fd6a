"""Files of the export that are left out, are missing, overlap, or are there twice, judging by their names."""

from __future__ import annotations

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, days_named, finding_of
from pipeline.plan.file_dates import copied_files, missing_days, overlapping
from pipeline.plan.statistics.history import Series
from pipeline.text import are, pluralize, printable


def lacking_files(facts: PlanFacts) -> list[tuple[int, int, str]]:
    """The `missing_days` of a plan, in runs of --gap days or more. None in a job, whose windows have their own
    files."""
    least = facts.thresholds.gap or 1
    found = [] if facts.in_series else missing_days(facts.paths)
    return [one for one in found if one[1] - one[0] + 1 >= least]


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
