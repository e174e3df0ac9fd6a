"""The checks of a plan. A check finds something that a person has to review, and may stop the plan.

Checks run once everything is counted and decided. Those of every module of this package are found by themselves. To
add one, write a function with `@check(name, level)`: it takes `PlanFacts` and returns the sentence that people read,
the same with a count and examples (`finding_of`, `stated`), or None if there is nothing to report. What the checks
found is listed in plan.json under `gates`. A plan with a finding of the level `stop` is written all the same: it can be
read and rehearsed, but never applied.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, get_args

import msgspec

from pipeline.errors import UsageError
from pipeline.identity.event_ids import FloatIds
from pipeline.models import Finding, SealedOptions
from pipeline.options import PlanOptions
from pipeline.plan.sealed.facts import Coverage
from pipeline.plan.sealed.manifest import PeopleSeal, RowCounts
from pipeline.plan.statistics.activity_facts import ActivityFacts
from pipeline.plan.statistics.daily_counts import day_name
from pipeline.plan.statistics.drift import DriftFacts
from pipeline.plan.statistics.history import History
from pipeline.plan.statistics.hours import HourHistory
from pipeline.plan.statistics.unmatched import MissingReferences
from pipeline.plan.zone import ZoneVerdict

if TYPE_CHECKING:
    from pipeline.plan.replay import ReplayFacts

Level = Literal["stop", "warning", "notice"]
_LEVELS = get_args(Level)
_EXAMPLES, _EXAMPLES_SHOWN = 20, 3
_WEIGHTIEST = (
    "night_by_day", "clock_jump", "clock_change", "missing_files", "empty_days", "overlapping_files", "near_duplicate",
    "key_not_unique", "level", "spike", "inhuman_rate", "renamed_event",
)  # fmt: skip
"""Of the checks of one level these come first: a wrong clock moves all of history, and a missing file cannot be sent
later without a plan of its own. What concerns one property can often stay as it is."""


class CountLimit(msgspec.Struct, frozen=True):
    """How many of something may be: a number, or a percentage of all, exactly as it was written."""

    number: int = 0
    percent: Decimal | None = None

    def __str__(self) -> str:
        return f"{self.percent}%" if self.percent is not None else str(self.number)

    def permits(self, count: int, of: int) -> bool:
        return count * 100 <= of * self.percent if self.percent is not None else count <= self.number


def parse_limit(text: str, flag: str = "--max-rejects") -> CountLimit:
    """Read `12` or `0.5%`, which the option `flag` has. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,18})|(\d{1,3}(?:\.\d{1,18})?)\s*%", text.strip(), re.ASCII)
    percent = Decimal(match.group(2)) if match is not None and match.group(2) else None
    if match is None or (percent is not None and percent > 100):
        raise UsageError(f"not a number or a percentage: {text!r}", hint=f"write {flag} 100 or 0.5%")
    return CountLimit(percent=percent) if percent is not None else CountLimit(int(match.group(1)))


class KeyConflicts(NamedTuple):
    """Rows left out for another row of the same source key that is a different event, and some of them in words."""

    rows: int = 0
    examples: Sequence[str] = ()


