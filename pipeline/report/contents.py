"""The content of a report, read once from the plan and the files next to it; JSON and HTML show the same value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import msgspec

from pipeline.errors import BackcastError
from pipeline.ledger import SendingRate, read_rate, was_ever_applied
from pipeline.mask import IDS, SHOWN, masked
from pipeline.models import Reject
from pipeline.plan.samples.source_pairs import SourcePair, SourcePairs
from pipeline.plan.sealed.contents import planned_days, sealed_lines
from pipeline.plan.sealed.directory import PHASES, Directory
from pipeline.plan.sealed.discarded import discarded_of
from pipeline.plan.sealed.manifest import FORMAT, Example, Plan, PlanHead, read_head
from pipeline.report.records import (
    PausedFunction,
    PreflightResult,
    WrittenReceipt,
    paused_in,
    preflight_of,
    read_record,
    written_receipt,
)
from pipeline.report.rejects import RefusalCause, refusal_causes
from pipeline.report.results import ApplyResult, CanaryResult, StatusResult
from pipeline.report.wording import DECISIONS, unproved
from pipeline.targets import address_of
from pipeline.text import printable
from pipeline.validator.codes import meaning
from pipeline.verify.findings import Verification

if TYPE_CHECKING:
    from pipeline.report.pairs import PairRow

TOP_EVENTS = 100
"""Event names in the table of months; the others are one line."""
DETAIL_CHARACTERS = 240
DUPLICATES = ("duplicate_event", "superseded")
"""The codes of duplicates that are left out."""
OTHERS = ""
"""Stands for the event names beyond the most frequent ones."""
MOST_PLANS = 8
"""How many of the newest neighbouring plans are read."""
_PAUSE = 60
"""Seconds without an accepted event after which nothing is being sent."""


class CodeCount(msgspec.Struct, frozen=True):
    """A code with its count, and an example if there is one. `row` counts from 1; 0: no example."""

    code: str
    count: int
    meaning: str
    part: str = ""
    row: int = 0
    detail: str = ""
    record: str = ""


class MonthCount(msgspec.Struct, frozen=True):
    """Events to send of one name (OTHERS for all beyond the most frequent) in one UTC month, `2021-03`."""

    event: str
    month: str
    count: int


class Span(msgspec.Struct):
    """The first and the last UTC day with an event to send of a name: `2021-03-01`."""

    first: str
    last: str


class FileCopies(msgspec.Struct, frozen=True):
    """The duplicates that a file has of events that are sent, by code."""

    path: str
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Project(msgspec.Struct, frozen=True):
    """The project of a target, as a personal key read its `name`, and the target's address."""

    name: str
    to: str


class Results(msgspec.Struct, frozen=True):
    """The latest result of each step after the plan; None for a step that was not done.

    `rehearsal` and `rehearsed` are of the embedded local service: the run there, and what was read back. `applied` is
    the state of the plan over all runs, `verification` what was read back from where it was applied to. `project` is
    the one that preflight, apply or verify found there, `canary` the sample that was sent first.
    """

    rehearsal: ApplyResult | None = None
    rehearsed: Verification | None = None
    applied: StatusResult | None = None
    verification: Verification | None = None
    project: Project | None = None
    canary: CanaryResult | None = None


NO_RESULTS = Results()


class MeasuredRate(msgspec.Struct, frozen=True):
    """Events a second in the sending or rehearsal of a plan, named as its directory is: how long the rest will take.
    `failed` are requests that were not accepted at once.

    What the target itself accepted says most: of this plan, then of the newest plan next to it for the same target. A
    rehearsal says what this machine makes; a target is further away.
    """

    events: float
    step: Literal["sent", "rehearsed"]
    plan: str
    failed: int = 0


class Report(msgspec.Struct, frozen=True):
    """A plan and its results. `name` is the name of the plan's directory, without its path.

    `days` counts events to send by UTC day, in the order of the days; `spans` has the days of the most frequent names.
    `pairs` are rows of identities.parquet, some of each decision and reason. `state` is the state of the plan.
    `copies` counts the duplicates of each file by code, `refusals` are the answers that refused events where the
    plan was applied, else in its rehearsal, and `rate` is when events were accepted, where the plan was applied.
    `earlier` is how fast another plan was sent to the same target, if this one was not. `preflight` is what the
    target answered before. `source_pairs` are rows with the events that they become, `receipt` is the receipt next to
    the plan, `paused` the hog functions that are off for this plan, `discarded` when its events were discarded ("" for
    never).
    """

    name: str
    plan: Plan
    months: list[MonthCount]
    days: Mapping[str, int]
    spans: Mapping[str, Span]
    skips: list[CodeCount]
    rejects: list[CodeCount]
    warnings: list[CodeCount]
    unproved: list[str]
    pairs: list[PairRow]
    results: Results = NO_RESULTS
    state: str = ""
    copies: list[FileCopies] = []
    refusals: list[RefusalCause] = []
    rate: SendingRate | None = None
    earlier: MeasuredRate | None = None
    preflight: PreflightResult | None = None
    source_pairs: list[SourcePair] = []
    receipt: WrittenReceipt | None = None
    paused: Sequence[PausedFunction] = ()
    discarded: str = ""


