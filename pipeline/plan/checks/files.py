"""Files of the export that are missing, overlap or are there twice, by the dates in their names."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, days_named, finding_of
from pipeline.plan.statistics.history import Series
from pipeline.text import pluralize, printable

_EPOCH = date(1970, 1, 1).toordinal()
_DATE = re.compile(
    r"(?<!\d)((?:19|20)\d\d)(?:([-_./])(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])|(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01]))(?!\d)"
    r"|(?:year|y)=((?:19|20)\d\d)/(?:month|m)=(\d\d?)/(?:day|d)=(\d\d?)(?!\d)",
    re.ASCII,
)
_NUMBER = re.compile(r"\d+|(?<![0-9a-z])[0-9a-f]{8,}(?:-[0-9a-f]+)*", re.ASCII)
_COPY = re.compile(r"(?: \(\d+\)| ?- ?copy(?: ?\d*)| copy(?: \d+)?)(?=\.[^/]*$|$)", re.IGNORECASE)
_LEAST_DAYS, _REGULAR = 14, 0.9


class Dated(NamedTuple):
    """The days (days since 1970) that a file contains by its name."""

    first: int
    last: int
    path: str


def _families(paths: Sequence[str]) -> Iterator[list[Dated]]:
    """Files whose names are alike but for dates and numbers, each family in the order of its days."""
    families: dict[tuple[str, int], list[Dated]] = defaultdict(list)
    for path in paths:
        days: list[int] = []
        for match in _DATE.finditer(path):
            year, month, day = (int(one) for one in (*match.groups()[:1], *match.groups()[2:]) if one is not None)
            try:
                days.append(date(year, month, day).toordinal() - _EPOCH)
            except ValueError:
                continue
        days = sorted(set(days)) if len(days) > 1 and "/" in path else days
        if 1 <= len(days) <= 2 and days[0] <= days[-1]:
            alike = _NUMBER.sub("0", _DATE.sub("#", path))
            families[alike, len(days)].append(Dated(days[0], days[-1], path))
    for family in families.values():
        yield sorted(family)


def _ranges(family: list[Dated]) -> list[Dated]:
    """The files of a family with two dates, where these are the range of its rows: one range follows the other."""
    by_range = {(one.first, one.last): one for one in family}
    ranges = sorted(by_range.values())
    if len(ranges) < 2 or all(one.first == one.last for one in ranges):
        return []
    ordered = [after for before, after in pairwise(ranges) if after.first >= before.last]
    return ranges if 2 * len(ordered) >= len(ranges) - 1 else []


def files_of_days(paths: Sequence[str]) -> dict[int, int]:
    """How many files each day (the proleptic ordinal) has, by the dates in their names."""
    counts: Counter[int] = Counter()
    for family in _families(paths):
        for one in family:
            counts.update(range(one.first + _EPOCH, one.last + _EPOCH + 1))
    return counts


def missing_days(paths: Sequence[str]) -> list[tuple[int, int, str]]:
    """Runs of days (first, last, a file after them) for which files are missing between others of their kind.

    Files of one day each have to be daily otherwise, or daily from Monday to Friday.
    """
    found = []
    for family in _families(paths):
        if ranges := _ranges(family):
            until = ranges[0].last
            for one in ranges[1:]:
                if one.first > until + 1:
                    found.append((until + 1, one.first - 1, one.path))
                until = max(until, one.last)
            continue
        if any(one.first != one.last for one in family):
            continue
        by_day = {one.first: one.path for one in family}
        days = sorted(by_day)
        weekends = any(_is_weekend(day) for day in days)
        steps = [
            (before, [day for day in range(before + 1, after) if weekends or not _is_weekend(day)], after)
            for before, after in pairwise(days)
        ]
        if len(days) < _LEAST_DAYS or sum(not between for _, between, _ in steps) < _REGULAR * len(steps):
            continue
        found += [(between[0], between[-1], by_day[after]) for _, between, after in steps if between]
    return sorted(found)


def overlapping(paths: Sequence[str]) -> list[tuple[int, int, str, str]]:
    """Files (first common day, last common day, both files) whose names say that they contain the same days.

    Ranges that share one day are how some tools write a half-open range. A copy has the name of another but for what
    a file manager or browser adds, such as ` (1)`.
    """
    found = []
    for family in _families(paths):
        ranges = _ranges(family)
        widest = ranges[0] if ranges else None
        for one in ranges[1:]:
            assert widest is not None
            if one.first < widest.last:
                found.append((one.first, min(one.last, widest.last), widest.path, one.path))
            widest = max(widest, one, key=lambda dated: dated.last)
    return sorted(found)


def copied_files(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Files whose name says that they are copies of others that are there."""
    known = set(paths)
    return sorted((_COPY.sub("", path), path) for path in paths if _COPY.search(path) and _COPY.sub("", path) in known)


def _is_weekend(day: int) -> bool:
    return (day + 3) % 7 >= 5  # 1 January 1970 was a Thursday


def lacking_files(facts: PlanFacts) -> list[tuple[int, int, str]]:
    """`missing_days` of a plan, of --gap days or more. In a job, each window has files of its own."""
    least = facts.thresholds.gap or 1
    found = [] if facts.in_series else missing_days(facts.paths)
    return [one for one in found if one[1] - one[0] + 1 >= least]


def days_of_source(facts: PlanFacts) -> Series:
    """The events to send by day: of the source's clock where a zone was named, else of UTC."""
    return facts.hours.days(facts.history.total) if facts.options.zones else facts.history.total


@check("missing_files", "warning")
def missing_files(facts: PlanFacts) -> Finding | None:
    """The dates in the names of files leave days out."""
    found = lacking_files(facts)
    if not found:
        return None
    days = sum(last - first + 1 for first, last, _ in found)
    found.sort(key=lambda one: (one[0] - one[1], one))
    series = days_of_source(facts)
    examples = []
    for first, last, path in found:
        events = series.between(first, last + 1)
        none = "" if events or not len(series.counts) else "; no event of another file has a time there"
        examples.append(f"{days_named(first, last)} before {printable(path, 80)}{none}")
    return finding_of(
        f"by the dates in the names of its files, the export lacks {pluralize(days, 'day')}", examples, len(found)
    )


@check("overlapping_files", "warning")
def overlapping_files(facts: PlanFacts) -> Finding | None:
    """The dates in the names of files say that some days are there twice, or a name is that of a copy.

    Nothing is to be done about a file of which every row is a copy that is left out already: the duplicates of the plan
    count those.
    """
    if facts.in_series:
        return None

    def open_(one: str, other: str) -> bool:
        return all((copies := facts.copies.get(path)) is None or copies.mapped for path in (one, other))

    found = [pair for pair in overlapping(facts.paths) if open_(*pair[2:])]
    copied = [pair for pair in copied_files(facts.paths) if open_(*pair)]
    if not found and not copied:
        return None
    examples = [
        f"{days_named(first, last)} in {printable(one, 80)} and {printable(other, 80)}{_left_out(facts, one, other)}"
        for first, last, one, other in found
    ]
    examples += [
        f"{printable(copy, 80)} beside {printable(path, 80)}{_left_out(facts, path, copy)}" for path, copy in copied
    ]
    return finding_of(
        f"by their names, {pluralize(len(examples), 'file')} may contain rows of another file", examples, len(examples)
    )


def _left_out(facts: PlanFacts, *paths: str) -> str:
    """How many rows of some files are left out already as copies, in words."""
    rows = sum(facts.copies[path].rows for path in paths if path in facts.copies)
    return f" ({pluralize(rows, 'row')} of these are copies and left out already)" if rows else ""
