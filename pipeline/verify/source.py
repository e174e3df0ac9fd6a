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
edges           ids with their persons at the source and at the target (`theirs`)
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
from pipeline.verify.comparison import DAY, SAME, SHOWN
from pipeline.verify.expected import IDS, LANDED, encodable, id_columns
from pipeline.verify.landed import PAGE, quoted
from pipeline.verify.metrics import CHARTS, UPDATES, chart_numbers, paged, several, shown_people, shown_rows
from pipeline.verify.number_findings import Metric, Metrics
from pipeline.verify.provenance import having, provenance_of
from pipeline.verify.reconcile import count_landed, store_landed
from pipeline.verify.session import END, Pages, Session, parquet
from pipeline.verify.source_findings import SourceCell, SourceCheck, SourceEvent, SourceGroups, SourcePersons

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

Plans = Sequence[tuple[Plan, Directory]]
_UPDATES = f"event in ({quoted([*UPDATES, '$merge_dangerously'])})"


class _Row(msgspec.Struct):
    uuid: str = ""
    distinct_id: str = ""
    event: str = ""
    created_at: Any = ""


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
    if sides[0] == sides[1]:
        raise UsageError("--source and --to are the same project", hint="give --source the project that was exported")
    states = [(plan.digest, state_digest(one.ledger)) for plan, one in plans]
    with (
        Session(last, sides, states, within=last.source_verification) as session,
        Database(session.path, memory=MEMORY, threads=2) as database,
    ):
        until = _add_known(database, plans)
        before = f"created_at <= toDateTime64('{until[:-1].replace('T', ' ')}', 6, 'UTC')" if until else "true"
        marks = sorted({having(provenance_of(plan)) for plan, _ in plans})
        marked = all(marks)
        there = _Side("source", source, f"not {_UPDATES} and {before}")
        here = _Side("target", target, f"not {_UPDATES} and ({' or '.join(marks) if marked else 'true'})")
        found = _compare_events(session, database, plans, (there, here), marked, progress)
        with LinesWriter(last.source_differences) as writer:
            writer.write_all(_differing(database, ""))
            writer.close()
        return msgspec.structs.replace(
            found,
            source=source.base_url,
            plans=[one.path.name for _, one in plans],
            until=until,
            later=_count(source, f"not {_UPDATES} and not {before}"),
            updates=_count(source, f"{_UPDATES} and {before}"),
            persons=_compare_persons(session, database, (there, here), f"not {before}", progress),
            groups=_compare_groups(database, plans, source, target),
            metrics=_compare_metrics(database, there, here, progress),
        )


def _rows(client: ManagementClient, sql: str) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in client.query(sql).results]


def _count(client: ManagementClient, where: str) -> int:
    return int(client.query(f"select count(*) from events where {where} limit 1").results[0][0])


def _add_known(database: Database, plans: Plans) -> str:
    """Add the tables of what the plans know. Returns when the last event that they read was ingested, "" if unknown."""
    views = []
    database.run("CREATE TABLE left_out (hi UBIGINT, lo UBIGINT, id UBIGINT, received BIGINT, code VARCHAR)")
    for number, (_, directory) in enumerate(plans):
        add_facts(database, directory, f"facts_{number}")
        views.append(f"SELECT {SAME}, CAST(code AS VARCHAR) AS code, received FROM facts_{number}")
        refused = ((*_halves(one.uuid), 0, 0, "refused_event") for one in read_refused_events(directory.ledger))
        rejected = ((*_read(one.record), one.code) for one in sealed_lines(directory.rejects, Reject))
        database.insert("left_out", chain(refused, rejected))
        if directory.pairs.exists():
            pairs = f"SELECT unnest([anonymous_id, user_id]), decision FROM {parquet(directory.pairs)}"
            ids = database.tuples(f"{pairs} WHERE decision IN ('refused', 'conflict')")
            database.insert("left_out", ((0, 0, hash_id(id), 0, f"{decision}_merge") for id, decision in ids))
    database.run(f"CREATE VIEW known AS {' UNION ALL '.join(views)}")
    last = max(database.number(f"SELECT max(received) FROM {table}") for table in ("known", "left_out"))
    planned = "SELECT (hi, lo) FROM known WHERE code IS NULL"  # what one plan rejected, another may have sent
    database.run(f"DELETE FROM left_out WHERE code != 'refused_event' AND (hi, lo) IN ({planned})")
    return format_utc(last) if last else ""