def latest_canary(results: Results, settled: int) -> CanaryResult | None:
    """The canary of a plan of which this many events are settled, None if more was sent after it."""
    return results.canary if results.canary is not None and results.canary.settled == settled else None


class _EarlierReport(Results, frozen=True):
    plan: Mapping[str, object] = {}


def project_of(name: str, to: str) -> Project | None:
    """The project of a target (an address, us or eu), None if its name is not known."""
    return Project(name, address_of(to)) if name else None


def results_of(directory: Directory, plan: Plan, new: Results) -> Results:
    """The `new` results, and for those that it does not have the ones of an earlier report of the same plan."""
    earlier = read_record(directory.report_json, _EarlierReport)
    if earlier is None or earlier.plan.get("digest") != plan.digest:
        return new
    return Results(
        new.rehearsal or earlier.rehearsal,
        new.rehearsed or earlier.rehearsed,
        verification=new.verification or earlier.verification,
        project=new.project or earlier.project,
        canary=new.canary or earlier.canary,
    )


def build_report(directory: Directory, plan: Plan, results: Results = NO_RESULTS, state: str = "") -> Report:
    """Read cells.jsonl, rejects.jsonl, identities.parquet and facts once, a piece at a time.

    Raises UnsafePlan when they are damaged.
    """
    return Report(
        directory.url or directory.path.resolve().name,
        plan,
        *_daily(directory, plan),
        code_counts(plan.skips, plan.examples),
        _rejects(directory, plan),
        code_counts(plan.warnings, plan.examples),
        unproved(plan),
        _pairs(directory, plan),
        results,
        state,
        _copies(directory, plan),
        _refusals(directory, plan, results),
        None if results.applied is None else read_rate(directory.ledger),
        earlier_rate(directory, plan.target) if results.applied is None else None,
        preflight_of(directory, plan.digest),
        list(sealed_lines(directory.source_pairs, SourcePair)),
        written_receipt(plan, directory),
        paused_in(directory),
        "" if (gone := discarded_of(plan, directory)) is None else gone.at,
    )


def _daily(directory: Directory, plan: Plan) -> tuple[list[MonthCount], dict[str, int], dict[str, Span]]:
    """Events to send by name and month, by day, and the days of each of the most frequent names."""
    shown = frozenset(list(plan.names)[:TOP_EVENTS])
    counts: Counter[tuple[str, str]] = Counter()
    days: Counter[str] = Counter()
    spans: dict[str, Span] = {}
    for event, day, count in planned_days(directory):
        counts[event if event in shown else OTHERS, day[:7]] += count
        days[day] += count
        if event in shown:
            span = spans.setdefault(event, Span(day, day))
            span.first, span.last = min(span.first, day), max(span.last, day)
    order = {name: position for position, name in enumerate(plan.names)} | {OTHERS: len(plan.names)}
    months = [
        MonthCount(event, month, count)
        for (event, month), count in sorted(counts.items(), key=lambda item: (order[item[0][0]], item[0]))
    ]
    return months, dict(sorted(days.items())), spans


def first_rejects(directory: Directory, plan: Plan) -> dict[str, Reject]:
    """The first row that was rejected with each code; reading ends when every code has one. Raises UnsafePlan."""
    first: dict[str, Reject] = {}
    for reject in sealed_lines(directory.rejects, Reject) if plan.rejects else ():
        first.setdefault(reject.code, reject)
        if len(first) == len(plan.rejects):
            break
    return first


def _rejects(directory: Directory, plan: Plan) -> list[CodeCount]:
    dialects = {part.path: part.dialect for part in plan.parts if part.dialect.header}
    examples = first_rejects(directory, plan)
    pairs = plan.source_pairs
    known = SHOWN if isinstance(pairs, SourcePairs) and pairs.ids else SHOWN - IDS
    records = {code: masked(example.record, dialects.get(example.part), known) for code, example in examples.items()}
    return code_counts(plan.rejects, examples, records)


