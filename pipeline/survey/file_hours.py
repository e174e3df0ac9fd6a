"""The hours that files contain judging by their names, and the numbers of their parts: which of them are missing.

Tools spell hours as `2021-03-01_5#0` (Amplitude), `2021-03-01T05:00:00Z-2021-03-01T06:00:00Z` (PostHog),
`date=2021-03-01-05/` (Braze), `2021/03/01/05/` (Firehose) or `dt=2021-03-01/hour=05/` (Hive).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise, zip_longest

from pipeline.survey.file_dates import LEAST_FILES, Dated, alike, dates_in

_HOUR = re.compile(
    r"(T|[/_-]?(?:hour|hr|hh|h)=|(?<=\d{8})|[-_ /]?)"
    r"(?:([01]\d|2[0-3])((?:[-:_.]?[0-5]\d){0,2})|(\d))(?!\d)([#/]?)",
    re.ASCII | re.IGNORECASE,
)
_PART = re.compile(r"(?:(?<=#)|(?<=part-)|(?<=part_)|(?<=part))(\d{1,6})(?!\d)|(?<!\d)(\d{12})(?=\.)", re.IGNORECASE)
_REGULAR = 0.9


class _Family:
    """Files whose names differ only in dates and numbers. `sure`: what follows the dates must be hours."""

    def __init__(self) -> None:
        self.files: list[Dated] = []
        self.sure = True
        self.without = False

    @property
    def hourly(self) -> bool:
        """Whether at least half of the files begin in the hour after another. A number after a date counts parts
        instead, unless it reaches 23 and never exceeds it, or is spelled as only hours are."""
        starts = {(one.first, one.last) for one in self.files}
        if len(starts) < LEAST_FILES or not (
            self.sure or (not self.without and any(first % 24 == 23 for first, _ in starts))
        ):
            return False
        steps = [after[0] <= before[1] + 1 for before, after in pairwise(sorted(starts))]
        return 2 * sum(steps) >= len(steps)


def hourly_files(paths: Sequence[str]) -> dict[str, list[Dated]]:
    """The files with hours (since 1970) in their names, in order, by what their names have in common; only those that
    come by the hour."""
    return {name: family.files for name, family in _families(paths).items() if family.hourly}


def hours_in(paths: Sequence[str]) -> dict[str, list[Dated]]:
    """The same of all files that must have hours in their names, however many there are."""
    return {name: family.files for name, family in _families(paths).items() if family.sure}


def _hours_in(path: str) -> Iterator[tuple[int, bool]]:
    """The number after each date of a path as an hour since 1970, and whether it is spelled as only hours are."""
    dates = list(dates_in(path))
    for (day, found), after in zip_longest(dates, dates[1:]):
        match = _HOUR.match(path, found.end())
        if match is not None and (after is None or match.end() <= after[1].start()):
            mark, hour, minutes, digit, end = match.groups()
            folder = mark == "/" and end == "/" and hour
            named = mark.strip("-_ /") or (hour and not mark)
            yield day * 24 + int(hour or digit), bool(named or minutes or folder or (end and mark != "/"))


def _families(paths: Sequence[str]) -> dict[str, _Family]:
    families: dict[str, _Family] = defaultdict(_Family)
    for path in paths:
        found = list(_hours_in(path))
        sure = [hour for hour, is_sure in found if is_sure]
        hours, family = sure or [hour for hour, _ in found], families[alike(path)]
        if hours and 0 <= hours[-1] - hours[0] < 24:
            family.sure &= bool(sure)
            family.files.append(Dated(hours[0], max(hours[0], hours[-1] - 1), path))
        else:
            family.without = True
    for family in families.values():
        family.files.sort()
    return families


def missing_hours(paths: Sequence[str], shown: Callable[[int], bool] = lambda hour: True) -> list[Dated]:
    """Runs of hours (first, last, a file after them) for which files are missing between hourly files.

    An hour of day that has a file on less than half of the days is not expected, and neither is one that the clock
    does not show. Whole days without a file are `missing_days`.
    """
    found = []
    for files in hourly_files(paths).values():
        there = {hour for one in files for hour in range(one.first, one.last + 1)}
        days = {hour // 24 for hour in there}
        rare = {hour for hour in range(24) if 2 * sum(day * 24 + hour in there for day in days) < len(days)}
        for before, after in pairwise(files):
            lacking = [
                hour
                for hour in range(before.last + 1, after.first)
                if shown(hour) and (len(days) < LEAST_FILES or (hour // 24 in days and hour % 24 not in rare))
            ]
            found += [Dated(first, last, after.path) for first, last in runs_of(lacking)]
    return sorted(found)


def runs_of(hours: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of hours that follow each other, of which there are several runs."""
    for _, run in groupby(enumerate(hours), lambda pair: pair[1] - pair[0]):
        several = [hour for _, hour in run]
        yield several[0], several[-1]


def lacking_hours(paths: Sequence[str], earlier: Sequence[Sequence[str]], hours: Collection[int]) -> list[int]:
    """Those of the `hours` of a window for which its hourly files lack one.

    `earlier` has the files of other windows: an hour of day that less than half of them have is not expected.
    """
    usual, lacking = [hourly_files(some) for some in earlier], set()
    for name, files in hourly_files(paths).items():
        there = {hour for one in files for hour in range(one.first, one.last + 1)}
        known = [{one.first % 24 for one in some[name]} for some in usual if name in some]
        lacking |= {hour for hour in {*hours} - there if 2 * sum(hour % 24 in some for some in known) >= len(known)}
    return sorted(lacking)


def missing_parts(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Numbers of parts that are missing between others, in words, and the file after them.

    The numbers must be nearly complete, and so must those of nine tenths of the folders or hours: some programs write
    no file for an empty part.
    """
    groups: dict[str, dict[int, str]] = defaultdict(dict)
    for path in paths:
        if match := next(iter([*_PART.finditer(path)][-1:]), None):
            groups[f"{path[: match.start()]}#{path[match.end() :]}"][int(match[0])] = path
    numbered = [numbers for numbers in groups.values() if len(numbers) >= LEAST_FILES]
    holes = [(numbers, lacking) for numbers in numbered if (lacking := _lacking(numbers))]
    if len(holes) > max(1, (1 - _REGULAR) * len(numbered)):
        return []
    return [
        (", ".join(map(str, lacking)), numbers[min(number for number in numbers if number > lacking[0])])
        for numbers, lacking in holes
    ]


def _lacking(numbers: Mapping[int, str]) -> list[int]:
    """The numbers that are missing between others, if they are few."""
    first, last = min(numbers), max(numbers)
    if last - first + 1 - len(numbers) > max(1, (1 - _REGULAR) * (last - first + 1)):
        return []
    return [number for number in range(first, last) if number not in numbers]
