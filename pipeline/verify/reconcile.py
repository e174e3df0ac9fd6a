"""Compare what landed with the ledger: nothing missing, nothing extra, nothing altered, nothing twice, nobody lost.

First the counts by event and UTC day; then two sets exactly, by (uuid, event, distinct_id, timestamp), all of them or
those of days whose counts differ; then the values of a sample, or of all; then what the service made of merges,
profiles and groups. Both sides are kept in pages and compared part by part, so memory does not grow with the history,
and an interrupted verification continues (`pipeline.verify.session`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from pipeline.engines.local import Workers
from pipeline.ledger import read_batches, read_doubts
from pipeline.models import Step
from pipeline.plan.sealed.contents import PlannedBlock, task_of, tasks
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import phase_blocks
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task, TransformConfig
from pipeline.verify.comparison import LOST, MISSING, SUSPECT, Comparison, keys_of, uuid_of
from pipeline.verify.earlier import Earlier, kept_kinds, with_earlier
from pipeline.verify.event_set import EventSet
from pipeline.verify.expected import Expected, Ranges, SampleBounds, expect_block, expected_of
from pipeline.verify.fields import Sent, Values, compare_values, sample_of
from pipeline.verify.findings import ExtraEvents, Fields, PeopleCheck, Uuids, Verification, WarningCheck
from pipeline.verify.landed import (
    ASKED,
    BEGIN,
    PAGE,
    VALUES_PAGE,
    Cursor,
    Row,
    landed_cells,
    landed_copies,
    landed_events,
    landed_pages,
)
from pipeline.verify.people import Latest, check_people, person_differences
from pipeline.verify.provenance import having, provenance_of
from pipeline.verify.rows import SealedPlan, name_differences
from pipeline.verify.session import Cells, Pages, Session
from pipeline.verify.settle import settled_for
from pipeline.verify.warnings import read_warnings

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

MOST_ASKED_AGAIN = 20_000
"""Missing events that are asked for once more; where there are more, none is, except before they are sent again."""
SHOWN = 20
"""Cells of extra events that are listed; all are counted."""

Settled = Mapping[tuple[str, int], Ranges]
"""The ranges of events that were sent, by phase and block."""


class Depth(NamedTuple):
    """How much is compared. `whole`: the service has this plan's events alone, so any other is extra. `among_others`:
    the plan is one of many of its import, so only events with its uuids are compared, and only on the days of its
    events; `latest` says of a group's type, key and uuid whether no later plan of it updated the group.
    `ask_all`: every missing event is asked for once more, since it is to be sent again. What a deeper
    verification found, `earlier`, stays.
    """

    uuids: Uuids = "all"
    fields: Fields = "none"
    whole: bool = False
    among_others: bool = False
    latest: Latest | None = None
    ask_all: bool = False
    earlier: Earlier | None = None


UUIDS = Depth()
"""Every uuid, and no values."""


class _Verifying(NamedTuple):
    """One verification: what it compares, with what, and where it keeps it."""

    plan: Plan
    directory: Directory
    config: TransformConfig
    client: ManagementClient
    depth: Depth
    workers: int
    session: Session
    progress: Step
    cells: Cells
    settled: Settled


def verify(
    plan: Plan,
    directory: Directory,
    config: TransformConfig,
    client: ManagementClient,
    *,
    workers: int,
    depth: Depth = UUIDS,
    missing: Callable[[EventSet], None] | None = None,
    progress: Step = lambda name, done, total: None,
) -> Verification:
    """Compare the service behind `client` with the plan's ledger.

    Events without a uuid of the plan belong to others, who may send to the project too; they are counted separately.
    Only events with the plan's provenance are read, or all of them where it was planned without. `progress` is called
    with the name of a step, how many of its events are done, and how many it has; `missing` with the events that are
    missing.
    """
    keep = kept_kinds(depth.earlier, depth.uuids, depth.fields)
    marks = {} if depth.whole else provenance_of(plan)
    settled = _settled(directory)
    age = settled_for(directory.ledger)
    asked = depth._replace(earlier=None, latest=None)
    key = plan.digest, client.base_url, client.project_id, marks, asked, [*settled.items()]
    with Session(directory, *key) as session:
        one = _Verifying(plan, directory, config, client, depth, workers, session, progress, Cells(), settled)
        found = with_earlier(_verify(one, marks, missing, keep), depth.earlier, keep)
    batches, events = read_doubts(directory.ledger)
    doubts = {"batches": batches, "events": events}
    return msgspec.structs.replace(found, settled=None if age is None else round(age, 1), resolved_doubts=doubts)


def _verify(
    one: _Verifying, marks: Mapping[str, str], missing: Callable[[EventSet], None] | None, keep: frozenset[str]
) -> Verification:
    where, depth, client = having(marks), one.depth, one.client
    expected = Pages(one.session, "expected", one.cells, beside="candidates.jsonl")
    if expected.cursor != _WHOLE:
        _read_expected(one, expected)
    planned = one.cells.names()
    landed = Pages(one.session, "landed", one.cells)
    counts = Counter(
        {
            (event, day): count
            for event, day, count in one.session.kept(
                "counts.json",
                list[tuple[str, str, int]],
                lambda: [(*cell, count) for cell, count in landed_cells(client, where=where).items()],
            )
        }
    )
    if depth.among_others:
        days = {day for _, day in planned}
        counts = Counter({cell: count for cell, count in counts.items() if cell[1] in days})
    read = _differing_days(planned, expected, counts) if depth.uuids == "differing" else None
    _read_landed(one, landed, counts, where, read)
    by_cell = None if read is None else np.array([day in read for _, day in one.cells.names()], np.bool_)
    comparison = Comparison(one.cells, one.session.path, alone=depth.whole, read=by_cell, planned=len(planned))
    for want, have in zip(expected.parts(), landed.parts(), strict=True):
        comparison.compare(want, have[np.isin(keys_of(have), keys_of(want))] if depth.among_others else have)
    _ask_again(one, comparison, marks)
    if missing is not None:
        missing(EventSet(comparison.places(LOST)))
    values = _compare_values(one, expected, comparison)
    comparison.counts["altered"] = values.check.altered
    names, sealed = one.cells.names(), SealedPlan(one.plan, one.directory, one.config)
    people, warnings = PeopleCheck(), WarningCheck()
    if depth.fields != "none":
        people = check_people(
            client, one.session, one.directory, one.settled, every=depth.fields == "all", progress=one.progress,
            latest=depth.latest, alone=depth.whole,
        )  # fmt: skip
        warnings = read_warnings(client, expected, sealed, names)
    differences = name_differences(
        client, comparison, values.altered, sealed, names, person_differences(one.session), one.progress, keep
    )
    if not depth.among_others and read is None:
        comparison.count_copies(landed_copies(client, where))
    extras = [ExtraEvents(*names[cell], count) for cell, count in comparison.extras.most_common(SHOWN)]
    return Verification(
        comparison.cells(), dict(comparison.counts), differences, extras, dict(marks),
        depth.uuids, values.check, people, warnings,
    )  # fmt: skip


# -- what was sent ------------------------------------------------------------------------------------------

_WHOLE = ["end"]
"""The cursor of the plan's pages when all of them are written."""


