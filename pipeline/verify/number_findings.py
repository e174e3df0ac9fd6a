"""The result of comparing numbers of charts: with the target, and with those of the old tool."""

from __future__ import annotations

import msgspec


class Metric(msgspec.Struct, frozen=True):
    """One number of a chart: events and users of the plan, and those found at the target.

    `metric` is what `name` is: a UTC `day`, the Monday of a `week`, the first day of a `month`, an `event`, a
    `platform` (`$os`) or a `country` ("" for events without). `split` and `merged` are how many users more and fewer
    the target has because it has other persons. `others` counts the names that a row adds up; then users are unknown.
    """

    metric: str
    name: str
    events: int
    users: int | None
    events_found: int
    users_found: int | None
    split: int = 0
    merged: int = 0
    others: int = 0

    @property
    def differs(self) -> bool:
        return (self.events, self.users) != (self.events_found, self.users_found)


class OldNumber(msgspec.Struct, frozen=True):
    """A number of the old tool's charts that is not the plan's. `old` is `planned`, plus the numbers of `because`, plus
    `unexplained`.

    `metric` is `events` or `users`, `period` as the file has it, `name` an event or "" for all. `because` has codes of
    left-out rows, `merges`, `zone`, `window` and `refused_or_unsent`.
    """

    metric: str
    period: str
    name: str
    old: int
    planned: int
    because: dict[str, int]
    unexplained: int


class Against(msgspec.Struct, frozen=True):
    """The comparison with the old tool's numbers. `numbers` is the sum of `equal`, `explained` and `unexplained`.

    `zone` is the zone of the days that fit the numbers best. `rows` are the numbers that differ, the worst first.
    `unknown_names` are in the file and not in the plan, so their numbers were not compared; `names_only_planned` and
    `periods_only_planned` are in the plan and not in the file; periods are days, weeks or months, as in the file.
    """

    file: str
    numbers: int
    equal: int
    explained: int
    unexplained: int
    zone: str
    rows: list[OldNumber] = []
    unknown_names: list[str] = []
    names_only_planned: int = 0
    periods_only_planned: int = 0


class Metrics(msgspec.Struct, frozen=True):
    """The metrics of `verify --metrics`. `compared` counts the rows of each metric, `differing` those that differ;
    `rows` are the months, the days and weeks that differ, and the most frequent names.

    `split` counts persons of the plan who are several at the target, `merged` those there who are several of the plan;
    `people` lists some ids of some of them, and `unknown` says what could not be found out. `in_doubt` events may have
    landed, and `left_out` events have the names of updates; neither are counted.
    """

    compared: dict[str, int] = {}
    differing: int = 0
    rows: list[Metric] = []
    split: int = 0
    merged: int = 0
    people: list[tuple[str, list[str]]] = []
    unknown: str = ""
    in_doubt: int = 0
    left_out: int = 0
    against: Against | msgspec.UnsetType = msgspec.UNSET
