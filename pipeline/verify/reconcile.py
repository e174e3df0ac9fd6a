"""Compares what landed with the ledger: nothing missing, nothing extra, nothing altered, nothing twice, no person lost.

First the counts by event and UTC day; then two sets exactly, by (uuid, event, distinct_id, timestamp), either all
events or those of days whose counts differ; then the values of a sample, or of all; then what the service made of
merges, profiles and groups. Both sides are files, and queries that spill to disk join them, so memory does not grow
with the history; an interrupted verification continues (`pipeline.verify.session`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import UNSET

from pipeline.identity.database import Database
from pipeline.ledger import BatchKey, read_doubts, state_digest
from pipeline.models import Step
from pipeline.plan.requests.query import MEMORY, add_facts
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.verify.against import compare_old_numbers
from pipeline.verify.comparison import Comparison
from pipeline.verify.earlier import kept_kinds, with_earlier
from pipeline.verify.expected import LANDED, Sent, add_replayed, digest_of, event_columns, read_places, write_expected
from pipeline.verify.fields import Values, compare_values, sample_of
from pipeline.verify.findings import Fields, FoundCounts, PeopleCheck, Uuids, Verification, WarningCheck
from pipeline.verify.landed import (
    BEGIN,
    PAGE,
    VALUES_PAGE,
    Cursor,
    landed_cells,
    landed_copies,
    landed_events,
    landed_pages,
)
from pipeline.verify.metrics import compare_metrics
from pipeline.verify.number_findings import Metrics
from pipeline.verify.people import Latest, check_people, person_differences
from pipeline.verify.provenance import count_plans, having, provenance_of
from pipeline.verify.rows import name_differences
from pipeline.verify.session import END, Pages, Session
from pipeline.verify.settle import settled_for
from pipeline.verify.values import landed_properties
from pipeline.verify.warnings import read_warnings

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

MOST_ASKED_AGAIN = 20_000
"""Up to this many missing events are asked for once more; if there are more, only before they are sent again."""


class Depth(NamedTuple):
    """How much is compared. `whole`: the service has only this plan's events, so any other event is extra.
    `among_others`: the plan is one of many in its import, so only events with its uuids are compared, and only on the
    days of its events; `latest` says, by a group's type, key and uuid, whether no later plan of the import updated the
    group. `ask_all`: every missing event is asked for once more, since it is to be sent again. What a deeper
    verification found, `earlier`, stays. `metrics`: the numbers of charts are compared, with those of the file
    `against`, if any, whose days are those of `against_timezone` ("": the plan's).
    """

    uuids: Uuids = "all"
    fields: Fields = "none"
    whole: bool = False
    among_others: bool = False
    latest: Latest | None = None
    ask_all: bool = False
    earlier: Verification | None = None
    metrics: bool = False
    against: str = ""
    against_timezone: str = ""


UUIDS = Depth()
"""Every uuid, but no values."""


class _Verifying(NamedTuple):
    """One verification: what it compares, with what, and where it keeps results. `marks` are the marks of the
    import."""

    plan: Plan
    directory: Directory
    client: ManagementClient
    depth: Depth
    session: Session
    database: Database
    marks: Mapping[str, str]
    progress: Step


def verify(
    plan: Plan,
    directory: Directory,
    client: ManagementClient,
    *,
    depth: Depth = UUIDS,
    missing: Callable[[Sequence[BatchKey]], None] | None = None,
    progress: Step = lambda name, done, total: None,
) -> Verification:
    """Compare the service behind `client` with the plan's ledger.

    Events without a uuid of the plan belong to others, who may send to the project too; they are counted separately.
    Only events with the plan's provenance are read, or all if it was planned without. `progress` is called
    with the name of a step, how many of its events are done, and how many it has; `missing` is called with the missing
    events.
    """
    keep = kept_kinds(depth.earlier, depth.uuids, depth.fields)
    marks = {} if depth.whole else provenance_of(plan)
    age = settled_for(directory.ledger)
    asked = depth._replace(earlier=None, latest=None)
    key = plan.digest, client.base_url, client.project_id, marks, asked, state_digest(directory.ledger)
    with Session(directory, *key) as session, Database(session.path, memory=MEMORY, threads=2) as database:
        add_facts(database, directory)
        one = _Verifying(plan, directory, client, depth, session, database, marks, progress)
        found = with_earlier(_verify(one, missing, keep), depth.earlier, keep)
    batches, events = read_doubts(directory.ledger)
    doubts = {"batches": batches, "events": events}
    return msgspec.structs.replace(
        found,
        proved=found.uuids == "all" and not found.is_wrong,
        settled=None if age is None else round(age, 1),
        resolved_doubts=doubts,
    )


def _verify(
    one: _Verifying, missing: Callable[[Sequence[BatchKey]], None] | None, keep: frozenset[str]
) -> Verification:
    where, depth, client = having(one.marks), one.depth, one.client
    values = depth.fields == "all"
    expected = write_expected(one.session, one.directory, one.database, values=values, progress=one.progress)
    landed = Pages(one.session, "landed", LANDED)
    comparison = Comparison(one.database, expected)
    counts = count_landed(one.session, client, where)
    if depth.among_others:
        counts = _on(comparison.days(), counts)
    read = comparison.differing_days(counts) if depth.uuids == "differing" else None
    store_landed(client, landed, counts, where, one.progress, days=read, values=values)
    add_replayed(one.database, one.plan)
    comparison.compare(landed.relation, alone=depth.whole, among_others=depth.among_others, days=read)
    _ask_again(one, comparison)
    if missing is not None:
        missing(comparison.lost())
    found = _compare_values(one, comparison)
    comparison.counts["altered"] = found.check.altered
    people, warnings = PeopleCheck(), WarningCheck()
    if depth.fields != "none":
        people = check_people(
            client, one.session, one.directory, every=values, progress=one.progress,
            latest=depth.latest, alone=depth.whole,
        )  # fmt: skip
        warnings = read_warnings(client, one.database, one.plan, one.directory)
    differences = name_differences(
        client, one.database, found.altered, one.plan, one.directory, person_differences(one.session), one.progress,
        keep,
    )  # fmt: skip
    metrics: Metrics | msgspec.UnsetType = msgspec.UNSET
    if depth.metrics:
        metrics = compare_metrics(client, one.session, one.database, one.directory, one.marks, one.progress)
        if depth.against:
            against = compare_old_numbers(one.database, one.plan, one.directory, depth.against, depth.against_timezone)
            metrics = msgspec.structs.replace(metrics, against=against)
    if not depth.among_others and read is None:
        comparison.count_copies(landed_copies(client, where))
    return Verification(
        cells=comparison.cells(), events=FoundCounts(**comparison.counts), proved=False, differences=differences,
        extras=comparison.extras(), scope=dict(one.marks), uuids=depth.uuids, values=found.check, people=people,
        warnings=warnings, metrics=metrics,
        by_plan=(None if depth.among_others else count_plans(client, one.plan, where)) or UNSET,
    )  # fmt: skip


def _on(days: set[str], counts: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    return Counter({cell: count for cell, count in counts.items() if cell[1] in days})


def count_landed(
    session: Session, client: ManagementClient, where: str, name: str = "counts"
) -> Counter[tuple[str, str]]:
    """The counts of a service by event and UTC day, those of an earlier run if it was interrupted."""
    counts = session.kept(
        f"{name}.json",
        list[tuple[str, str, int]],
        lambda: [(*cell, count) for cell, count in landed_cells(client, where=where).items()],
    )
    return Counter({(event, day): count for event, day, count in counts})


def store_landed(
    client: ManagementClient,
    pages: Pages,
    counts: Counter[tuple[str, str]],
    where: str,
    progress: Step,
    what: str = "events at the target",
    *,
    days: set[str] | None = None,
    values: bool = False,
) -> None:
    """Store everything that landed, on some days or on all, from where an earlier run stopped."""
    if pages.cursor == END:
        return
    if days is not None:
        counts = _on(days, counts)
    start = Cursor(*pages.cursor) if pages.cursor else BEGIN
    size = VALUES_PAGE if values else PAGE
    for rows, cursor in landed_pages(client, counts, size, where, values=values, start=start):
        if days is not None:
            rows = [row for row in rows if row.timestamp[:10] in days]
        uuids, names, ids, times, texts = zip(*rows, strict=True) if rows else ((),) * 5
        digests = [0 if text is None else _digest(text) for text in texts]
        pages.add(event_columns(uuids, names, ids, times, digests), cursor)
        progress(what, pages.rows, counts.total())
    pages.finish()


def _digest(text: object) -> int:
    properties = landed_properties(text)
    return 1 if properties is None else digest_of(properties)


def _ask_again(one: _Verifying, comparison: Comparison) -> None:
    """Ask once more for the events that were missing: some may have become visible meanwhile."""
    count, done = comparison.count_missing(), 0
    if one.depth.ask_all or count <= MOST_ASKED_AGAIN:
        for missing in comparison.missing():
            uuids, days = [event.uuid for event in missing], {event.day for event in missing}
            comparison.ask_again(missing, landed_events(one.client, uuids, days, values=True), one.marks)
            done += len(missing)
            one.progress("missing events, asked for again", done, count)
    comparison.conclude()


def _compare_values(one: _Verifying, comparison: Comparison) -> Values:
    """Compare the values of the sample, or of the events that differ somewhere; of none if fields are not compared.

    Events that lost the marks of the import are compared at every depth.
    """
    compare = partial(compare_values, one.client, one.session, fields=one.depth.fields, progress=one.progress)
    suspects = comparison.count_suspects()
    again = partial(read_places, one.directory, comparison.suspects())
    if one.depth.fields != "sample":
        equal = comparison.counts["found"] - comparison.counts["duplicated"] - suspects
        return compare(again(), total=suspects, equal=equal if one.depth.fields == "all" else 0)
    sample, strata = sample_of(one.database, one.directory)
    places = {sent[:3] for sent in sample}

    def both() -> Iterator[Sent]:
        yield from sample
        yield from (sent for sent in again() if sent[:3] not in places)

    return compare(both(), total=len(sample) + suspects, strata=strata)
