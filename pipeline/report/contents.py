"""The content of a report, read once from the plan and the files beside it; JSON and HTML show the same value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from pipeline.errors import UnsafePlan
from pipeline.ledger import SendingRate, read_rate
from pipeline.mask import masked
from pipeline.models import Reject
from pipeline.plan.samples.source_pairs import SourcePair
from pipeline.plan.sealed.directory import PHASES, Directory, read_lines
from pipeline.plan.sealed.manifest import Example, Plan, SealedBlock
from pipeline.report.measured import MeasuredRate, earlier_rate
from pipeline.report.paused import PausedFunction, paused_in
from pipeline.report.preflight_record import PreflightResult, preflight_of
from pipeline.report.receipts import WrittenReceipt, written_receipt
from pipeline.report.rejects import RefusalCause, refusal_causes
from pipeline.report.results import ApplyResult, CanaryResult, StatusResult, VerifyResult
from pipeline.report.wording import DECISIONS, unproved
from pipeline.targets import address_of
from pipeline.text import printable
from pipeline.validator.codes import meaning
from pipeline.verify.earlier import Earlier

if TYPE_CHECKING:
    from pipeline.report.pairs import PairRow

TOP_EVENTS = 100
"""Event names in the table of months; the others are one line."""
DETAIL_CHARACTERS = 240
DUPLICATES = ("duplicate_event", "superseded")
"""The codes of duplicates that are left out."""
OTHERS = ""
"""Stands for the event names beyond the most frequent ones."""


class CodeCount(msgspec.Struct, frozen=True):
    """A code with its count, and an example where there is one. `row` counts from 1; 0: no example."""

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
    rehearsed: VerifyResult | None = None
    applied: StatusResult | None = None
    verification: VerifyResult | None = None
    project: Project | None = None
    canary: CanaryResult | None = None


NO_RESULTS = Results()


class Report(msgspec.Struct, frozen=True):
    """A plan and its results. `name` is the name of the plan's directory, without its path.

    `days` counts events to send by UTC day, in the order of the days; `spans` has the days of the most frequent names.
    `pairs` are rows of identities.parquet, some of each decision and reason. `state` is the state of the plan.
    `copies` counts the duplicates of each file by code, `refusals` are the answers that refused events where the
    plan was applied, else in its rehearsal, and `rate` is when events were accepted, where the plan was applied.
    `earlier` is how fast another plan was sent to the same target, where this one was not. `preflight` is what the
    target answered before. `source_pairs` are rows beside the events that they become, `receipt` is
    the receipt beside the plan, `paused` the hog functions that are off for this plan.
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


class _Cell(msgspec.Struct):
    event: str
    day: str
    outcome: str
    count: int


class _EarlierReport(Results, frozen=True):
    plan: Mapping[str, object] = {}


def project_of(name: str, to: str) -> Project | None:
    """The project of a target (an address, us or eu), None where its name is not known."""
    return Project(name, address_of(to)) if name else None


def results_of(directory: Directory, plan: Plan, new: Results) -> Results:
    """The `new` results, and for those that it does not have the ones of an earlier report of the same plan."""
    try:
        earlier = msgspec.json.decode(directory.report_json.read_bytes(), type=_EarlierReport)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return new
    if earlier.plan.get("digest") != plan.digest:
        return new
    return Results(
        new.rehearsal or earlier.rehearsal,
        new.rehearsed or earlier.rehearsed,
        verification=new.verification or earlier.verification,
        project=new.project or earlier.project,
        canary=new.canary or earlier.canary,
    )


def earlier_verification(directory: Directory, plan: Plan) -> Earlier | None:
    """What the last verification of a plan found; None where there was none."""
    last = results_of(directory, plan, NO_RESULTS).verification
    if last is None:
        return None
    return Earlier(last.uuids, msgspec.structs.asdict(last.events), last.values, last.people, last.differences)


