"""The checks of a plan. A check finds something that a person has to review, and may stop the plan.

Checks run once everything is counted and decided. Every module of this package is loaded automatically. To add a check,
write a function with `@check(name, level)`: it takes `PlanFacts` and returns the sentence that people read, a finding
with a count and examples (`finding_of`, `stated`), or None if there is nothing to report. plan.json lists the findings
under `gates`. A plan with a finding of level `stop` is still written, so that it can be read and rehearsed, but it can
never be applied.
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
from pipeline.option_types import CheckRule
from pipeline.options import PlanOptions
from pipeline.plan.sealed.facts import Coverage, TrackingSeal
from pipeline.plan.sealed.manifest import Example, PeopleSeal, RowCounts
from pipeline.plan.statistics.activity import Activity
from pipeline.plan.statistics.drift import DriftFacts
from pipeline.plan.statistics.history import History
from pipeline.plan.statistics.hours import HourHistory
from pipeline.plan.statistics.unmatched import MissingReferences
from pipeline.plan.zone import ZoneVerdict
from pipeline.text import some_of
from pipeline.validator.codes import codes, meaning

if TYPE_CHECKING:
    from pipeline.plan.lookup_rows import Unjoined
    from pipeline.plan.replay import ReplayFacts
    from pipeline.plan.scope import ScopeUsage

Level = Literal["stop", "warning", "open", "notice", "accepted"]
_LEVELS = get_args(Level)
_EXAMPLES, _EXAMPLES_SHOWN = 20, 3
STOPPED_BY_RULE = "stops this plan because --stop-on or the checks file says so"
_WEIGHTIEST = (
    "night_by_day", "clock_jump", "clock_change", "missing_files", "missing_hours", "empty_days", "empty_hours",
    "overlapping_files", "near_duplicate", "key_not_unique", "level", "spike", "inhuman_rate", "renamed_event",
)  # fmt: skip
"""Within a level, these checks come first: a wrong clock moves all of history, and a file that is missing now needs a
plan of its own later. A finding about a single property can often stay as it is."""


class CountLimit(msgspec.Struct, frozen=True):
    """How many are allowed: a number or a percentage, exactly as it was written."""

    number: int = 0
    percent: Decimal | None = None

    def __str__(self) -> str:
        return f"{self.percent}%" if self.percent is not None else str(self.number)

    def permits(self, count: int, of: int) -> bool:
        return count * 100 <= of * self.percent if self.percent is not None else count <= self.number


def parse_limit(text: str, flag: str = "--max-rejects") -> CountLimit:
    """Read `12` or `0.5%`, the value of the option `flag`. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,18})|(\d{1,3}(?:\.\d{1,18})?)\s*%", text.strip(), re.ASCII)
    percent = Decimal(match.group(2)) if match is not None and match.group(2) else None
    if match is None or (percent is not None and percent > 100):
        raise UsageError(f"{text!r} is neither a number nor a percentage", hint=f"write {flag} 100 or 0.5%")
    return CountLimit(percent=percent) if percent is not None else CountLimit(int(match.group(1)))


class KeyConflicts(NamedTuple):
    """How many rows are left out in favour of a different event with the same source key, and some examples in
    words."""

    rows: int = 0
    examples: Sequence[str] = ()


class CopiedRows(NamedTuple):
    """How many rows of one file are left out as copies of an event that is sent, and how many rows have a sent
    event."""

    rows: int
    mapped: int


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What checks read.

    `phases` counts the events to send by phase; `skips` counts skipped rows by code; `remedies` counts the rejected
    rows that each remedy would help (`remedy_of`); `keyless` counts events without a source key. `zone` is None if the
    data have no evidence of their time zone. `in_series` says that the plan is one window of a job, and
    `max_merges` is the job's limit, or None. `float_ids` are the ids that went through floats. `open_choices`
    are the choices that the mapping lists under `open`.
    `coverage` is None if no mapping file decides.
    `rejects` counts the rejected rows and the rejected items of rows, each item by itself. `codes` has their codes,
    with the file and row of the first one in words; `rejected_bytes` of `bytes_read` are in rejected rows.
    `history` has the events to send by day, `hours` by quarter of an hour, and `paths` the files, as people see them;
    `without_events` names those that a fetch left out because their days have no events;
    `unread` are files that are left out although their names are like those of files that are read.
    `counted` has the codes of warnings, rejected and skipped rows.
    `unconverted` counts, by their code, the values that stop the plan because they cannot be converted, with the first.
    `warnings` counts the warnings about rows by code, and `examples` has the first row of each code.
    `drift` has the properties by month, `unsafe` counts the events with large integers by event name and property, with
    the place of the first, and `row_at` gives the file and row of a place in words. `activity` shows how the events of
    each person follow each other. `copies` counts the rows that are duplicates, by the path of their file; `unjoined`
    are the joined rows that no row of the export looks up. `thresholds` are the options that set limits for checks.
    `tracking` compares the events with a tracking plan. `replay` says which events of the earlier plan a replay found
    again. `scope` compares the event names with the table of --scope, None without one.
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
    warnings: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, Example] = field(default_factory=dict)
    drift: DriftFacts = field(default_factory=DriftFacts)
    tracking: TrackingSeal | msgspec.UnsetType = msgspec.UNSET
    unsafe: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    unconverted: Mapping[str, tuple[int, Example]] = field(default_factory=dict)
    row_at: Callable[[int], str] = str
    copies: Mapping[str, CopiedRows] = field(default_factory=dict)
    unjoined: Sequence[Unjoined] = ()
    history: History = field(default_factory=History)
    hours: HourHistory = field(default_factory=HourHistory)
    activity: Activity = field(default_factory=Activity)
    paths: Sequence[str] = ()
    without_events: Sequence[str] = ()
    unread: Sequence[str] = ()
    thresholds: PlanOptions = field(default_factory=PlanOptions)
    replay: ReplayFacts | None = None
    scope: ScopeUsage | None = None