def _read(record: str) -> tuple[int, int, int, int]:
    """The uuid, the id and the time of ingestion (µs UTC) of a rejected row, as far as it has them."""
    row, received = _Row(), 0
    with suppress(msgspec.MsgspecError):
        row = _read_row(record)
    with suppress(BadTime):
        received = read_iso(str(row.created_at), space=True).us if row.event else 0
    return *_halves(row.uuid), hash_id(row.distinct_id), received


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
        run(f"CREATE TABLE {table} AS SELECT DISTINCT {SAME} FROM {pages.relation}")
    run("CREATE TABLE skips (name VARCHAR, code VARCHAR, most BIGINT)")
    by_uuid = {code for (code,) in database.rows("SELECT DISTINCT code FROM known")}
    for plan, _ in plans:
        events = plan.coverage.events if plan.coverage is not msgspec.UNSET else ()
        skipped = ((one.event, *pair) for one in events for pair in one.left_out.items())
        database.insert("skips", (skip for skip in skipped if skip[1] not in by_uuid.union(plan.rejects)))
    one_side = (
        f"SELECT {SAME}, {DAY}, lost IS NULL AS gained FROM (SELECT *, true AS lost FROM there) FULL JOIN"
        f" (SELECT *, true AS found FROM here) USING ({SAME}) WHERE lost IS NULL OR found IS NULL"
    )
    coded = (
        f"SELECT one.*, coalesce(known.code, left_out.code) AS code FROM ({one_side}) AS one"
        f" LEFT JOIN (SELECT {SAME}, min(code) AS code FROM known GROUP BY ALL) AS known USING ({SAME})"
        " LEFT JOIN (SELECT hi, lo, min(code) AS code FROM left_out GROUP BY ALL) AS left_out USING (hi, lo)"
    )
    paired = (
        "SELECT *, bool_or(gained) OVER same_uuid AS other, bool_or(NOT gained AND code IS NULL) OVER same_uuid"
        f" AS changed FROM ({coded}) WINDOW same_uuid AS (PARTITION BY hi, lo)"
    )
    numbered = "row_number() OVER (PARTITION BY name, gained, other, code IS NULL ORDER BY hi, lo) <= most"
    kinds_of = (
        "SELECT *, CASE WHEN gained AND changed THEN 'paired'"
        f" WHEN gained AND ({marked} OR (hi, lo) IN (SELECT (hi, lo) FROM known WHERE code IS NULL)) THEN 'extra'"
        " WHEN gained THEN 'other' WHEN code IS NOT NULL THEN 'left_out' WHEN other THEN 'different'"
        f" WHEN {numbered} THEN 'left_out' ELSE 'missing' END AS kind FROM ({paired})"
        " LEFT JOIN (SELECT name, min(code) AS skip, sum(most) AS most FROM skips GROUP BY name) USING (name)"
    )
    code = "CASE kind WHEN 'left_out' THEN coalesce(code, skip) ELSE '' END AS code"
    run(f"CREATE TABLE differences AS SELECT hi, lo, name, day, kind, {code} FROM ({kinds_of})")
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
        pages = Pages(session, name, IDS)
        while pages.cursor != END:
            rows, more = ids_after(partial(_rows, side.client), pages.cursor or "", PAGE)
            persons, ids = zip(*rows, strict=True) if rows else ((), ())
            pages.add(id_columns(persons, ids), persons[-1] if more else END)
            progress(f"ids of the {side.name}", pages.rows, 0)
        database.run(f"CREATE VIEW {name} AS FROM {pages.relation}")
    database.run("CREATE TABLE late (person VARCHAR)")
    query = f"select distinct person_id from events where {later} order by person_id"
    database.insert("late", ((str(person),) for (person,) in paged(sides[0].client, query)))
    database.run(
        "CREATE TABLE excused AS SELECT person, min(code) AS code FROM (SELECT person, 'later' AS code FROM late"
        " UNION ALL SELECT person, code FROM ids_there JOIN left_out USING (id) WHERE code LIKE '%_merge')"
        " GROUP BY person"
    )
    database.run(
        "CREATE TABLE edges AS SELECT id, there.person, here.person AS theirs, coalesce(there.distinct_id,"
        " here.distinct_id) AS distinct_id, planned, excused.code AS excuse, codes.code FROM ids_there AS there"
        " FULL JOIN ids_here AS here USING (id) LEFT JOIN excused ON excused.person = there.person"
        " LEFT JOIN (SELECT DISTINCT person AS id, true AS planned FROM known WHERE code IS NULL) USING (id)"
        " LEFT JOIN (SELECT id, min(code) AS code FROM left_out GROUP BY id) AS codes USING (id)"
    )
    database.run(
        f"CREATE TABLE odd_people AS {several('split', 'any_value(excuse)')} UNION ALL {several('merged')}"
        " UNION ALL SELECT 'extra', NULL, [distinct_id] FROM edges WHERE person IS NULL AND planned"
        " UNION ALL SELECT 'missing', coalesce(excuse, CASE WHEN planned IS NULL THEN code END), [distinct_id]"
        " FROM edges WHERE theirs IS NULL"
    )
    count = "SELECT coalesce(code, kind), count(*) FROM odd_people WHERE code IS {} NULL GROUP BY ALL ORDER BY ALL"
    total = "SELECT count(DISTINCT person), count(DISTINCT theirs), count(person), count(theirs) FROM edges"
    [(persons, persons_found, ids, ids_found)] = database.rows(total)
    wrong, because = (dict(database.rows(count.format(word))) for word in ("", "NOT"))
    return SourcePersons(persons, persons_found, ids, ids_found, wrong, because, shown_people(database))


def _compare_groups(
    database: Database, plans: Plans, source: ManagementClient, target: ManagementClient
) -> list[SourceGroups]:
    """The groups of each type of the source, by their keys."""
    types = [client.projects.group_types() for client in (source, target)]
    for table, client, known in zip(("groups_there", "groups_here"), (source, target), types, strict=True):
        database.run(f"CREATE TABLE {table} (type VARCHAR, key VARCHAR)")
        rows = paged(client, "select index, key from groups order by index, key") if known else ()
        names = {number: name for name, number in known.items()}
        database.insert(table, ((names.get(int(index), ""), encodable(str(key))) for index, key in rows))
    found = database.rows(
        f"SELECT type, count(*), count(*) FILTER (lost), min(key, {SHOWN}) FILTER (lost) FROM (SELECT type, key,"
        " groups_here.key IS NULL AS lost FROM groups_there LEFT JOIN groups_here USING (type, key)) GROUP BY type"
    )
    groups = {type_: (count, lost, keys or []) for type_, count, lost, keys in found}
    chosen = {type_ for plan, _ in plans for type_ in plan.options.group_types}
    return [
        SourceGroups(name, own, types[1].get(name, -1), bool(chosen) and name not in chosen, *groups.get(name, ()))
        for name, own in types[0].items()
    ]


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