class CopiedRows(NamedTuple):
    """Of one file: the rows left out because an event equal to theirs is sent, and the rows of which one is sent."""

    rows: int
    mapped: int


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What checks read.

    `phases` counts the events to send by phase; `skips` counts skipped rows by code; `remedies` counts the rejected
    rows that each remedy would help (`remedy_of`); `keyless` counts events without a source key. `zone` is None where
    the data have no evidence of their time zone. `in_series` says that the plan is one window of a job, and
    `max_merges` is the job's limit, None without one. `float_ids` are the ids that went through floats. `open_choices`
    are those that the mapping lists under `open`.
    `coverage` is None if no mapping file decides.
    `rejects` are the rows and the items of rows that were rejected; the items of a row count one by one. `codes` are
    their codes, with the file and row of the first of each, in words; `rejected_bytes` of `bytes_read` are theirs.
    `history` are the events to send by day, `hours` by quarter of an hour, and `paths` the files, as people see them;
    `unread` are files that are left out although they are named like these.
    `drift` has the properties by month, `unsafe` counts the events with large integers by event name and property, with
    the place of the first, and `row_at` has the file and row of a place in words. `activity` is what the events of each
    person show. `copies` has the rows that are duplicates, by the path of their file. `thresholds` has the options with
    limits, and those from which on a check reports something. `replay` is what a replay met of the earlier plan.
    """

    rows: RowCounts
    phases: Mapping[str, int]
    options: SealedOptions
    remedies: Mapping[str, int]
    skips: Counter[str]
    keyless: int
    key_conflicts: KeyConflicts
    references: MissingReferences | None
    people: PeopleSeal
    zone: ZoneVerdict | None
    float_ids: FloatIds | None = None
    in_series: bool = False
    max_merges: int | None = None
    open_choices: Mapping[str, str] = field(default_factory=dict)
    rejects: int = 0
    rejected_bytes: int = 0
    bytes_read: int = 0
    codes: Sequence[str] = ()
    coverage: Coverage | None = None
    drift: DriftFacts = field(default_factory=DriftFacts)
    unsafe: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    row_at: Callable[[int], str] = str
    copies: Mapping[str, CopiedRows] = field(default_factory=dict)
    history: History = field(default_factory=History)
    hours: HourHistory = field(default_factory=HourHistory)
    activity: ActivityFacts = field(default_factory=ActivityFacts)
    paths: Sequence[str] = ()
    unread: Sequence[str] = ()
    thresholds: PlanOptions = field(default_factory=PlanOptions)
    replay: ReplayFacts | None = None


Find = Callable[[PlanFacts], str | Finding | None]
F = TypeVar("F", bound=Find)


class Check(NamedTuple):
    """A registered check: `find` returns the sentence of its finding, a finding, which may have a level of its own, or
    None."""

    name: str
    level: Level
    find: Find


CHECKS: list[Check] = []


def check(name: str, level: Level) -> Callable[[F], F]:
    """Register a function as a check."""

    def register(find: F) -> F:
        CHECKS.append(Check(name, level, find))
        return find

    return register


def finding_of(
    sentence: str, examples: Sequence[str], count: int | None = None, most: int = _EXAMPLES_SHOWN, level: str = ""
) -> Finding | None:
    """A finding of as many places as `count` says; `examples` has all or the first of them in words, the worst ones
    first. None without any.

    The sentence has `most` of them. Its name is that of the check that returns it, and so is its level unless it has
    one.
    """
    count = len(examples) if count is None else count
    more = f"; and {count - most:,} more" if count > most else ""
    return stated(f"{sentence}: {'; '.join(examples[:most])}{more}", count, examples, level)


def found_in_values(facts: PlanFacts, sentence: str, examples: Sequence[str]) -> Finding | None:
    """A finding in the values of properties, whose sentence says so if they are those of a sample."""
    return finding_of(f"{sentence}{facts.drift.in_sample}", examples)


def stated(
    sentence: str, count: int, examples: Sequence[str] = (), level: str = "", options: Sequence[str] = ()
) -> Finding | None:
    """A finding of `count` places whose sentence has what it needs of the examples; None without any."""
    found = list(options) or msgspec.UNSET
    return Finding("", level, sentence, count, list(examples[:_EXAMPLES]), found) if count else None


def days_named(first: int, last: int) -> str:
    """`2021-03-01`, or `2021-03-01 to 2021-03-04 (4 days)`, of days since 1970."""
    if first == last:
        return day_name(first)
    return f"{day_name(first)} to {day_name(last)} ({last - first + 1:,} days)"


def run_checks(facts: PlanFacts) -> list[Finding]:
    """What all checks find, those that stop the plan first, and of each level the weightiest."""
    found = []
    for one in CHECKS:
        result = one.find(facts)
        if isinstance(result, str):
            found.append(Finding(one.name, one.level, result))
        elif result is not None:
            found.append(msgspec.structs.replace(result, name=one.name, level=result.level or one.level))
    weights = {name: weight for weight, name in enumerate(_WEIGHTIEST)}
    return sorted(found, key=lambda one: (_LEVELS.index(one.level), weights.get(one.name, len(weights))))


def verdict_of(findings: Sequence[Finding], warnings: Counter[str]) -> str:
    """What findings and warnings come to: `ready`, `warnings` or `not-ready`."""
    levels = {finding.level for finding in findings}
    if "stop" in levels:
        return "not-ready"
    return "warnings" if levels or +warnings else "ready"


for _module in iter_modules(__path__, f"{__name__}."):  # each imports what stands above
    import_module(_module.name)
