"""Compares a project of PostHog with the one that plans moved it to: events, persons, groups and metrics of both sides.

Events are equal if uuid, name, distinct_id and time are. Of the source, those count that were ingested until the last
one that the plans read (`created_at`); of the target, those with the marks of the plans. Updates such as $identify are
compared by their effect: persons have the same ids, and groups are there by type and key.

Differences are explained by what the plans know: events that they leave out or reject by their uuids, rows that the
mapping skips by their number per name. Tables of the scratch database:

there, here     the events of the source and of the target, each once
known           the events of the plans; `code` is null for one that was planned
left_out        uuids (hi, lo) and ids (`hash_id`) of rejected rows, refused events and pairs that are not merged
differences     events that only one side has, by `kind`: missing, different, extra, `left_out` with its code, `paired`
                with a different one, and `other` if the target's events have no marks
ids_there, ids_here   the ids of persons
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import msgspec

from pipeline.errors import UsageError
from pipeline.fetch.tools.posthog import ids_after
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database
from pipeline.ledger import read_refused_events, state_digest
from pipeline.models import Reject, Step
from pipeline.plan.requests.query import MEMORY, add_facts
from pipeline.plan.sealed.contents import sealed_lines
from pipeline.plan.sealed.directory import Directory, LinesWriter
from pipeline.plan.sealed.discarded import refuse_discarded
from pipeline.plan.sealed.manifest import Plan
from pipeline.timestamps import BadTime, format_utc, read_iso
from pipeline.uuids import uuid_text
from pipeline.verify.expected import LANDED, event_columns
from pipeline.verify.landed import PAGE, quoted
from pipeline.verify.metrics import CHARTS, UPDATES, chart_numbers, paged, shown_rows
from pipeline.verify.number_findings import Metric, Metrics
from pipeline.verify.provenance import having, provenance_of
from pipeline.verify.reconcile import count_landed, store_landed
from pipeline.verify.session import END, Pages, Session, parquet
from pipeline.verify.source_findings import SourceCell, SourceCheck, SourceEvent, SourceGroups, SourcePersons

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

Plans = Sequence[tuple[Plan, Directory]]
SHOWN = 20
"""Cells, events, persons and groups of a result that differ; the file has all events."""
_SAME = "hi, lo, name, person, time"
_UPDATES = f"event in ({quoted([*UPDATES, '$merge_dangerously'])})"
_DAY = "CAST(CAST(make_timestamp(time) AS DATE) AS VARCHAR)"
_NOT_MERGED = ("refused", "conflict")
"""Decisions about pairs of ids."""


class _Row(msgspec.Struct):
    uuid: str = ""
    distinct_id: str = ""
    event: str = ""
    created_at: Any = ""

    @property
    def received(self) -> int:
        """When an event was ingested, in µs UTC; 0 if it is not known."""
        with suppress(BadTime):
            return read_iso(str(self.created_at), space=True).us if self.event else 0
        return 0


class _Side(NamedTuple):
    name: str
    client: ManagementClient
    where: str


_read_row = msgspec.json.Decoder(_Row).decode


def check_moved(plan: Plan, directory: Directory) -> None:
    """Raise UsageError for a plan of another tool, or whose events were discarded."""
    refuse_discarded(plan, directory)
    if plan.tool != "posthog":
        raise UsageError(
            f"{directory.name} is a plan of {plan.tool}, whose events have other uuids than its source",
            hint="leave out --source; verify --against compares with numbers of the old tool's charts",
        )


def compare_source(source: ManagementClient, target: ManagementClient, plans: Plans, progress: Step) -> SourceCheck:
    """Compare both sides. The last of the plans gets the file of events that differ.

    Raises Refused, Unfinished, StalePlan.
    """
    last = plans[-1][1]
    sides = [(client.base_url, client.project_id) for client in (source, target)]
    states = [(plan.digest, state_digest(one.ledger)) for plan, one in plans]
    with (
        Session(last, sides, states, within=last.source_verification) as session,
        Database(session.path, memory=MEMORY, threads=2) as database,
    ):
        until = _add_known(database, plans)
        before = f"created_at <= toDateTime64('{until[:-1].replace('T', ' ')}', 6, 'UTC')" if until else ""
        marks = sorted({having(provenance_of(plan)) for plan, _ in plans})
        own = "" if "" in marks else f"({' or '.join(marks)})"
        there = _Side("source", source, _and(f"not {_UPDATES}", before))
        here = _Side("target", target, _and(f"not {_UPDATES}", own))
        later = f"not ({before})" if before else "false"
        found = _compare_events(session, database, plans, (there, here), bool(own), progress)
        with LinesWriter(last.source_differences) as writer:
            writer.write_all(_differing(database, ""))
            writer.close()
        return msgspec.structs.replace(
            found,
            source=source.base_url,
            plans=[one.path.name for _, one in plans],
            until=until,
            later=_count(source, _and(f"not {_UPDATES}", later)),
            updates=_count(source, _and(_UPDATES, before)),
            persons=_compare_persons(session, database, (there, here), later, progress),
            groups=_compare_groups(database, plans, source, target),
            metrics=_compare_metrics(database, there, here, progress),
        )


def _and(*conditions: str) -> str:
    return " and ".join(filter(None, conditions))


def _rows(client: ManagementClient, sql: str) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in client.query(sql).results]


def _count(client: ManagementClient, where: str) -> int:
    return int(client.query(f"select count(*) from events where {where} limit 1").results[0][0])


def _add_known(database: Database, plans: Plans) -> str:
    """Add the tables of what the plans know. Returns when the last event that they read was ingested, "" if unknown."""
    views = []
    database.run("CREATE TABLE left_out (hi UBIGINT, lo UBIGINT, id UBIGINT, code VARCHAR, received BIGINT)")
    for number, (_, directory) in enumerate(plans):
        add_facts(database, directory, f"facts_{number}")
        views.append(f"SELECT {_SAME}, CAST(code AS VARCHAR) AS code, received FROM facts_{number}")
        refused = ((_Row(one.uuid), "refused_event") for one in read_refused_events(directory.ledger))
        rejected = ((_row(one.record), one.code) for one in sealed_lines(directory.rejects, Reject))
        database.insert("left_out", (
            (*_halves(row.uuid), hash_id(row.distinct_id), code, row.received) for row, code in chain(refused, rejected)
        ))  # fmt: skip
        if directory.pairs.exists():
            pairs = f"SELECT unnest([anonymous_id, user_id]), decision FROM {parquet(directory.pairs)}"
            ids = database.tuples(f"{pairs} WHERE decision IN ({quoted(_NOT_MERGED)})")
            database.insert("left_out", ((0, 0, hash_id(id), f"{decision}_merge", 0) for id, decision in ids))
    database.run(f"CREATE VIEW known AS {' UNION ALL '.join(views)}")
    last = max(database.number(f"SELECT max(received) FROM {table}") for table in ("known", "left_out"))
    planned = "SELECT (hi, lo) FROM known WHERE code IS NULL"  # what one plan rejected, another may have sent
    database.run(f"DELETE FROM left_out WHERE code != 'refused_event' AND (hi, lo) IN ({planned})")
    return format_utc(last) if last else ""


def _row(record: str) -> _Row:
    """The uuid and the id of a rejected row, as far as it has them."""
    with suppress(msgspec.MsgspecError):
        return _read_row(record)
    return _Row()


def _halves(uuid: str) -> tuple[int, int]:
    try:
        return divmod(UUID(uuid).int, 1 << 64)
    except ValueError:
        return 0, 0


def _compare_events(
    session: Session, database: Database, plans: Plans, sides: tuple[_Side, _Side], marked: bool, progress: Step
) -> SourceCheck:
    """Fill the tables of events, and return the part of the result about them. `marked`: the events of the target are
    known by their marks."""
    run = database.run
    cells: list[Counter[tuple[str, str]]] = []
    for table, side in zip(("there", "here"), sides, strict=True):
        pages = Pages(session, side.name, LANDED)
        cells.append(count_landed(session, side.client, side.where, f"{side.name}-counts"))
        store_landed(side.client, pages, cells[-1], side.where, progress, f"events of the {side.name}")
        run(f"CREATE TABLE {table} AS SELECT DISTINCT {_SAME} FROM {pages.relation}")
    run("CREATE TABLE skips (name VARCHAR, code VARCHAR, most BIGINT)")
    by_uuid = {code for (code,) in database.rows("SELECT DISTINCT code FROM known")}
    for plan, _ in plans:
        events = plan.coverage.events if plan.coverage is not msgspec.UNSET else ()
        skipped = ((one.event, *pair) for one in events for pair in one.left_out.items())
        database.insert("skips", (skip for skip in skipped if skip[1] not in by_uuid.union(plan.rejects)))
    run(f"CREATE TABLE gained AS SELECT * FROM here ANTI JOIN there USING ({_SAME})")
    run(
        f"CREATE TABLE lost AS SELECT {_SAME}, coalesce(known.code, left_out.code) AS code, gained.hi IS NOT NULL AS"
        f" other, {_DAY} AS day FROM (FROM there ANTI JOIN here USING ({_SAME}))"
        f" LEFT JOIN (SELECT {_SAME}, min(code) AS code FROM known WHERE code IS NOT NULL GROUP BY ALL) AS known"
        f" USING ({_SAME}) LEFT JOIN (SELECT hi, lo, min(code) AS code FROM left_out GROUP BY ALL) AS left_out"
        " USING (hi, lo) LEFT JOIN (SELECT DISTINCT hi, lo FROM gained) AS gained USING (hi, lo)"
    )
    run(
        f"CREATE TABLE differences AS SELECT {_SAME}, day, CASE WHEN lost.code IS NOT NULL THEN 'left_out' WHEN other"
        " THEN 'different' WHEN nth <= most THEN 'left_out' ELSE 'missing' END AS kind, coalesce(lost.code, CASE WHEN"
        " NOT other AND nth <= most THEN skips.code END, '') AS code FROM (SELECT *, row_number() OVER (PARTITION BY"
        " name, code IS NULL, other ORDER BY hi, lo) AS nth FROM lost) AS lost LEFT JOIN (SELECT name, min(code) AS"
        " code, sum(most) AS most FROM skips GROUP BY name) AS skips USING (name)"
    )
    run(
        f"INSERT INTO differences SELECT {_SAME}, {_DAY}, CASE WHEN (hi,"
        " lo) IN (SELECT (hi, lo) FROM differences WHERE kind = 'different') THEN 'paired'"
        f" WHEN {marked} OR (hi, lo) IN (SELECT (hi, lo) FROM known WHERE code IS NULL) THEN 'extra' ELSE 'other' END,"
        " '' FROM gained"
    )
    rows_of = "FROM differences WHERE kind {} 'left_out' GROUP BY ALL ORDER BY ALL"
    kinds = Counter(dict(database.rows(f"SELECT kind, count(*) {rows_of.format('!=')}")))
    because = dict(database.rows(f"SELECT code, count(*) {rows_of.format('=')}"))
    net = database.rows(
        "SELECT name, day, CAST(sum(CASE kind WHEN 'left_out' THEN 1 ELSE -1 END) AS BIGINT) FROM differences"
        " WHERE kind IN ('left_out', 'other') GROUP BY ALL"
    )
    explained = {(name, day): count for name, day, count in net}
    both = sorted(cells[0].keys() | cells[1].keys(), key=lambda cell: cell[::-1])
    rows = [SourceCell(*cell, cells[0][cell], cells[1][cell], explained.get(cell, 0)) for cell in both]
    differing = [row for row in rows if row.differs]
    return SourceCheck(
        events=database.number("SELECT count(*) FROM there"),
        found=database.number("SELECT count(*) FROM here"),
        missing=kinds["missing"],
        different=kinds["different"],
        extra=kinds["extra"],
        others=kinds["other"],
        because=because,
        cells=len(rows),
        cells_differing=len(differing),
        rows=differing[:SHOWN],
        differences=list(_differing(database, f" LIMIT {SHOWN}")),
    )


def _differing(database: Database, limit: str) -> Iterator[SourceEvent]:
    """Events that differ, those without an explanation first."""
    query = "SELECT kind, code, hi, lo, name, day FROM differences WHERE kind NOT IN ('paired', 'other')"
    for kind, code, hi, lo, name, day in database.tuples(
        f"{query} ORDER BY code != '', kind, day, name, hi, lo{limit}"
    ):
        yield SourceEvent(kind, uuid_text(hi, lo), name, day, code)


def _compare_persons(
    session: Session, database: Database, sides: tuple[_Side, _Side], later: str, progress: Step
) -> SourcePersons:
    """Whether the same ids are one person on both sides. An id of the target that no event of the plans has is that of
    a live person."""
    for name, side in zip(("ids_there", "ids_here"), sides, strict=True):
        pages = Pages(session, name, LANDED)
        while pages.cursor != END:
            rows, more = ids_after(partial(_rows, side.client), pages.cursor or "", PAGE)
            uuids, ids = zip(*rows, strict=True) if rows else ((), ())
            columns = event_columns(uuids, ids, ids, ["1970-01-01T00:00:00Z"] * len(ids), [0] * len(ids))
            pages.add(columns, uuids[-1] if more else END)
            progress(f"ids of the {side.name}", pages.rows, 0)
        columns_of = "hash(hi, lo) AS person, person AS id, name AS distinct_id"
        database.run(f"CREATE VIEW {name} AS SELECT {columns_of} FROM {pages.relation}")
    database.run("CREATE TABLE late (hi UBIGINT, lo UBIGINT)")
    query = f"select distinct person_id from events where {later} order by person_id"
    database.insert("late", (_halves(str(person)) for (person,) in paged(sides[0].client, query)))
    database.run(
        "CREATE TABLE excused AS SELECT person, min(code) AS code FROM (SELECT hash(hi, lo) AS person, 'later' AS code"
        " FROM late UNION ALL SELECT person, code FROM ids_there JOIN left_out USING (id) WHERE code LIKE '%_merge')"
        " GROUP BY person"
    )
    database.run(
        "CREATE VIEW edges AS SELECT * FROM ids_there JOIN (SELECT id, person AS theirs FROM ids_here) USING (id)"
    )
    split_persons = "SELECT person FROM edges GROUP BY person HAVING min(theirs) != max(theirs)"
    merged_persons = "SELECT theirs FROM edges GROUP BY theirs HAVING min(person) != max(person)"
    planned = "(SELECT DISTINCT person AS id, true AS planned FROM known WHERE code IS NULL)"
    some = "list(DISTINCT distinct_id ORDER BY distinct_id)[:5] AS ids FROM edges SEMI JOIN"
    database.run(
        f"CREATE TABLE odd_people AS SELECT 'split' AS kind, any_value(code) AS code, {some} ({split_persons})"
        " USING (person) LEFT JOIN excused USING (person) GROUP BY person"
        f" UNION ALL SELECT 'merged', NULL, {some} ({merged_persons}) USING (theirs) GROUP BY theirs"
        " UNION ALL SELECT 'extra', NULL, [distinct_id] FROM ids_here ANTI JOIN ids_there USING (id)"
        f" SEMI JOIN {planned} USING (id)"
        " UNION ALL SELECT 'missing', coalesce(excused.code, CASE WHEN planned IS NULL THEN codes.code END),"
        f" [distinct_id] FROM ids_there ANTI JOIN ids_here USING (id) LEFT JOIN {planned} USING (id)"
        " LEFT JOIN excused USING (person) LEFT JOIN (SELECT id, min(code) AS code FROM left_out GROUP BY id) AS codes"
        " USING (id)"
    )
    counts: Counter[str] = Counter()
    because: Counter[str] = Counter()
    for kind, code, count in database.rows("SELECT kind, code, count(*) FROM odd_people GROUP BY ALL ORDER BY ALL"):
        (because if code else counts)[code or kind] += count
    examples = database.rows(
        "SELECT kind, ids FROM odd_people WHERE code IS NULL"
        f" QUALIFY row_number() OVER (PARTITION BY kind ORDER BY ids) <= {SHOWN} ORDER BY kind, ids"
    )
    persons, persons_found, all_ids, ids_found = (
        database.number(f"SELECT count(DISTINCT {column}) FROM {table}")
        for column in ("person", "id")
        for table in ("ids_there", "ids_here")
    )
    split, merged, missing, extra = (counts[kind] for kind in ("split", "merged", "missing", "extra"))
    shown = [(kind, list(ids)) for kind, ids in examples]
    return SourcePersons(
        persons, persons_found, all_ids, ids_found, split, merged, missing, extra, dict(because), shown
    )


def _compare_groups(
    database: Database, plans: Plans, source: ManagementClient, target: ManagementClient
) -> list[SourceGroups]:
    """The groups of each type of the source, by their keys."""
    types = [client.projects.group_types() for client in (source, target)]
    for table, client, known in zip(("groups_there", "groups_here"), (source, target), types, strict=True):
        database.run(f"CREATE TABLE {table} (number BIGINT, id UBIGINT, key VARCHAR)")
        rows = paged(client, "select index, key from groups order by index, key") if known else ()
        database.insert(table, ((int(index), hash_id(str(key)), str(key)) for index, key in rows))
    chosen = {type_ for plan, _ in plans for type_ in plan.options.group_types}
    found = []
    for name, own in types[0].items():
        other = types[1].get(name, -1)
        here = f"(FROM groups_here WHERE number = {other})"
        lost = f"FROM (FROM groups_there WHERE number = {own}) ANTI JOIN {here} USING (id)"
        keys = [key for (key,) in database.rows(f"SELECT key {lost} ORDER BY key LIMIT {SHOWN}")]
        count = f"SELECT count(*) FROM groups_there WHERE number = {own}"
        queries = (count, f"SELECT count(*) FROM {here}", f"SELECT count(*) {lost}")
        groups, there, missing = map(database.number, queries)
        left_out = bool(chosen) and name not in chosen
        found.append(SourceGroups(name, own, other, groups, there, missing, left_out, keys))
    return found


def _compare_metrics(database: Database, there: _Side, here: _Side, progress: Step) -> Metrics:
    """The numbers of charts on both sides, which the services count themselves. Those of left-out events, and of events
    of others, are not equal; only what they do not explain counts as different."""
    kinds = "SELECT count(*) FROM differences WHERE kind = "
    left, others = database.number(f"{kinds}'left_out'"), database.number(f"{kinds}'other'")
    rows: list[Metric] = []
    for done, metric in enumerate(CHARTS):
        progress("metrics of both sides", done, len(CHARTS))
        sides = [chart_numbers(one.client, metric, one.where) for one in (there, here)]
        for name in sorted(sides[0].keys() | sides[1].keys()):
            one, other = (side.get(name, (0, 0)) for side in sides)
            rows.append(Metric(metric, name, *one, *other))
    fewer = [row.events - row.events_found for row in rows if row.differs]
    differing = sum(not -others <= some <= left or not (some or others) for some in fewer)
    return Metrics(compared=Counter(row.metric for row in rows), differing=differing, rows=shown_rows(rows))