def code_counts(
    counts: Mapping[str, int],
    examples: Mapping[str, Reject | Example] = MappingProxyType({}),
    records: Mapping[str, str] = MappingProxyType({}),
) -> list[CodeCount]:
    """Each code with its meaning, and with its example and the example's row, if there are any."""
    rows = []
    for code, count in counts.items():
        where: tuple[str, int, str, str] = ("", 0, "", "")
        if example := examples.get(code):
            detail = printable(example.detail, DETAIL_CHARACTERS)
            where = (example.part, example.row, detail, records.get(code, ""))
        rows.append(CodeCount(code, count, meaning(code), *where))
    return rows


def _copies(directory: Directory, plan: Plan) -> list[FileCopies]:
    """The files with duplicates, those with most first."""
    if not any(code in plan.skips for code in DUPLICATES) or not any(directory.facts.glob("*")):
        return []
    from pipeline.plan.requests.query import opened

    with opened(directory) as database:
        rows = database.rows(
            f"SELECT part, code, count(*) FROM facts WHERE code IN {DUPLICATES} GROUP BY part, code ORDER BY part, code"
        )
    counts: dict[int, dict[str, int]] = {}
    for part, code, events in rows:
        counts.setdefault(part, {})[code] = events
    found = [FileCopies(plan.parts[part].path, codes) for part, codes in counts.items()]
    return sorted(found, key=lambda copies: (-copies.total, copies.path))


def _refusals(directory: Directory, plan: Plan, results: Results) -> list[RefusalCause]:
    """Why events were refused when the plan was applied, or else in its rehearsal."""
    run = results.applied or results.rehearsal
    if run is None or not run.events.refused:
        return []
    return refusal_causes(plan, directory, rehearsed=results.applied is None)


def _pairs(directory: Directory, plan: Plan) -> list[PairRow]:
    if not plan.people.identities.pairs or not directory.pairs.exists():
        return []
    from pipeline.report.pairs import some_pairs

    order = {name: position for position, name in enumerate(DECISIONS)}
    return sorted(some_pairs(directory.pairs), key=lambda pair: order.get(pair.decision, len(order)))


def duplicates_of(plan: Plan) -> int:
    """How many duplicates the plan leaves out."""
    return sum(plan.skips.get(code, 0) for code in DUPLICATES)


def not_merged(plan: Plan) -> int:
    """How many pairs of ids stay two persons."""
    return sum(one.pairs for one in plan.people.identities.decisions if one.decision in ("refused", "conflict"))


def phases_of(plan: Plan) -> Mapping[str, int]:
    """The number of events of each phase, in the order of sending; 0 for a phase without any."""
    return {name: plan.events.phases.get(name, 0) for name in PHASES}


def sending_rate(found: SendingRate, plan: str) -> MeasuredRate | None:
    """Accepted events by the time in which any were; None without any."""
    seconds = _active(found.settled)
    if not seconds:
        return None
    return MeasuredRate(sum(found.settled.values()) / seconds, "sent", plan, sum(found.failed.values()))


def rehearsal_rate(run: ApplyResult | None, plan: str) -> MeasuredRate | None:
    """Events by the time that a rehearsal took; None without one."""
    return MeasuredRate(run.events.made / run.seconds, "rehearsed", plan) if run is not None and run.seconds else None


def _active(settled: Mapping[int, int]) -> int:
    """The seconds from the first accepted event to the last, without pauses."""
    times = sorted(settled)
    steps = (later - earlier for earlier, later in pairwise(times))
    return len(times[:1]) + sum(step if step <= _PAUSE else 1 for step in steps)


class _Rehearsed(msgspec.Struct):
    """What the rate of an earlier plan needs of its report, whatever else that has."""

    rehearsal: ApplyResult | None = None


def earlier_rate(directory: Directory, target: str) -> MeasuredRate | None:
    """The rate of the newest neighbouring plan for the same target: of one that was sent, or else of a rehearsal."""
    if not target:
        return None
    rehearsed = None
    for other in _newest_beside(directory):
        if read_head(other) != PlanHead(FORMAT, target):
            continue
        name = other.path.resolve().name
        with suppress(OSError, BackcastError):
            if was_ever_applied(other.ledger) and (found := sending_rate(read_rate(other.ledger), name)):
                return found
            rehearsed = rehearsed or rehearsal_rate(
                (read_record(other.report_json, _Rehearsed) or _Rehearsed()).rehearsal, name
            )
    return rehearsed


def _newest_beside(directory: Directory) -> Iterable[Directory]:
    own = directory.path.resolve()
    found = []
    for path in own.parent.glob("*/plan.json"):
        try:
            if path.parent != own:
                found.append((path.stat().st_mtime, path.parent))
        except OSError:
            continue
    return [Directory(path) for _, path in sorted(found, reverse=True)[:MOST_PLANS]]