def _settled(directory: Directory) -> Settled:
    """The ranges of events that the ledger says were sent, settled and in doubt, by phase and block."""
    ranges: dict[tuple[str, int], tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    for side, state in ((0, "settled"), (1, "begun"), (1, "waiting")):
        for key in read_batches(directory.ledger, state):
            ranges.setdefault((key.phase, key.block), ([], []))[side].append((key.first, key.last))
    return {key: Ranges(*sides) for key, sides in ranges.items()}


def _read_expected(one: _Verifying, pages: Pages) -> None:
    """Write the fingerprints of everything that was sent, from where an earlier run stopped."""
    total = sum(last - first + 1 for ranges in one.settled.values() for some in ranges for first, last in some)
    reached = tuple(pages.cursor) if pages.cursor else (-1, -1)
    for phase, block, expected in _expected(one, reached):
        pages.add_expected(expected, (phase, block))
        one.progress("events as planned", pages.count, total)
    pages.finish(_WHOLE)


def _expected(one: _Verifying, reached: tuple[int, int]) -> Iterator[tuple[int, int, Expected]]:
    """The fingerprints of each block after the one that was reached: (index of the phase, block)."""
    fields = one.depth.fields
    bounds = SampleBounds() if fields == "sample" else None
    mapper = one.config.compile(one.config.options)
    order = [PHASES.index(phase) for phase in PHASES if phase != EVENTS] + [PHASES.index(EVENTS)]
    after = (order.index(reached[0]) if reached[0] >= 0 else -1, reached[1])
    for at, phase in enumerate(order[:-1]):
        for number, events in phase_blocks(PHASES[phase], one.plan, one.directory, mapper, one.config.options):
            if (at, number) > after:
                ranges = one.settled.get((PHASES[phase], number), Ranges())
                values = fields == "all"
                yield phase, number, expected_of(events, ranges, phase, number, bounds, values=values)
    last, events_phase = len(order) - 1, order[-1]

    def choose(planned: PlannedBlock) -> Task | None:
        number = planned.sealed.number
        sent = one.settled.get((EVENTS, number))
        if sent is None or (last, number) <= after:
            return None
        return task_of(one.plan, planned)._replace(ended=sent.settled, doubtful=sent.in_doubt)

    if any(phase == EVENTS for phase, _ in one.settled):
        work = partial(expect_block, phase=events_phase, fields=fields)
        with Workers(one.workers, one.config) as workers:
            parts = tasks(one.directory, choose)
            for task, expected in workers.walk(work, parts):
                yield events_phase, task.number, expected


# -- what landed -------------------------------------------------------------------------------------------------


def _differing_days(planned: Sequence[tuple[str, str]], expected: Pages, counts: Counter[tuple[str, str]]) -> set[str]:
    """The UTC days of which a count is not what was sent."""
    own = np.zeros(len(planned), np.int64)
    for part in expected.parts():
        own += np.bincount(part["cell"], minlength=len(own))
    sent = dict(zip(planned, own.tolist(), strict=True))
    return {cell[1] for cell in sent.keys() | counts.keys() if sent.get(cell, 0) != counts.get(cell, 0)}


def _read_landed(
    one: _Verifying, pages: Pages, counts: Counter[tuple[str, str]], where: str, days: set[str] | None
) -> None:
    """Write the fingerprints of everything that landed, on some days or on all, from where an earlier run stopped."""
    if days is not None:
        counts = Counter({cell: count for cell, count in counts.items() if cell[1] in days})
    values = one.depth.fields == "all"
    start = Cursor(*pages.cursor) if pages.cursor else BEGIN
    total = counts.total()
    size = VALUES_PAGE if values else PAGE
    for rows, cursor in landed_pages(one.client, counts, size, where, values=values, start=start):
        if days is not None:
            rows = [row for row in rows if row.timestamp[:10] in days]
        pages.add_landed(rows, cursor)
        one.progress("events at the target", pages.count, total)


def _ask_again(one: _Verifying, comparison: Comparison, marks: Mapping[str, str]) -> None:
    """Ask once more for the events that were missing: some may have become visible meanwhile."""
    count, done = comparison.count_of(MISSING), 0
    again = one.depth.ask_all or count <= MOST_ASKED_AGAIN
    names = one.cells.names()
    for missing in comparison.read(MISSING, size=ASKED):
        if again:
            landed: dict[str, list[Row]] = {}
            days = {names[cell][1] for cell in missing["cell"].tolist()}
            for row in landed_events(one.client, [uuid_of(event) for event in missing], days, values=True):
                landed.setdefault(row.uuid, []).append(row)
            comparison.ask_again(landed, missing, marks)
            done += len(missing)
            one.progress("missing events, asked for again", done, count)
        else:
            comparison.keep_missing(missing)


# -- values ----------------------------------------------------------------------------------------------


def _compare_values(one: _Verifying, expected: Pages, comparison: Comparison) -> Values:
    """Compare the values of the sample, or of the events that differ somewhere; of none without fields.

    Events that lost the marks of the import are compared in every depth.
    """
    compare = partial(compare_values, one.client, one.session, fields=one.depth.fields, progress=one.progress)
    suspects = EventSet(comparison.places(SUSPECT))
    again = partial(_sent_again, one, suspects)
    if one.depth.fields != "sample":
        equal = comparison.counts["found"] - comparison.counts["duplicated"] - len(suspects)
        return compare(again(), total=len(suspects), equal=equal if one.depth.fields == "all" else 0)
    sample, strata = sample_of(expected.candidates())
    places = {(sent.phase, sent.block, sent.at) for sent in sample}

    def both() -> Iterator[Sent]:
        yield from sample
        yield from (sent for sent in again() if sent[:3] not in places)

    return compare(both(), total=len(sample) + len(suspects), strata=strata)


def _sent_again(one: _Verifying, suspects: EventSet) -> Iterator[Sent]:
    """The suspects as they were sent, by transforming their blocks once more."""
    if not suspects:
        return
    mapper = one.config.compile(one.config.options)
    for phase, name in enumerate(PHASES):
        blocks = suspects.blocks(phase)
        if not blocks:
            continue
        if name != EVENTS:
            for number, events in phase_blocks(name, one.plan, one.directory, mapper, one.config.options):
                if number in blocks:
                    for index in suspects.indices(phase, number):
                        yield Sent(phase, number, index, events[index])
            continue

        def choose(planned: PlannedBlock) -> Task | None:
            return task_of(one.plan, planned) if planned.sealed.number in blocks else None  # noqa: B023

        work = partial(_some_events, phase=phase, suspects=suspects)
        with Workers(0, one.config) as workers:
            for _, sent in workers.walk(work, tasks(one.directory, choose)):
                yield from sent


def _some_events(transformer: BlockTransformer, task: Task, phase: int, suspects: EventSet) -> list[Sent]:
    events = transformer.sent_events(task)
    return [Sent(phase, task.number, index, events[index]) for index in suspects.indices(phase, task.number)]
