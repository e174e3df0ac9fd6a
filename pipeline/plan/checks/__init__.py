"""The checks of a plan. A check finds something that a person has to review, and may stop the plan.

Checks run once everything is counted and decided: those that stand here, then those of the other modules of this
package, which are found by themselves. To add one, write a function with `@check(name, level)`: it takes `PlanFacts`
and returns the sentence that people read, the same with a count and examples (`finding_of`), or None where there is
nothing to report. What the checks found is listed in plan.json under `gates`. A plan with a finding of the level
`stop` is written all the same: it can be read and rehearsed, but never applied.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from pkgutil import iter_modules
from typing import Literal, NamedTuple, TypeVar

import msgspec

from pipeline.clock_offsets import offset_name
from pipeline.errors import UsageError
from pipeline.identity.settings import MAX_TYPES
from pipeline.models import Finding, SealedOptions
from pipeline.options import PlanOptions
from pipeline.plan.coverage import Coverage
from pipeline.plan.daily_counts import day_name
from pipeline.plan.history import History
from pipeline.plan.manifest import GroupTypeSeal, PeopleSeal, RowCounts
from pipeline.plan.unmatched import MissingReferences
from pipeline.plan.zone import ZoneVerdict
from pipeline.text import are, pluralize, printable
from pipeline.timestamps import WITHOUT_OFFSET

Level = Literal["stop", "warning", "notice"]
_NAMES_SHOWN, _NAME_CHARACTERS = 10, 60
_EXAMPLES, _EXAMPLES_SHOWN = 20, 3


@dataclass(frozen=True, slots=True)
class CountLimit:
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
    """Rows left out for another row of the same source key that is a different event.

    `examples` are some of them, in words; `accepted` says that a person declared such rows to be one event.
    """

    rows: int
    examples: Sequence[str]
    accepted: bool


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From what on the checks of the history report something; see the options of the same names."""

    spike: float = PlanOptions.spike
    level: float = PlanOptions.level
    gap: int | None = PlanOptions.gap


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What checks read.

    `phases` counts the events to send by phase; `skips` counts skipped rows by code; `remedies` counts the rejected
    rows that each remedy would help (`remedy_of`); `keyless` counts events without a source key. `zone` is None where
    the data have no evidence of their time zone. `in_series` says that the plan is one window of a job, and
    `max_merges` is the job's limit, None without one. `open_choices` are those that the mapping lists under `open`.
    `coverage` is None where no mapping file decides, and `unmapped_limit` where any number is allowed.
    `rejects` are the rows and the items of rows that were rejected; the items of a row count one by one.
    `history` are the events to send by day, and `paths` the files, as people see them.
    """

    rows: RowCounts
    phases: Mapping[str, int]
    options: SealedOptions
    reject_limit: CountLimit
    remedies: Mapping[str, int]
    skips: Counter[str]
    keyless: int
    key_conflicts: KeyConflicts
    references: MissingReferences | None
    people: PeopleSeal
    zone: ZoneVerdict | None
    in_series: bool = False
    max_merges: int | None = None
    open_choices: Mapping[str, str] = field(default_factory=dict)
    rejects: int = 0
    unmapped_limit: CountLimit | None = None
    coverage: Coverage | None = None
    history: History = field(default_factory=History)
    paths: Sequence[str] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)


Find = Callable[[PlanFacts], str | Finding | None]
F = TypeVar("F", bound=Find)


class Check(NamedTuple):
    """A registered check: `find` returns the sentence of its finding, the finding of `finding_of`, or None."""

    name: str
    level: Level
    find: Find


CHECKS: list[Check] = []


def check(name: str, level: Level) -> Callable[[F], F]:
    """Register a function as a check. Two checks may share a name where one situation has two levels."""

    def register(find: F) -> F:
        CHECKS.append(Check(name, level, find))
        return find

    return register


def finding_of(sentence: str, examples: Sequence[str], count: int) -> Finding:
    """A finding of so many places, of which `examples` are the first in words, the worst ones first.

    Its name and level are those of the check that returns it.
    """
    more = f"; and {count - _EXAMPLES_SHOWN:,} more" if count > _EXAMPLES_SHOWN else ""
    shown = f"{sentence}: {'; '.join(examples[:_EXAMPLES_SHOWN])}{more}"
    return Finding("", "", shown, count, list(examples[:_EXAMPLES]))


def days_named(first: int, last: int) -> str:
    """`2021-03-01`, or `2021-03-01 to 2021-03-04 (4 days)`, of days since 1970."""
    if first == last:
        return day_name(first)
    return f"{day_name(first)} to {day_name(last)} ({last - first + 1:,} days)"


def run_checks(facts: PlanFacts) -> list[Finding]:
    """What all checks find, in their order."""
    found = []
    for one in CHECKS:
        result = one.find(facts)
        if isinstance(result, str):
            found.append(Finding(one.name, one.level, result))
        elif result is not None:
            found.append(msgspec.structs.replace(result, name=one.name, level=one.level))
    return found


def verdict_of(findings: Sequence[Finding], warnings: Counter[str]) -> str:
    """What findings and warnings come to: `ready`, `warnings` or `not-ready`."""
    levels = {finding.level for finding in findings}
    if "stop" in levels:
        return "not-ready"
    return "warnings" if levels or +warnings else "ready"


# -- rows and events -----------------------------------------------------------------------------------


REMEDIES = {
    WITHOUT_OFFSET: "their times have no offset; name the zone of that clock with --timezone Area/City",
    "recent_timestamp": "they are under 48 hours old; leave them out with --until, or send them, billed as live events,"
    " with --allow-recent",
}
"""What helps rows that were rejected for one reason, by the text of the reject or by its code."""


def remedy_of(code: str, detail: str) -> str:
    """What would help a row that was rejected with this code and text, "" where no remedy is declared."""
    return REMEDIES.get(detail) or REMEDIES.get(code, "")


@check("rejects", "warning")
def rejects_within_the_limit(facts: PlanFacts) -> str | None:
    """Some rows were rejected, and no more than may be."""
    return _rejects(facts) if facts.reject_limit.permits(_rejected(facts), facts.rows.read) else None


@check("max_rejects", "stop")
def too_many_rejects(facts: PlanFacts) -> str | None:
    """More rows were rejected than --max-rejects allows."""
    return None if facts.reject_limit.permits(_rejected(facts), facts.rows.read) else _rejects(facts)


def _rejected(facts: PlanFacts) -> int:
    """The rows and the items of rows that the limit is for."""
    return max(facts.rejects, facts.rows.rejected)


def _rejects(facts: PlanFacts) -> str | None:
    """How many rows were rejected, and the remedy that helps a third of them or more."""
    rejected, read = _rejected(facts), facts.rows.read
    if not rejected:
        return None
    detail = f"{rejected:,} of {pluralize(read, 'row')} ({rejected / read:.2%}) rejected (limit {facts.reject_limit})"
    if rejected > facts.rows.rejected:
        items = f"{pluralize(rejected, 'row')} or items of rows rejected, of {pluralize(read, 'row')}"
        detail = f"{items} (limit {facts.reject_limit}); of {facts.rows.rejected:,} of these rows, nothing is sent"
    remedy, rows = max(facts.remedies.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
    return f"{detail}. {rows:,} of them can be sent: {remedy}" if rows * 3 >= rejected else detail


@check("open_choices", "stop")
def undecided_mapping(facts: PlanFacts) -> str | None:
    """The mapping is a draft: it lists choices that a person has to make, under `open`."""
    if not facts.open_choices:
        return None
    choices = "; ".join(f"{name}: {evidence}" for name, evidence in facts.open_choices.items())
    return f"the mapping has {pluralize(len(facts.open_choices), 'open choice')}: {choices}"


@check("zero_events", "stop")
def nothing_to_send(facts: PlanFacts) -> str | None:
    """No event to send means that the mapping, the window or the files are the wrong ones; in a job it is normal."""
    return None if facts.in_series or any(facts.phases.values()) else "no event would be sent"


@check("keyless", "stop")
def keyless_rows_in_a_series(facts: PlanFacts) -> str | None:
    """Identical rows without a source key are numbered, which the windows of a job cannot do together."""
    if not facts.in_series or not facts.keyless or facts.options.collapse_identical:
        return None
    events = pluralize(facts.keyless, "event")
    return f"{events} without a source key, so identical ones cannot be distinguished across windows"


@check("merges", "stop")
def too_many_merges(facts: PlanFacts) -> str | None:
    """A job sends no more merges than it allows, because merges cannot be undone."""
    merges, limit = facts.people.identities.links, facts.max_merges
    return None if limit is None or merges <= limit else f"{pluralize(merges, 'merge')} to send (limit {limit:,})"


@check("duplicates", "warning")
def duplicates_removed(facts: PlanFacts) -> str | None:
    """Duplicates only warn, because every export has some."""
    duplicates = facts.skips["duplicate_event"] + facts.skips["superseded"]
    if not duplicates:
        return None
    return f"{pluralize(duplicates, 'duplicate')} removed; {pluralize(facts.phases['events'], 'event')} to send"


@check("key_not_unique", "stop")
def conflicting_keys(facts: PlanFacts) -> str | None:
    """Rows of one source key that differ in event name or UTC day: only one of them would be sent."""
    return None if facts.key_conflicts.accepted else _key_conflicts(facts.key_conflicts)


@check("key_not_unique", "warning")
def accepted_conflicting_keys(facts: PlanFacts) -> str | None:
    """The same where a person declared such rows to be one event."""
    return _key_conflicts(facts.key_conflicts) if facts.key_conflicts.accepted else None


def _key_conflicts(conflicts: KeyConflicts) -> str | None:
    if not conflicts.rows:
        return None
    more = "; …" if conflicts.rows > len(conflicts.examples) else ""
    return (
        f"{pluralize(conflicts.rows, 'row')} {are(conflicts.rows)} left out for another row of the same key that is a"
        f" different event: {'; '.join(conflicts.examples)}{more}"
    )


@check("unmatched_reference", "stop")
def missing_required_references(facts: PlanFacts) -> str | None:
    """The mapping names a field that no row has, and without it no row has an event name, person, time or key."""
    return facts.references.detail if facts.references is not None and facts.references.required else None


@check("unmatched_reference", "warning")
def missing_references(facts: PlanFacts) -> str | None:
    """The mapping names a field that no row has."""
    return facts.references.detail if facts.references is not None and not facts.references.required else None


@check("max_unmapped", "stop")
def too_many_unmapped(facts: PlanFacts) -> str | None:
    """More fields and event names are kept without the mapping naming them than --max-unmapped allows."""
    limit, coverage = facts.unmapped_limit, facts.coverage
    if limit is None or coverage is None or limit.permits(coverage.unmapped, coverage.met):
        return None
    fields = [one.field for one in coverage.fields if one.unmapped]
    events = [one.event for one in coverage.events if one.unmapped]
    return (
        f"{coverage.unmapped:,} of {coverage.met:,} fields and event names are kept and the mapping does not name them"
        f" (limit {limit}): {_some('field', fields, coverage.fields_total.unmapped)};"
        f" {_some('event name', events, coverage.events_total.unmapped)}"
    )


def _some(unit: str, names: Sequence[str], count: int) -> str:
    """How many there are, and the names of the first."""
    shown = [printable(name, _NAME_CHARACTERS) for name in names[:_NAMES_SHOWN]]
    more = f", and {count - len(shown):,} more" if count > len(shown) else ""
    return f"{pluralize(count, unit)}{' (' + ', '.join(shown) + more + ')' if shown else ''}"


# -- people and groups ---------------------------------------------------------------------------------


@check("group_types", "stop")
def too_many_group_types(facts: PlanFacts) -> str | None:
    """There are more group types than the service keeps, and --group-types does not choose among them."""
    sent = [one for one in facts.people.groups.types if one.sent]
    if len(sent) <= MAX_TYPES:
        return None
    return (
        f"there are {len(sent)} group types and the service keeps {MAX_TYPES}: {_with_rows(sent)}."
        " Choose them, in their order, with --group-types"
    )


@check("group_types", "warning")
def group_types_left_out(facts: PlanFacts) -> str | None:
    """--group-types leaves some types out."""
    left_out = [one for one in facts.people.groups.types if not one.sent]
    return f"--group-types leaves out {_with_rows(left_out)}" if left_out else None


def _with_rows(types: Sequence[GroupTypeSeal]) -> str:
    return ", ".join(f"{one.type} ({pluralize(one.rows, 'row')})" for one in types)


@check("persons", "warning")
def persons_without_profile(facts: PlanFacts) -> str | None:
    """Under `--persons identified` some ids get no profile, which cannot be changed afterwards."""
    if facts.options.persons != "identified":
        return None
    profiles = facts.people.profiles
    return (
        f"no profile for {pluralize(profiles.anonymous_ids, 'id')} with"
        f" {pluralize(profiles.anonymous_events, 'event')}, one for {pluralize(profiles.identified_ids, 'id')} with"
        f" {pluralize(profiles.identified_events, 'event')}; merges and groups need one"
    )


# -- the time zone -------------------------------------------------------------------------------------


@check("zone", "stop")
def unproved_zone(facts: PlanFacts) -> str | None:
    """The data contradict the time zone, or nothing in them proves it and nobody named it."""
    verdict = facts.zone
    if verdict is None:
        return None
    if verdict.contradictions:
        worst = max(verdict.contradictions, key=lambda month: month.rows)
        return (
            f"the data contradict {verdict.zone}: in {worst.month} timestamps look like {offset_name(worst.offset)}"
            f" in {worst.rows:,} of {pluralize(worst.of, 'row')}; the expected offset of {verdict.zone} is"
            f" {' or '.join(map(offset_name, worst.expected))};"
            f" {len(verdict.contradictions)} of {len(verdict.months)} months disagree."
            " Name the project's zone with --timezone"
        )
    if verdict.proved or facts.options.zones:
        return None
    return "nothing in the data proves the zone of its times. Name it with --timezone, also when it is UTC"


for _module in iter_modules(__path__, f"{__name__}."):  # each imports what stands above
    import_module(_module.name)