def build_report(directory: Directory, plan: Plan, results: Results = NO_RESULTS, state: str = "") -> Report:
    """Read cells.jsonl, rejects.jsonl and identities.parquet once, a piece at a time.

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
        _source_pairs(directory),
        written_receipt(plan, directory),
        paused_in(directory),
    )


def _daily(directory: Directory, plan: Plan) -> tuple[list[MonthCount], dict[str, int], dict[str, Span]]:
    """Events to send by name and month, by day, and the days of each of the most frequent names."""
    shown = frozenset(list(plan.names)[:TOP_EVENTS])
    counts: Counter[tuple[str, str]] = Counter()
    days: Counter[str] = Counter()
    spans: dict[str, Span] = {}
    if directory.cells.exists():
        try:
            for cell in read_lines(directory.cells, _Cell):
                if cell.outcome == "mapped" and cell.count:
                    counts[cell.event if cell.event in shown else OTHERS, cell.day[:7]] += cell.count
                    days[cell.day] += cell.count
                    if cell.event in shown:
                        span = spans.setdefault(cell.event, Span(cell.day, cell.day))
                        span.first, span.last = min(span.first, cell.day), max(span.last, cell.day)
        except msgspec.MsgspecError as error:
            raise _damaged(directory.cells.name, error) from None
    order = {name: position for position, name in enumerate(plan.names)} | {OTHERS: len(plan.names)}
    months = [
        MonthCount(event, month, count)
        for (event, month), count in sorted(counts.items(), key=lambda item: (order[item[0][0]], item[0]))
    ]
    return months, dict(sorted(days.items())), spans


def first_rejects(directory: Directory, plan: Plan) -> dict[str, Reject]:
    """The first row that was rejected with each code; reading ends when every code has one. Raises UnsafePlan."""
    first: dict[str, Reject] = {}
    if plan.rejects and directory.rejects.exists():
        try:
            for reject in read_lines(directory.rejects, Reject):
                first.setdefault(reject.code, reject)
                if len(first) == len(plan.rejects):
                    break
        except msgspec.MsgspecError as error:
            raise _damaged(directory.rejects.name, error) from None
    return first


def _rejects(directory: Directory, plan: Plan) -> list[CodeCount]:
    """Each code with its first row, masked."""
    dialects = {part.path: part.dialect for part in plan.parts if part.dialect.header}
    examples = first_rejects(directory, plan)
    records = {code: masked(example.record, dialects.get(example.part)) for code, example in examples.items()}
    return code_counts(plan.rejects, examples, records)


def code_counts(
    counts: Mapping[str, int],
    examples: Mapping[str, Reject | Example] = MappingProxyType({}),
    records: Mapping[str, str] = MappingProxyType({}),
) -> list[CodeCount]:
    """Each code with its meaning, and with its example and the example's row where there are any."""
    rows = []
    for code, count in counts.items():
        row = CodeCount(code, count, meaning(code))
        if example := examples.get(code):
            detail = printable(example.detail, DETAIL_CHARACTERS)
            row = CodeCount(code, count, row.meaning, example.part, example.row, detail, records.get(code, ""))
        rows.append(row)
    return rows


def _copies(directory: Directory, plan: Plan) -> list[FileCopies]:
    """The files with duplicates, those with most first."""
    if not any(code in plan.skips for code in DUPLICATES) or not directory.copies.exists():
        return []
    part_of = {block.number: block.part for block in read_lines(directory.blocks, SealedBlock)}
    counts: dict[int, Counter[str]] = {}
    for block, _, _, _, code in read_lines(directory.copies, tuple[int, int, int, int, str]):
        if code in DUPLICATES:
            counts.setdefault(part_of[block], Counter())[code] += 1
    found = [FileCopies(plan.parts[part].path, codes) for part, codes in counts.items()]
    return sorted(found, key=lambda copies: (-copies.total, copies.path))


def _refusals(directory: Directory, plan: Plan, results: Results) -> list[RefusalCause]:
    """Why events were refused where the plan was applied, else in its rehearsal."""
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


def _source_pairs(directory: Directory) -> list[SourcePair]:
    try:
        return list(read_lines(directory.source_pairs, SourcePair)) if directory.source_pairs.exists() else []
    except msgspec.MsgspecError as error:
        raise _damaged(directory.source_pairs.name, error) from None


def _damaged(name: str, error: Exception) -> UnsafePlan:
    return UnsafePlan(f"{name} of the plan cannot be read: {error}", hint="plan again; a plan is never edited")


def phases_of(plan: Plan) -> Mapping[str, int]:
    """The number of events of each phase, in the order of sending; 0 for a phase without any."""
    return {name: plan.events.phases.get(name, 0) for name in PHASES}