Find = Callable[[PlanFacts], str | Finding | None]
F = TypeVar("F", bound=Find)


class Check(NamedTuple):
    """A registered check. `find` returns the sentence of its finding, or a finding, which may set its own level, or
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
    """A finding with `count` places; `examples` describes all of them or the first ones, the worst first. None if
    there are none.

    The sentence quotes `most` examples. The finding takes its name from the check that returns it, and its level too
    unless `level` is given.
    """
    count = len(examples) if count is None else count
    return stated(f"{sentence}: {some_of(examples, most, '; ', count=count)}", count, examples, level)


def found_in_values(facts: PlanFacts, sentence: str, examples: Sequence[str]) -> Finding | None:
    """A finding about property values. If only a sample was examined, the sentence says so."""
    return finding_of(f"{sentence}{facts.drift.in_sample}", examples)


def stated(
    sentence: str, count: int, examples: Sequence[str] = (), level: str = "", options: Sequence[str] = ()
) -> Finding | None:
    """A finding with `count` places, whose sentence already quotes the examples that it needs; None if there are
    none."""
    found = list(options) or msgspec.UNSET
    return Finding("", level, sentence, count, list(examples[:_EXAMPLES]), found) if count else None


def run_checks(facts: PlanFacts) -> list[Finding]:
    """All findings: those that stop the plan first, and within each level the weightiest first."""
    found, rules, own = [], facts.thresholds.checks, {one.name for one in CHECKS}
    assert isinstance(rules, Mapping)  # `plan.check_rules.with_rules` has read the file
    for one in CHECKS:
        rule = rules.get(one.name, CheckRule())
        result = None if rule.level == "ignore" else one.find(facts)
        if isinstance(result, str):
            result = Finding(one.name, one.level, result)
        if result is not None:
            result = msgspec.structs.replace(result, name=one.name, level=result.level or one.level)
            found.append(_ruled(result, rule))
    found += [
        _ruled(_of_code(facts, code), rule)
        for code, rule in rules.items() if facts.counted[code] and code not in own and rule.level != "ignore"
    ]  # fmt: skip
    weights = {name: weight for weight, name in enumerate(_WEIGHTIEST)}
    return sorted(found, key=lambda one: (_LEVELS.index(one.level), weights.get(one.name, len(weights))))


def _of_code(facts: PlanFacts, code: str) -> Finding:
    """What a plan counted under a code, as the finding of a check."""
    count, example = facts.counted[code], facts.examples.get(code)
    where = f" (first: row {example.row:,} of {example.part})" if example is not None else ""
    return Finding(code, "warning", f"{meaning(code)}: {count:,}{where}", count)


def _ruled(finding: Finding, rule: CheckRule) -> Finding:
    """The finding with what a person decided about its check. A stop of the check itself stays one."""
    if finding.level == "stop":
        return finding
    if rule.accepted:
        return msgspec.structs.replace(finding, level="accepted", reason=rule.accepted)
    if rule.level == "stop":
        accept = ["--accept", f"{finding.name}=REASON"]
        return msgspec.structs.replace(finding, level="stop", reason=STOPPED_BY_RULE, options=accept)
    return msgspec.structs.replace(finding, level=rule.level) if rule.level else finding


def levels_by_name() -> dict[str, str]:
    """The own level of each check, the last of those that share a name, and of each code."""
    return {name: code.level for name, code in codes().items()} | {one.name: one.level for one in CHECKS}


def verdict_of(findings: Sequence[Finding], warnings: Counter[str]) -> str:
    """The verdict on findings and warnings: `ready`, `warnings` or `not-ready`."""
    levels = {finding.level for finding in findings} - {"accepted", "open"}
    if "stop" in levels:
        return "not-ready"
    return "warnings" if levels or (+warnings).keys() - {finding.name for finding in findings} else "ready"


for _module in iter_modules(__path__, f"{__name__}."):  # each module imports names defined above
    import_module(_module.name)
