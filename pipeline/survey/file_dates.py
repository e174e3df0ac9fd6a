"""The days that files contain judging by the dates in their names: which are there, missing, or there twice."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date
from itertools import pairwise
from typing import NamedTuple

_EPOCH = date(1970, 1, 1).toordinal()
_DATE = re.compile(
    r"(?<!\d)((?:19|20)\d\d)(?:([-_./])(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])|(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01]))"
    r"(?=(?:[01]\d|2[0-3])?(?!\d))"  # an hour may follow
    r"|(?:year|y)=((?:19|20)\d\d)/(?:month|m)=(\d\d?)/(?:day|d)=(\d\d?)(?!\d)",
    re.ASCII,
)
_NUMBER = re.compile(r"\d+|(?<![0-9a-z])[0-9a-f]{8,}(?:-[0-9a-f]+)*", re.ASCII)
_COPY = re.compile(r"(?: \(\d+\)| ?- ?copy(?: ?\d*)| copy(?: \d+)?)(?=\.[^/]*$|$)", re.IGNORECASE)
LEAST_FILES, _REGULAR = 3, 0.9
"""From this many files on, their dates and hours show how often a tool exports."""


class Dated(NamedTuple):
    """The days (days since 1970) that a file contains, judging by its name."""

    first: int
    last: int
    path: str


def dates_in(path: str) -> Iterator[tuple[int, re.Match[str]]]:
    """The dates in a path, each as a day since 1970, and where it stands."""
    for match in _DATE.finditer(path):
        year, month, day = (int(one) for one in (*match.groups()[:1], *match.groups()[2:]) if one is not None)
        with suppress(ValueError):
            yield date(year, month, day).toordinal() - _EPOCH, match


def alike(path: str) -> str:
    """What files have in common whose names differ only in dates and numbers."""
    return _NUMBER.sub("0", _DATE.sub("#", path))


def _families(paths: Sequence[str]) -> Iterator[list[Dated]]:
    """Files whose names differ only in dates and numbers, each family in the order of its days."""
    families: dict[tuple[str, int], list[Dated]] = defaultdict(list)
    for path in paths:
        days = [day for day, _ in dates_in(path)]
        days = sorted(set(days)) if len(days) > 1 and "/" in path else days
        if 1 <= len(days) <= 2 and days[0] <= days[-1]:
            families[alike(path), len(days)].append(Dated(days[0], days[-1], path))
    for family in families.values():
        yield sorted(family)


def _ranges(family: list[Dated]) -> list[Dated]:
    """The files of a family whose names have two dates, if these are the range of its rows: the ranges follow each
    other."""
    by_range = {(one.first, one.last): one for one in family}
    ranges = sorted(by_range.values())
    if len(ranges) < 2 or all(one.first == one.last for one in ranges):
        return []
    ordered = [after for before, after in pairwise(ranges) if after.first >= before.last]
    return ranges if 2 * len(ordered) >= len(ranges) - 1 else []


def files_of_days(paths: Sequence[str]) -> dict[int, int]:
    """How many files each day (as a proleptic ordinal) has, judging by the dates in their names."""
    counts: Counter[int] = Counter()
    for family in _families(paths):
        for one in family:
            counts.update(range(one.first + _EPOCH, one.last + _EPOCH + 1))
    return counts


def missing_days(paths: Sequence[str]) -> list[tuple[int, int, str]]:
    """Runs of days (first, last, a file after them) for which files are missing between others of the same kind.

    Files of one day each must otherwise be daily, or daily from Monday to Friday: all but a tenth of the steps between
    them. A few files may leave out one run of days that is no longer than they are many.
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
        holes = [(between, after) for _, between, after in steps if between]
        few = len(holes) == 1 and len(holes[0][0]) <= len(days)
        if len(days) >= LEAST_FILES and (few or len(holes) <= (1 - _REGULAR) * len(steps)):
            found += [(between[0], between[-1], by_day[after]) for between, after in holes]
    return sorted(found)


def overlapping(paths: Sequence[str]) -> list[tuple[int, int, str, str]]:
    """Files (first common day, last common day, both files) whose names say that they contain the same days.

    Ranges that share one day do not count: some tools write half-open ranges like this. A copy has the name of another
    file plus what a file manager or browser adds, such as ` (1)`.
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


def days_named(first: int, last: int) -> str:
    """Days since 1970 as `2021-03-01`, or as `2021-03-01 to 2021-03-04 (4 days)`."""
    if first == last:
        return _day_name(first)
    return f"{_day_name(first)} to {_day_name(last)} ({last - first + 1:,} days)"


def hours_named(first: int, last: int) -> str:
    """Hours since 1970 as `2021-03-01 05:00`, or by the first and the last one, as `2021-03-01 05:00 to 07:00
    (3 hours)`."""
    (day, hour), (last_day, last_hour) = divmod(first, 24), divmod(last, 24)
    if first == last:
        return f"{_day_name(day)} {hour:02d}:00"
    until = "" if day == last_day else f"{_day_name(last_day)} "
    return f"{_day_name(day)} {hour:02d}:00 to {until}{last_hour:02d}:00 ({last - first + 1:,} hours)"


def _day_name(day: int) -> str:
    return date.fromordinal(day + _EPOCH).isoformat()


def copied_files(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Files whose names say that they are copies of other files of the export."""
    known = set(paths)
    return sorted((_COPY.sub("", path), path) for path in paths if _COPY.search(path) and _COPY.sub("", path) in known)


def _is_weekend(day: int) -> bool:
    return (day + 3) % 7 >= 5  # 1 January 1970 was a Thursday
